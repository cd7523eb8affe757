"""The commands that work on a user's table: fit, resume, impute, predict, encode, diagnose, report."""

import dataclasses
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gpbae import terminal
from gpbae.errors import GpbaeError, InputError, Interrupted

MODELS = {"bae": "BAE", "gp-bae": "GPBAE", "sgp-bae": "SGPBAE", "dsgp-bae": "DSGPBAE"}
Model = StrEnum("Model", {name.replace("-", "_"): name for name in MODELS})

app = typer.Typer()

Data = Annotated[Path, typer.Argument(help="A .csv, .parquet or .npz table.", exists=True, dir_okay=False)]
Run = Annotated[Path, typer.Argument(help="A folder written by `gpbae fit`.", exists=True, file_okay=False)]
Output = Annotated[Path, typer.Option("--output", "-o", help="A .csv or .parquet file to write.", dir_okay=False)]
Interval = Annotated[
    float | None,
    typer.Option(min=0.01, max=0.999, help="Add NAME_lower and NAME_upper: the central interval of this probability."),
]


@app.command(epilog="Example: gpbae fit data.csv --inputs time --outputs a,b,c --groups patient --out run")
def fit(
    data: Data,
    outputs: Annotated[str, typer.Option(help="Columns to model, separated by commas; gaps are fine.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to; made if absent.", file_okay=False)],
    inputs: Annotated[str, typer.Option(help="Columns known for every row, such as time; bae needs none.")] = "",
    groups: Annotated[str | None, typer.Option(help="Column of labels of independent series.")] = None,
    model: Annotated[Model, typer.Option(help="Which of the four models.")] = Model.sgp_bae,  # type: ignore[attr-defined]
    latent_dim: Annotated[int | None, typer.Option(min=1, help="Number of latents; else found from the data.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of arguments, as num_inducing = 64.", exists=True, dir_okay=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the chains.")] = 0,
) -> None:
    """Sample the posterior of a model of a table and keep it in a folder; once stopped, it goes on."""
    from gpbae import files, storage

    if not _names(outputs):
        raise typer.BadParameter("name at least one column.", param_hint="--outputs")
    if not _names(inputs) and model.value != "bae":
        raise typer.BadParameter(f"{model.value} needs an input column; only bae needs none.", param_hint="--inputs")
    table = files.read(data)
    columns = files.Columns(*(tuple(files.resolve(table, _names(text))) for text in (inputs, outputs)), groups=groups)
    if twice := sorted({*columns.inputs, groups} & {*columns.outputs}):
        raise InputError(f"A column is either known or modelled; got {', '.join(twice)} as both. Name it once.")
    arguments = {"seed": seed} | ({} if latent_dim is None else {"latent_dim": latent_dim}) | _config(config)
    x = files.numbers(table, columns.inputs) if columns.inputs else None
    y, labels = files.numbers(table, columns.outputs), files.labels(table, columns)
    estimator = _estimator(model.value, arguments)
    files.make_folder(out)
    if not (out / storage.MANIFEST).exists():
        roles = json.dumps(dataclasses.asdict(columns), indent=2) + "\n"
        storage.write(out / "columns.json", roles.encode())
    _sample(estimator, x, y, labels, out)


def _sample(estimator: Any, x: Any, y: Any, groups: Any, run: Path) -> None:
    """Fit in a folder; stopped by a signal, the exit code is 128 and the signal's number, as shells have it."""
    from gpbae import watch

    watch.process_is_ours = True
    try:
        fitted = estimator.fit(x, y, groups, run_dir=run)
    except Interrupted as stopped:
        terminal.say(str(stopped))
        raise typer.Exit(128 + stopped.signal) from None
    finally:
        watch.process_is_ours = False
    for words in fitted.diagnostics().attrs["warnings"]:
        terminal.say(f"Warning: {words}")
    print(run)


@app.command(epilog="Example: gpbae resume run")
def resume(run: Run) -> None:
    """Go on with a run that was stopped, from its last checkpoint, to the draws it would have had anyway."""
    from gpbae import runfolder

    _sample(*runfolder.reopen(run), run)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _config(path: Path | None) -> dict[str, Any]:
    import tomllib

    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"Expected {path} to be TOML such as `num_inducing = 64`; got: {error}.") from error


def _estimator(model: str, arguments: dict[str, Any]):
    from gpbae import estimators

    return getattr(estimators, MODELS[model])().set_params(**arguments)


def _load(run: Path):
    """The model of a run and the roles of its columns."""
    from gpbae import files, io

    try:
        roles = json.loads((run / "columns.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{run} is not a folder written by `gpbae fit`: its columns.json cannot be read.") from error
    columns = files.Columns(tuple(roles["inputs"]), tuple(roles["outputs"]), roles["groups"])
    return io.load(run if (run / io.MANIFEST).exists() else run / "model"), columns


def _rows(run: Path, data: Path):
    """Model, column roles, table, inputs and group labels of a command that takes RUN and a table."""
    from gpbae import files

    model, columns = _load(run)
    table = files.read(data)
    x = files.numbers(table, columns.inputs) if columns.inputs else None
    return model, columns, table, x, files.labels(table, columns)


def _with_interval(table, answer, names, level: float | None):
    if level is None:
        return table
    low, high = answer.interval(level)
    for name in names:
        table[f"{name}_lower"], table[f"{name}_upper"] = low[name].to_numpy(), high[name].to_numpy()
    return table


@app.command(epilog="Example: gpbae impute run data.csv -o filled.csv --interval 0.9")
def impute(run: Run, data: Data, output: Output, interval: Interval = None) -> None:
    """Fill the gaps of a table with the posterior mean; cells that are there stay as they are."""
    from gpbae import files

    files.check_output(output)
    model, columns, table, x, groups = _rows(run, data)
    answer = model.impute(x, files.numbers(table, columns.outputs), groups)
    files.write(_with_interval(files.fill(table, answer.filled), answer, columns.outputs, interval), output)
    print(output)


@app.command(epilog="Example: gpbae predict run new_inputs.csv -o predicted.csv --interval 0.9")
def predict(run: Run, data: Data, output: Output, interval: Interval = None) -> None:
    """Predict the outputs at new inputs; the table needs the input columns (and the groups') only."""
    import numpy as np

    from gpbae import files

    files.check_output(output)
    model, columns, table, x, groups = _rows(run, data)
    answer = model.predict(np.zeros((len(table), 1)) if x is None else x, groups)
    done = table.filter(columns.carried())
    for name in columns.outputs:
        done[name] = answer.mean[name].to_numpy()
    files.write(_with_interval(done, answer, columns.outputs, interval), output)
    print(output)


@app.command(epilog="Example: gpbae encode run data.csv -o latents.csv")
def encode(run: Run, data: Data, output: Output) -> None:
    """Write the latents of every row: posterior mean and standard deviation."""
    from gpbae import files

    files.check_output(output)
    model, columns, table, x, groups = _rows(run, data)
    answer = model.encode(x, files.numbers(table, columns.outputs), groups)
    done = table.filter(columns.carried())
    for name in answer.mean.columns:
        done[name], done[f"{name}_sd"] = answer.mean[name].to_numpy(), answer.sd[name].to_numpy()
    files.write(done, output)
    print(output)


@app.command(epilog="Example: gpbae diagnose run")
def diagnose(run: Run) -> None:
    """Has the chain mixed, and was it a sampler at all?  A table, then plain words."""
    model, _ = _load(run)
    frame = model.diagnostics()
    rows = [(name, *("" if value != value else float(value) for value in row)) for name, *row in frame.itertuples()]
    terminal.show(repr(model), ("quantity", *(name.replace("_", " ") for name in frame.columns)), rows)
    for words in frame.attrs["warnings"] or ["Nothing to complain of."]:
        print(words)


@app.command(epilog="Example: gpbae report run")
def report(run: Run) -> None:
    """Write RUN/report.html: settings, diagnostics, hyper-parameters and traces on one page."""
    from gpbae import report as report_module

    model, columns = _load(run)
    page = run / "report.html"
    try:
        page.write_text(report_module.model_page(model, columns), encoding="utf-8")
    except OSError as error:
        raise GpbaeError(f"Could not write {page}: {error}.") from error
    print(page)
