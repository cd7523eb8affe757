"""The commands that work on a user's table: fit, resume, impute, predict, encode, diagnose, report."""

import contextlib
import dataclasses
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gpbae.cli import terminal
from gpbae.errors import GpbaeError, InputError, Interrupted

MODELS = {"bae": "BAE", "gp-bae": "GPBAE", "sgp-bae": "SGPBAE", "dsgp-bae": "DSGPBAE", "vae": "VAE", "cvae": "CVAE",
          "gppvae": "GPPVAE", "gpvae": "GPVAE", "gp-vae": "BandedGPVAE", "sgp-vae": "SGPVAE", "svgp-vae": "SVGPVAE",
          "deep-svigp": "DeepSVIGP", "igp": "IGP", "gpar": "GPAR"}  # fmt: skip
WITHOUT_INPUTS = ("bae", "vae")
Model = StrEnum("Model", {name.replace("-", "_"): name for name in MODELS})

app = typer.Typer()

Data = Annotated[Path, typer.Argument(help="A .csv, .parquet or .npz table.", exists=True, dir_okay=False)]
Run = Annotated[Path, typer.Argument(help="A folder written by `gpbae fit`.", exists=True, file_okay=False)]
Output = Annotated[Path, typer.Option("--output", "-o", help="A .csv or .parquet file to write.", dir_okay=False)]
TABLE, MODEL, SCORE = "The table", "The model", "How good is it?"
From = Annotated[
    str | None,
    typer.Option("--from", help="First date or number of the first input to use.", rich_help_panel=TABLE),
]
To = Annotated[
    str | None,
    typer.Option("--to", help="Where to stop: rows before this date or number.", rich_help_panel=TABLE),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No news while it works.")]
LogJson = Annotated[
    str | None, typer.Option("--log-json", help="Write every event as a line of JSON to this file, - for stdout.")
]
Interval = Annotated[
    float | None,
    typer.Option(min=0.01, max=0.999, help="Add NAME_lower and NAME_upper: the central interval of this probability."),
]


@app.command(
    epilog="Example: gpbae fit data.csv --inputs time --outputs 'temp_*' --groups station --out run --evaluate"
)
def fit(
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to; made if absent.", file_okay=False)],
    inputs: Annotated[
        str, typer.Option(help="Columns known for every row, such as a date; bae needs none.", rich_help_panel=TABLE)
    ] = "",
    outputs: Annotated[
        str,
        typer.Option(
            help="Columns to model, by name or pattern; gaps are fine. All numbers, if not said.", rich_help_panel=TABLE
        ),
    ] = "all",
    exclude: Annotated[str, typer.Option(help="Columns to leave out of the outputs.", rich_help_panel=TABLE)] = "",
    groups: Annotated[
        str | None, typer.Option(help="Column of labels of independent series.", rich_help_panel=TABLE)
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="A number that means missing, -200 or NAME=-200; may be repeated.", rich_help_panel=TABLE),
    ] = None,
    first: From = None,
    last: To = None,
    date_format: Annotated[
        str | None, typer.Option(help="How dates are written, if not obvious: '%d/%m/%Y'.", rich_help_panel=TABLE)
    ] = None,
    transform: Annotated[
        str | None,
        typer.Option(help="log, yeo-johnson, auto or none, for all or as CO=log,NO*=log.", rich_help_panel=MODEL),
    ] = None,
    model: Annotated[Model, typer.Option(help="Which of the models.", rich_help_panel=MODEL)] = Model.sgp_bae,  # type: ignore[attr-defined]
    latent_dim: Annotated[
        int | None, typer.Option(min=1, help="Number of latents; else found from the data.", rich_help_panel=MODEL)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of arguments, as num_inducing = 64.", exists=True, dir_okay=False, rich_help_panel=MODEL
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="One argument of the model, as num_chains=2; may be repeated.", rich_help_panel=MODEL
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the chains.", rich_help_panel=MODEL)] = 0,
    evaluate: Annotated[
        str | None,
        typer.Option(
            help="First hide known cells and score: cells, blocks, rows or column:NAME:START; several by commas.",
            rich_help_panel=SCORE,
        ),
    ] = None,
    holdout: Annotated[
        float, typer.Option(min=0.001, max=0.9, help="Share of known cells to hide.", rich_help_panel=SCORE)
    ] = 0.1,
    block_length: Annotated[int, typer.Option(min=1, help="Rows in a block.", rich_help_panel=SCORE)] = 24,
    evaluate_only: Annotated[
        bool, typer.Option("--evaluate-only", help="Score and leave out the fit to all cells.", rich_help_panel=SCORE)
    ] = False,
    report: Annotated[bool, typer.Option("--report", help="Also write the page of `gpbae report`.")] = False,
    quiet: Quiet = False,
    log_json: LogJson = None,
) -> None:
    """Sample the posterior of a model of a table and keep it in a folder; once stopped, it goes on."""
    from gpbae import progress, storage
    from gpbae.cli import arguments, files, roles

    if not _names(inputs) and model.value not in WITHOUT_INPUTS:
        raise typer.BadParameter(
            f"{model.value} needs an input column; only bae and vae need none.", param_hint="--inputs"
        )
    kinds = _holdouts(evaluate or ("cells" if evaluate_only else None))
    table = files.read(data)
    columns, table = _roles(table, inputs, outputs, exclude, groups, missing or [], first, last, date_format)
    given = {"seed": seed} | ({} if latent_dim is None else {"latent_dim": latent_dim}) | arguments.read(config)
    given |= {} if transform is None else {"transform": roles.words_by_name(transform, "--transform")}
    x, y, labels = roles.inputs(table, columns), roles.outputs(table, columns), roles.labels(table, columns)
    suited = arguments.suited(MODELS[model.value], y)
    estimator = arguments.estimator(MODELS[model.value], suited | given | arguments.pairs(settings or []))
    storage.make_folder(out)
    with progress.json_lines(log_json) as log:
        if kinds:
            _evaluate(estimator, x, y, labels, columns, kinds, (holdout, block_length, seed), out, quiet, log)
        if not evaluate_only:
            _begin(columns, out)
            _sample(estimator, x, y, labels, out, quiet, log)
            if report:
                write_report(out)
    print(out)


def _roles(table, inputs, outputs, exclude, groups, missing, first, last, date_format):
    """What the columns are, and the rows that are meant."""
    from gpbae.cli import roles

    known = roles.resolve(table, _names(inputs))
    columns = roles.Columns(tuple(known), (), groups, missing=roles.parse_missing(missing))
    if groups is not None:
        roles.resolve(table, [groups])
    for name, _ in columns.missing:
        roles.resolve(table, [] if name is None else [name])
    columns = dataclasses.replace(columns, dates=roles.find_dates(table, known, date_format))
    if first is not None or last is not None:
        if not known:
            raise InputError("--from and --to are places along the first input; name one with --inputs.")
        table = table[roles.within(table, columns, first, last)].reset_index(drop=True)
        columns = dataclasses.replace(columns, dates=roles.find_dates(table, known, date_format))
    wanted = _wanted(table, columns, _names(outputs), _names(exclude))
    columns = dataclasses.replace(columns, outputs=tuple(wanted))
    columns = dataclasses.replace(columns, kinds=roles.kinds(table, columns))
    for name, dates in columns.dates.items():
        terminal.say(f"{name} is read as {dates.words}.")
    return columns, table


def _wanted(table, columns, names: list[str], excluded: list[str]) -> list[str]:
    from gpbae.cli import roles

    taken = [*columns.carried(), *roles.resolve(table, excluded)]
    if names in ([], ["all"]):
        found = roles.all_outputs(table, taken, columns)
        if found and (left := [str(name) for name in table.columns if name not in (*found, *taken)]):
            terminal.say(f"Left out, not being numbers: {', '.join(left)}. Labels are modelled if named in --outputs.")
    else:
        found = roles.resolve(table, names)
        if twice := sorted(set(columns.carried()) & set(found)):
            raise InputError(f"A column is either known or modelled; got {', '.join(twice)} as both. Name it once.")
        found = [name for name in found if name not in taken]
    if not found:
        raise InputError("There is no column of numbers left to model; name one with --outputs.")
    return found


def _holdouts(text: str | None) -> list[str]:
    """What to hide, in words: `cells`, `blocks`, `rows`, `column:NAME:START`."""
    found = _names(text or "")
    for one in found:
        if one not in ("cells", "blocks", "rows") and (not one.startswith("column:") or one.count(":") < 2):
            raise typer.BadParameter(
                f"expected cells, blocks, rows or column:NAME:START; got {one!r}.", param_hint="--evaluate"
            )
    return found


def _evaluate(estimator, x, y, labels, columns, kinds, how_much, out: Path, quiet: bool, log) -> None:
    """Score on hidden cells, show a table for each way of hiding, keep the numbers in evaluation.json and .csv."""
    from gpbae import evaluation, progress, storage
    from gpbae.cli import roles

    share, length, seed = how_much
    rows, frames = [], []
    for kind in kinds:
        how: Any = kind
        if kind.startswith("column:"):
            _, name, start = kind.split(":", 2)
            (name,) = roles.resolve(y, [name])
            how = ("column", name, roles.position(columns, start))
        holdout = evaluation.Holdout(how, share, length, seed)
        with progress.display(f"Evaluation ({kind})", not quiet) as show:
            listener = progress.both(show, lambda event: log({"stage": f"evaluate {kind}", **event}))  # noqa: B023
            copy = type(estimator)(**(estimator.get_params() | {"progress": listener}))
            found = evaluation.evaluate(copy, x, y, labels, holdout, say=listener)
        rows += found.rows()
        frames.append(found.table.assign(hidden=kind).reset_index())
        _show_scores(found, kind)
    import pandas as pd

    content = json.dumps(progress.plain(rows), indent=1) + "\n"
    storage.write(out / "evaluation.json", content.encode())
    storage.write(out / "evaluation.csv", pd.concat(frames).to_csv(index=False).encode())


def _show_scores(found, kind: str) -> None:
    names = ("mae", "rmse", "smse", "nlpd", "crps", "coverage50", "coverage80", "coverage90", "coverage95")
    overall = found.overall()
    rows = [(method, *(float(line[n]) for n in names)) for method, line in overall.iterrows()]
    cells = int(overall["cells"].iloc[0])
    title = f"{cells} hidden cells ({kind}); MAE, RMSE and CRPS in standard deviations; last, how many fell inside"
    header = (name.replace("coverage", "in ") + " %" if "cov" in name else name.upper() for name in names)
    terminal.show(title, ("method", *header), rows)


def _begin(columns, run: Path) -> None:
    from gpbae import storage

    if not (run / storage.MANIFEST).exists():
        storage.write(run / "columns.json", columns.to_json())


def _sample(estimator: Any, x: Any, y: Any, groups: Any, run: Path, quiet: bool = False, log: Any = None) -> None:
    """Fit in a folder; stopped by a signal, the exit code is 128 and the signal's number, as shells have it."""
    from gpbae import progress, watch

    watch.process_is_ours = True
    wanted = estimator.progress
    try:
        with progress.display(type(estimator).__name__, bool(wanted) and not quiet) as show:
            estimator.progress = progress.both(show, *([] if log is None else [log]))
            fitted = estimator.fit(x, y, groups, run_dir=run)
    except Interrupted as stopped:
        terminal.say(str(stopped))
        raise typer.Exit(128 + stopped.signal) from None
    finally:
        watch.process_is_ours = False
        estimator.progress = wanted
    for words in fitted.diagnostics().attrs["warnings"] if _is_sampled(fitted) else ():
        terminal.say(f"Warning: {words}")


def _is_sampled(model: Any) -> bool:
    """Ours has chains to ask about; a baseline was optimised."""
    from gpbae import estimators

    return isinstance(model, estimators.BAE)


def _check_sampled(model: Any) -> None:
    if not _is_sampled(model):
        raise InputError(
            f"{type(model).__name__} was optimised, not sampled, so there are no chains to report on; impute, predict "
            "and `fit --evaluate` work."
        )


@app.command(epilog="Example: gpbae resume run")
def resume(run: Run, quiet: Quiet = False, log_json: LogJson = None) -> None:
    """Go on with a run that was stopped, from its last checkpoint, to the draws it would have had anyway."""
    from gpbae import progress, runfolder

    with progress.json_lines(log_json) as log:
        _sample(*runfolder.reopen(run), run, quiet, log)
    print(run)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _load(run: Path):
    """The model of a run and the roles of its columns."""
    from gpbae import io
    from gpbae.cli import roles

    try:
        columns = roles.Columns.from_json((run / "columns.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{run} is not a folder written by `gpbae fit`: its columns.json cannot be read.") from error
    return io.load(run if (run / io.MANIFEST).exists() else run / "model"), columns


def _rows(run: Path, data: Path, first: str | None, last: str | None):
    """Model, column roles, table, inputs and group labels of a command that takes RUN and a table."""
    from gpbae.cli import files, roles

    model, columns = _load(run)
    table = files.read(data)
    if first is not None or last is not None:
        table = table[roles.within(table, columns, first, last)].reset_index(drop=True)
    return model, columns, table, roles.inputs(table, columns), roles.labels(table, columns)


@contextlib.contextmanager
def _working(what: str, quiet: bool):
    """News of work of one piece: refining the latents of given rows, say."""
    from gpbae import progress

    with progress.display("gpbae", not quiet) as show, progress.phase(what, show):
        yield


def _with_interval(table, answer, names, level: float | None):
    """Two more columns for every output but labels, which have no order."""
    if level is None:
        return table
    import pandas as pd

    low, high = answer.interval(level)
    names = [name for name in names if low[name].notna().any()]
    ends = {f"{name}_{end}": side[name].to_numpy() for name in names for end, side in (("lower", low), ("upper", high))}
    return pd.concat([table, pd.DataFrame(ends, index=table.index)], axis=1)


@app.command(epilog="Example: gpbae impute run data.csv -o filled.csv --interval 0.9")
def impute(
    run: Run,
    data: Data,
    output: Output,
    interval: Interval = None,
    first: From = None,
    last: To = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Fill the gaps of a table with the posterior mean; cells that are there stay as they are."""
    from gpbae.cli import files, roles

    files.check_output(output, force)
    model, columns, table, x, groups = _rows(run, data, first, last)
    y = roles.outputs(table, columns)
    with _working("refining", quiet):
        answer = model.impute(x, y, groups)
        done = _with_interval(roles.fill(table, answer.filled, columns), answer, columns.outputs, interval)
    files.write(done, output)
    print(output)


@app.command(epilog="Example: gpbae predict run new_inputs.csv -o predicted.csv --interval 0.9")
def predict(
    run: Run,
    data: Data,
    output: Output,
    interval: Interval = None,
    first: From = None,
    last: To = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Predict the outputs at new inputs; the table needs the input columns (and the groups') only.

    Columns hold the mean of real numbers, the median of counts, the likeliest label.
    """
    import numpy as np

    from gpbae.cli import files

    files.check_output(output, force)
    model, columns, table, x, groups = _rows(run, data, first, last)
    with _working("predicting", quiet):
        answer = model.predict(np.zeros((len(table), 1)) if x is None else x, groups)
        done = table.filter(columns.carried())
        for name in columns.outputs:
            done[name] = answer.point[name].to_numpy()
        done = _with_interval(done, answer, columns.outputs, interval)
    files.write(done, output)
    print(output)


@app.command(epilog="Example: gpbae encode run data.csv -o latents.csv")
def encode(
    run: Run,
    data: Data,
    output: Output,
    first: From = None,
    last: To = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the latents of every row: posterior mean and standard deviation."""
    from gpbae.cli import files, roles

    files.check_output(output, force)
    model, columns, table, x, groups = _rows(run, data, first, last)
    y = roles.outputs(table, columns)
    with _working("refining", quiet):
        answer = model.encode(x, y, groups)
        done = table.filter(columns.carried())
        for name in answer.mean.columns:
            done[name], done[f"{name}_sd"] = answer.mean[name].to_numpy(), answer.sd[name].to_numpy()
    files.write(done, output)
    print(output)


@app.command(epilog="Example: gpbae diagnose run")
def diagnose(run: Run) -> None:
    """Has the chain mixed, and was it a sampler at all?  A table, then plain words."""
    model, _ = _load(run)
    _check_sampled(model)
    frame = model.diagnostics()
    rows = [(name, *("" if value != value else float(value) for value in row)) for name, *row in frame.itertuples()]
    terminal.show(repr(model), ("quantity", *(name.replace("_", " ") for name in frame.columns)), rows)
    for words in frame.attrs["warnings"] or ["Nothing to complain of."]:
        print(words)


@app.command(epilog="Example: gpbae report run")
def report(run: Run) -> None:
    """Write RUN/report.html: whether to believe it, gaps filled, latents, calibration, scores, traces, settings."""
    print(write_report(run))


def write_report(run: Path) -> Path:
    """The page of a run."""
    from gpbae import report as report_module

    model, columns = _load(run)
    _check_sampled(model)
    page, scores = run / "report.html", run / "evaluation.json"
    try:
        evaluation = json.loads(scores.read_text(encoding="utf-8")) if scores.exists() else ()
        page.write_text(report_module.model_page(model, columns, evaluation), encoding="utf-8")
    except OSError as error:
        raise GpbaeError(f"Could not write {page}: {error}.") from error
    return page
