"""`gpbae fit` and `gpbae resume`: from a table to a folder of draws."""

import functools
import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from gpbae.cli import findings, misspelt, options, reading, runs, scores, terminal, typed
from gpbae.cli.models import Model
from gpbae.errors import InputError

WITHOUT_INPUTS = (Model.BAE, Model.VAE)

app = typer.Typer()


@app.command(
    cls=misspelt.WithArguments,
    epilog="Example: gpbae fit data.csv --inputs time --outputs 'temp_*' --groups station --out run --evaluate",
)
def fit(
    data: options.Data,
    out: options.Out,
    inputs: options.Inputs = "",
    outputs: options.Outputs = "all",
    exclude: options.Exclude = None,
    groups: options.Groups = None,
    missing: options.Missing = None,
    first: options.From = None,
    last: options.To = None,
    date_format: options.DateFormat = None,
    decimal: options.DecimalSign = None,
    on_disk: options.OnDisk = None,
    transform: options.Transform = None,
    model: Annotated[
        Model | None,
        typer.Option(help="Which of the models; sgp-bae, if not said.", rich_help_panel=options.MODEL),
    ] = None,
    latent_dim: options.LatentDim = None,
    config: options.Config = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    evaluate: options.Evaluate = None,
    holdout: options.Holdout = 0.1,
    block_length: options.BlockLength = 24,
    evaluate_only: options.EvaluateOnly = False,
    report: options.Report = False,
    distributed: options.Distributed = False,
    row_shards: options.RowShards = 1,
    quiet: options.Quiet = False,
    log_json: options.LogJson = None,
) -> None:
    """Fit a model to a table and keep it in a folder (rivals are optimised, ours sampled); stopped, it goes on."""
    model = _model(model, config)
    files_of_command = (str(data), *(() if config is None else (str(config),)))
    told = runs.Given([], typed.latest.get(), os.getcwd(), files_of_command)
    _check_inputs(model, inputs)
    ways = scores.ways(evaluate or ("cells" if evaluate_only else ""))
    if distributed and ways:
        raise typer.BadParameter("is for one process: fit first, then evaluate by one.", param_hint="--evaluate")
    from gpbae.cli import encodings, files, notices, ondisk
    from gpbae.processes import progress

    _check_folder(out, log_json)
    files.check_input(data)
    if (words := encodings.notice(data)) is not None:
        terminal.say(f"Note: {words}")
    if stays := ondisk.is_wanted(data, on_disk):
        ondisk.check(data, model, bool(ways), distributed)
    is_first = runs.take_place(distributed, row_shards)
    wish = reading.Wish(
        inputs, outputs, ",".join(exclude or ()), groups, tuple(missing or ()), first, last, date_format, decimal
    )
    flags = {"seed": seed, "latent_dim": latent_dim, "transform": transform}
    _check_arguments(model, config, flags, settings or [])
    if stays:
        make = functools.partial(_estimator, model, config=config, flags=flags, settings=settings or [])
        with runs.folder(out), progress.json_lines(log_json) as log:
            ondisk.Fit(ondisk.Source(data, wish), out, make, told, quiet).run(log)
        return _end(out, data, report, quiet, is_sampled=True)
    table = reading.read(data, wish)
    estimator, given_names = _estimator(model, table, config, flags, settings or [])
    if report and not runs.is_sampled(estimator):
        raise typer.BadParameter(
            f"is about chains, and {model.value} is optimised: leave it out, or take a model that is sampled.",
            param_hint="--report",
        )
    if not is_first:
        return runs.follow(estimator, (table.x, table.y, table.groups), out)
    latents, read = notices.of_latents(estimator, given_names), reading.in_words(table.columns)
    news = () if quiet else (*read, *notices.before_fit(estimator, table.y), *latents)
    for sentence in (*news, *notices.of_rows(table)):
        terminal.say(sentence)
    hidden = scores.Hidden(ways, holdout, block_length, estimator.seed, given_names)
    scores.check(table, hidden)
    given, course = (table.x, table.y, table.groups), scores.course(hidden, with_fit=not evaluate_only)
    with runs.folder(out), progress.json_lines(log_json) as log:
        if not evaluate_only:
            told = told._replace(names=given_names)
            with scores.wished(hidden, out), runs.begun(table.columns, told, out):
                runs.sample(estimator, given, out, quiet, log, course)
                runs.keep_given(told, out)
        if ways:
            scores.evaluate(scores.Asked(estimator, *given, table.columns), hidden, out, quiet, log, course)
    for sentence in notices.of_codes(table.y):
        terminal.say(f"Warning: {sentence}")
    if evaluate_only:
        print(out)
    else:
        _end(out, data, report, quiet, runs.is_sampled(estimator))


