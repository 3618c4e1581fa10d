"""`jensen fit`: fit one model and write it to a file.

Libraries are imported inside functions, so that `jensen --help` is fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from jensen.cli.checks import check_writable
from jensen.cli.documents import (
    Text,
    check_text_option,
    dense_rows_named,
    holds_documents,
    is_topics,
    read_documents,
    topic_lines,
    topics_of,
)
from jensen.cli.inputs import (
    MANY_ROWS,
    Drop,
    FitSeed,
    Header,
    Json,
    Label,
    Missing,
    Name,
    Quiet,
    Types,
    Weight,
    is_trained_by_gradients,
    only,
    predicts_numbers,
    read_order,
    table_options,
    takes_images,
    warn_of_ignored_label,
)
from jensen.cli.output import report, show_message, summary_of_fit, wrote
from jensen.cli.processes import is_first_process, is_one_of_several, run_together
from jensen.cli.scans import BlockRows, Scanned, is_scanned, scan_for_fit, workers
from jensen.cli.streams import summary_of_scan
from jensen.cli.studio import check_watch, watching
from jensen.cli.typed import asked_for, typed
from jensen.files.places import is_stdin


def fit(
    ctx: typer.Context,
    model: Name,
    data: Annotated[str, MANY_ROWS],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    text: Text = None,
    label: Label = None,
    weight: Weight = None,
    drop: Drop = None,
    missing: Missing = None,
    header: Header = None,
    types: Types = None,
    seed: FitSeed = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File that a long fit writes from time to time; the same command resumes from it."),
    ] = None,
    scan: Scanned = None,
    block_rows: BlockRows = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of processes that train a deep model together, or read a table block by block."
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Scheduler of dask whose workers read a table block by block; they must see its files.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show in the browser how the objective rises, step by step.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table, to images or to texts and write it to a file.

    Every option of the model is an option here; `jensen models NAME` lists them.
    Lists are written a,b. Arrays, dictionaries and recipes are written as in
    Python, in quotes: '[0.5, 0.5]', 'MLP(hidden=(50, 50))'.

    A folder of tables, a pattern such as 'rows/*.parquet', and a file too large
    for memory are read block by block, once for every step.

    Ctrl-C ends the training and writes the best model so far; a second Ctrl-C
    stops at once. With --checkpoint, the same command resumes an interrupted
    training.

    Examples:
      jensen fit gaussian-mixture iris.csv --label species -o iris.jensen
      jensen fit gaussian-mixture x.npy --n-components 3 --n-init 5 -o x.jensen
      jensen fit gaussian-mixture a.csv --prior ConjugatePrior -o a.jensen
      jensen fit mixture t.csv --columns '{"zip": "level"}' -o t.jensen
      jensen fit ridge-regression b.csv --label price --alpha evidence -o b.jensen
      jensen fit vae c.csv --encoder 'MLP(hidden=(50,))' -o c.jensen
      jensen fit vae d.npy --checkpoint d.ckpt --processes 2 -o d.jensen
      jensen fit diffusion e.npy --network 'UNet(channels=(16, 32))' -o e.jensen
      jensen fit diffusion images.npy --label labels.npy -o g.jensen
      jensen fit diffusion f.csv --schedule cosine --n-steps 50 -o f.jensen
      jensen fit vae faces/ --label folder --checkpoint h.ckpt -o h.jensen
      jensen fit gaussian-mixture iris --label target -o iris.jensen
      jensen fit topics t.csv --text body --stop-words english -o t.jensen
      jensen fit topics folder/ --n-components 20 --min-df 2 -o t.jensen
      jensen fit mixture counts.npz --families multinomial -o w.jensen
      jensen fit mixture rows/ --checkpoint m.ckpt -o m.jensen
      jensen fit gaussian-mixture 'rows/*.parquet' --processes 2 -o m.jensen
      jensen fit vae digits --watch -o v.jensen
    """
    if watch:
        check_watch(as_json, quiet)
    check_writable(output)
    if checkpoint is not None:
        check_writable(checkpoint, "--checkpoint")
    column = only("--label", label)
    order = read_order(
        ctx,
        model,
        data,
        seed,
        drop=[*(drop or []), *([text] if text else [])],
        or_files=[column, weight],
        header=header,
        many=True,
    )
    estimator, parameters = order.estimator, order.parameters
    kept = keep_checkpoints(estimator, parameters, checkpoint)
    is_streamed = is_scanned(order.path, scan, block_rows, model=estimator)
    if dask is not None and (is_trained_by_gradients(estimator) or not is_streamed):
        raise ValueError(f"--dask {dask} is for EM on tables that are read block by block; leave it out, or add --scan")
    if (
        processes
        and processes > 1
        and not is_one_of_several()
        and (not is_streamed or is_trained_by_gradients(estimator))
    ):
        if not is_trained_by_gradients(estimator):
            name = type(estimator).__name__
            raise ValueError(
                f"--processes is for models trained by gradients, which {name} is not, and for tables that are read "
                "block by block; leave it out, or add --scan"
            )
        if is_stdin(order.path):
            raise ValueError(f"--processes {processes} cannot share standard input; write the table to a file")
        return run_together(ctx.meta["words"], processes)
    has_own_bar = "verbose" in parameters and "verbose" not in order.given
    if has_own_bar:
        estimator.set_params(verbose=int(not (as_json or quiet)))
    from jensen.data.container import n_rows
    from jensen.files.datasets import read_dataset, split_columns

    is_number = predicts_numbers(estimator, column)
    asked = table_options(missing, header, types, label=column, is_number=is_number, aside=[weight, *(drop or [])])
    X: Any
    y = weights = None
    options: dict[str, Any] = {"label": column, "weight": weight, "drop": drop or []}
    if is_streamed:
        check_text_option(estimator, text)
        X = scan_for_fit(estimator, order.path, asked, text=text, block_rows=block_rows, **options)
    elif holds_documents(estimator, order.path, text):
        found = read_documents(estimator, order.path, text, asked, **options)
        X, y, weights = found.X, found.y, found.weights
    else:
        read = read_dataset(order.path, images=takes_images(estimator), reading=asked_for(estimator, asked))
        X, y, weights = split_columns(read, label_is_number=is_number, **options)
        X = typed(estimator, X)
    several = None if is_trained_by_gradients(estimator) else processes
    title = f"{type(estimator).__name__} of {Path(order.path).name}"
    with (
        dense_rows_named(estimator, order.path),
        workers(several, dask) as executor,
        watching(title if watch and is_first_process() else None),
    ):
        where = {} if executor is None else {"executor": executor}
        estimator.fit(X, y, sample_weight=weights, **kept, **where)
    if not is_first_process():
        return
    warn_of_ignored_label(estimator, column)
    # The progress bar and checkpoints (also those of parts) belong to this command, not to the model.
    places = [name for name in estimator.get_params() if name.split("__")[-1] == "checkpoint"]
    estimator.set_params(**dict.fromkeys(places), **({"verbose": 0} if has_own_bar else {}))
    estimator.save(output)
    wrote(output)
    is_interrupted = ctx.meta.get("is_interrupted", False)
    n: int | None
    if is_streamed:
        n, summary = summary_of_scan(estimator, X, is_scored=not is_interrupted)
    else:
        n, summary = n_rows(X), summary_of_fit(estimator, X, y, weights, is_scored=not is_interrupted)
    if is_interrupted:
        # A user who interrupts a fit does not want to wait for its scores.
        summary["interrupted"] = True
        if not as_json:
            show_message(f"wrote the model so far to {output}; `jensen score` computes its scores")
    if as_json and is_topics(estimator):
        summary["topics"] = topics_of(estimator)
    report(estimator, n, summary, output, as_json, quiet)
    if is_topics(estimator) and not (as_json or quiet):
        typer.echo("\n".join(topic_lines(estimator)))


def keep_checkpoints(
    estimator: Any, parameters: Mapping[str, inspect.Parameter], checkpoint: Path | None
) -> dict[str, Any]:
    """Options of `fit` for --checkpoint, which is an argument of some models, and of the `fit` of others."""
    if checkpoint is None:
        return {}
    if "checkpoint" in parameters:
        estimator.set_params(checkpoint=checkpoint)
        return {}
    if "checkpoint" in inspect.signature(estimator.fit).parameters:
        return {"checkpoint": checkpoint}
    raise ValueError(f"--checkpoint {checkpoint}: {type(estimator).__name__} has nothing to resume; leave it out")
