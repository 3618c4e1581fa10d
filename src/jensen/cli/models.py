"""`jensen models`: the models, what each can do, and the options of one.

Libraries are imported inside functions, so that `jensen --help` answers at once.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from jensen.cli.arguments import argument_descriptions, default_text, flag_of, type_text
from jensen.cli.inputs import Json
from jensen.cli.output import show

__all__ = ["models"]


def models(
    name: Annotated[str | None, typer.Argument(help="A model, to list its options.")] = None, as_json: Json = False
) -> None:
    """List the models and what each can do, or all options of one with their defaults.

    A verb that a model cannot honour says why when it is asked for.

    Examples:
      jensen models
      jensen models gaussian-mixture
      jensen models --json
    """
    from jensen.registry import ANSWERS, MATERIAL, MODELS, abilities, model_class

    if name is not None:
        return show_model(name, as_json)
    found = {known: abilities(known) for known in MODELS}
    what = {known: summary_of(model_class(known)) for known in MODELS}
    if as_json:
        return typer.echo(json.dumps([{"model": known, "what": what[known], **found[known]} for known in MODELS]))
    show(("model", "what it is"), [*what.items()])
    for heading, words in (("what it answers", ANSWERS), ("what it learns from", MATERIAL)):
        show((heading, *words), [(known, *(mark(can[word]) for word in words)) for known, can in found.items()])
    typer.echo(
        "score: ln p(x) exactly, or a lower bound of it. predict, labels: after a fit\n"
        "with labels only. holes: missing values. text: columns of words, too. batches:\n"
        "partial_fit, in Python."
    )


def show_model(name: str, as_json: bool) -> None:
    """What a model is and can do, and its options."""
    from jensen.registry import ANSWERS, MATERIAL, MODELS, PAGES, abilities, model_class

    cls = model_class(name)
    name = next(known for known in MODELS if model_class(known) is cls)
    can, meaning, header = abilities(name), argument_descriptions(cls), ("option", "type", "default", "meaning")
    options = [
        (flag_of(p.name), type_text(p), default_text(p.default), meaning.get(p.name, ""))
        for p in inspect.signature(cls, eval_str=True).parameters.values()
    ]
    if as_json:
        told = [dict(zip(header, option, strict=True)) for option in options]
        summary = {"model": name, "what": summary_of(cls), **can, "page": PAGES[name], "options": told}
        return typer.echo(json.dumps(summary))
    head = [
        ("model", f"{name}, the class {cls.__name__}"),
        ("what it is", summary_of(cls)),
        ("what it answers", listed(can, ANSWERS)),
        ("what it learns from", listed(can, MATERIAL)),
        ("page of the documentation", PAGES[name]),
    ]
    show(("", ""), head)
    show(header, options)


def summary_of(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def listed(can: Mapping[str, bool | str], words: Sequence[str]) -> str:
    """What a model can, in words: score (exact), sample, ..."""
    return ", ".join(word if can[word] is True else f"{word} ({can[word]})" for word in words if can[word])


def mark(ability: bool | str) -> str:
    return ability if isinstance(ability, str) else "yes" if ability else "-"