def _end(out: Path, data: Path, report: bool, quiet: bool, is_sampled: bool) -> None:
    """The page, if it is wanted, and what to do next."""
    page = findings.write_report(out) if report else None
    if page is not None and not quiet:
        terminal.say(f"Written: {page}.")
    if not quiet:
        terminal.say(_next(out, data, with_report=is_sampled and not report))
    print(out)


def _next(out: Path, data: Path, with_report: bool) -> str:
    run, table = (shlex.quote(str(path)) for path in (out, data))
    return (
        f"Next: {f'gpbae report {run}, or ' if with_report else ''}gpbae impute {run} {table} -o filled{_suffix(data)}."
    )


def _model(typed: Model | None, config: Path | None) -> Model:
    """What was typed, else that of the file, where it is a run's."""
    from gpbae.cli import arguments

    name = None if config is None else arguments.model_named(config)
    named = Model[name] if name in Model.__members__ else None
    if typed is not None and named is not None and typed != named:
        raise typer.BadParameter(
            f"must be the model of {config}, {named.value}; got {typed.value}. Leave --model out, or write the "
            "arguments that you want to keep into a file of their own.",
            param_hint="--model",
        )
    return typed or named or Model.SGPBAE


def _suffix(data: Path) -> str:
    return data.suffix if data.suffix in (".parquet", ".npz") else ".csv"


def _check_inputs(model: Model, inputs: str) -> None:
    if not reading.names(inputs) and model not in WITHOUT_INPUTS:
        raise typer.BadParameter(
            f"{model.value} needs an input column; only bae and vae need none.", param_hint="--inputs"
        )


def _check_folder(out: Path, log: str | None) -> None:
    """Refuse a folder with files of somebody else before the work.  What a run leaves there, or what comes before one,
    is ours, and so is the log that was asked for; hidden files are nobody's."""
    from gpbae.saving import runfolder, storage, tablefolder

    if not out.is_dir() or (out / storage.MANIFEST).exists():
        return
    ours = [out / name for name in (runfolder.COLUMNS, runfolder.GIVEN, tablefolder.TABLE, *scores.FILES)]
    ours += [] if log is None else [out / Path(log).name] if Path(log).resolve().parent == out.resolve() else []
    if strange := sorted(file.name for file in out.iterdir() if file not in ours and file.name[0] != "."):
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        raise InputError(
            f"--out must be a new or empty folder, or that of a run; got {out}, which holds {strange[0]}{more}. Name a "
            f"new folder, such as {out / 'run'}."
        )


def _estimator(
    model: Model, table: Any, config: Path | None, flags: dict[str, Any], settings: list[str]
) -> tuple[Any, list[str]]:
    """The model: what suits the table, what the file says, what was typed; the last word counts.  Also the names of the
    arguments that were said or typed."""
    from gpbae.cli import arguments

    given = _given(config, flags, settings)
    return arguments.estimator(model.name, arguments.suited(model.name, table.y) | given), sorted(given)


def _given(config: Path | None, flags: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    from gpbae.cli import arguments, roles

    said = {name: value for name, value in flags.items() if value is not None}
    if "transform" in said:
        said["transform"] = roles.words_by_name(said["transform"], "--transform")
    return arguments.read(config) | said | arguments.pairs(settings)


def _check_arguments(model: Model, config: Path | None, flags: dict[str, Any], settings: list[str]) -> None:
    """Refuse what no table could be fitted with, before one is read."""
    from gpbae.cli import arguments

    arguments.check(arguments.estimator(model.name, _given(config, flags, settings)))


@app.command(epilog="Example: gpbae resume run")
def resume(
    run: options.Run,
    distributed: options.Distributed = False,
    row_shards: options.RowShards = 1,
    quiet: options.Quiet = False,
    log_json: options.LogJson = None,
) -> None:
    """Go on with a run that was stopped, to the draws it would have had anyway.

    It begins at its last checkpoint; then its evaluation goes on, if there was to be one."""
    from gpbae.processes import progress
    from gpbae.saving import runfolder

    is_first = runs.take_place(distributed, row_shards)
    with progress.json_lines(log_json if is_first else None) as log:
        estimator, *data = runfolder.reopen(run)
        if not is_first:
            return runs.follow(estimator, data, run)
        hidden = scores.open_wish(run)
        course = scores.course(hidden)
        runs.sample(estimator, data, run, quiet, log, course)
        if hidden is not None:
            scores.evaluate(scores.Asked(estimator, *data, runs.columns(run)), hidden, run, quiet, log, course)
    if runfolder.columns(run) is None:  # a fit that was called in Python, whose folder no command opens
        print(run)
    else:
        _end(run, Path(runs.table(run)), False, quiet, runs.is_sampled(estimator))
