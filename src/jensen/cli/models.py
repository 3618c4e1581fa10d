"""`jensen models`: the models, what each can do, and the options of one.

Libraries are imported inside functions, so that `jensen --help` is fast.
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


def models(
    name: Annotated[str | None, typer.Argument(help="Name of a model whose options are listed.")] = None,
    as_json: Json = False,
) -> None:
    """List the models and what each can do, or the options of one model with their defaults.

    A command that a model does not support ends with the reason.

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
    for heading, words in (("model and commands", ANSWERS), ("model and data", MATERIAL)):
        rows = [(known, *(mark(can[word]) for word in words)) for known, can in found.items()]
        # A short heading keeps the table within 80 columns.
        show((heading, *("NaN" if word == "holes" else word for word in words)), rows)
    typer.echo(
        "score: ln p(x) (exact) or a lower bound of it (bound). predict: 'labels' means\n"
        "only after a fit with labels. NaN: missing values. text: columns of text.\n"
        "batches: partial_fit, in Python."
    )


def show_model(name: str, as_json: bool) -> None:
    """Print what a model is, what it can do, and its options."""
    from jensen.registry import ANSWERS, MATERIAL, MODELS, PAGES, abilities, model_class

    cls = model_class(name)
    name = next(known for known in MODELS if model_class(known) is cls)
    can, meaning, header = abilities(name), argument_descriptions(cls), ("option", "type", "default", "meaning")
    options = [
        (flag_of(p.name), type_text(p), default_text(p.default), meaning.get(p.name, ""))
        for p in inspect.signature(cls, eval_str=True).parameters.values()
    ]
    if as_json:
        listed_options = [dict(zip(header, option, strict=True)) for option in options]
        summary = {"model": name, "what": summary_of(cls), **can, "page": PAGES[name], "options": listed_options}
        return typer.echo(json.dumps(summary))
    head = [
        ("model", f"{name}, the class {cls.__name__}"),
        ("what it is", summary_of(cls)),
        ("commands", listed(can, ANSWERS)),
        ("data", listed(can, MATERIAL)),
        ("documentation", PAGES[name]),
    ]
    show(("", ""), head)
    show(header, options)


def summary_of(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def listed(can: Mapping[str, bool | str], words: Sequence[str]) -> str:
    """What a model can do: score (exact), sample, ..."""
    names = {"holes": "missing values"}
    texts = {word: names.get(word, word) for word in words if can[word]}
    return ", ".join(text if can[word] is True else f"{text} ({can[word]})" for word, text in texts.items())


def mark(ability: bool | str) -> str:
    return ability if isinstance(ability, str) else "yes" if ability else "-"
