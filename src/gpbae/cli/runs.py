"""A run's folder as commands use it: begun, sampled, opened again."""

import contextlib
import gc
import itertools
import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from gpbae.cli import terminal, typed
from gpbae.errors import GpbaeError, InputError, Interrupted

COUNTED = frozenset(map(str, range(2, 100)))
"""Behind a hyphen: what a folder beside another is called; larger ones are years and the like."""


class Given(NamedTuple):
    """What a fit was told: the names of the arguments that were said or typed (what else a model was fitted with was
    chosen by the table), the whole command, the folder in which it was typed, and which of its words are files, the
    table before others."""

    names: list[str]
    command: str | None = None
    folder: str | None = None
    files: tuple[str, ...] = ()


@contextlib.contextmanager
def folder(out: Path) -> Iterator[None]:
    """A folder to fit in; a fit that is refused before it keeps anything leaves none behind, nor any above it."""
    from gpbae.saving import storage

    missing = [place for place in (out, *out.parents) if not place.exists()]
    try:
        storage.make_folder(out)
        yield
    except GpbaeError:
        _remove([place for place in missing if place.exists()])
        raise


def _remove(made: Sequence[Path]) -> None:
    """Folders in which nothing was kept, the innermost first.  A lock that nobody holds is nothing."""
    from gpbae.saving import storage

    with contextlib.suppress(OSError):  # something was kept
        for place in made:
            if [file.name for file in place.iterdir()] == [storage.LOCK] and not storage.is_locked(place):
                (place / storage.LOCK).unlink()
            place.rmdir()


@contextlib.contextmanager
def begun(columns: Any, given: Given, run: Path) -> Iterator[None]:
    """Keep how the table was read and what the fit was told, unless a fit has been here; forget it where the fit
    is refused."""
    from gpbae.saving import runfolder, storage

    if not runfolder.has_table(run):
        storage.write(run / runfolder.COLUMNS, columns.to_json())
        (run / runfolder.GIVEN).unlink(missing_ok=True)
        keep_given(given, run)
    try:
        yield
    except InputError:
        if not runfolder.has_table(run):
            for name in (runfolder.COLUMNS, runfolder.GIVEN):
                (run / name).unlink(missing_ok=True)
        raise


def keep_given(given: Given, run: Path) -> None:
    """Keep what the fit was told, unless that is known.  Runs of earlier releases, and those that lost the file, get it
    by a repeated fit."""
    from gpbae.saving import runfolder, storage

    if not (run / runfolder.GIVEN).exists():
        content = {"command": given.command, "arguments": given.names, "folder": given.folder, "files": given.files}
        storage.write(run / runfolder.GIVEN, (json.dumps(content) + "\n").encode())


def given(run: Path) -> Given:
    """What the fit of a run was told; earlier releases kept names only."""
    from gpbae.saving import runfolder

    content, file = runfolder.given(run), run / runfolder.GIVEN
    if content is None:
        raise InputError(
            f"Expected {file}, which says what the fit was told; got a run that was merged, or fitted by an "
            "earlier release. Repeat its `gpbae fit` command, which writes the file and fits nothing anew; for merged "
            "runs, evaluate with a fit: gpbae fit … --evaluate --out NEW."
        )
    try:
        found = json.loads(content)
        told = found if isinstance(found, dict) else {"arguments": found}
        files = tuple(str(file) for file in told.get("files", ()))
        return Given([str(name) for name in told["arguments"]], told.get("command"), told.get("folder"), files)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{file} is damaged; delete it and repeat the `gpbae fit` command, which writes it."
        ) from error


def command(run: Path) -> Any:
    """What fitted a run, as `advice.Typed`; None where nobody knows."""
    from gpbae.answering import advice

    with contextlib.suppress(InputError, ValueError):
        told = given(run)
        if told.command is not None:
            return advice.Typed(typed.here(typed.shared(told.command), told.folder, told.files), _free(run))
    return None


def table(run: Path) -> str:
    """The file that a run was fitted to, as a command takes it here; where nobody knows, its bare name."""
    with contextlib.suppress(InputError):
        told = given(run)
        if told.files:
            return typed.placed(told.files[0], told.folder)
    return columns(run).table or "TABLE.csv"


def _free(run: Path) -> str:
    """The name of a folder beside a run that nothing has yet: of run-2, run-3."""
    name = os.path.abspath(run) if run.name in ("", "..") else str(run)
    stem, dash, last = name.rpartition("-")
    is_counted = bool(dash) and last in COUNTED and Path(name).name != f"-{last}"
    stem, first = (stem, int(last) + 1) if is_counted else (name, 2)
    return next(found for number in itertools.count(first) if not Path(found := f"{stem}-{number}").exists())


@contextlib.contextmanager
def stoppable(words: str | None = None) -> Iterator[None]:
    """Stopped by a signal, the exit code is 128 and the signal's number, as shells have it; words say how to go on."""
    from gpbae.processes import watch

    watch.process_is_ours = True
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stopped:
        terminal.say(words or str(stopped) or "Stopped.")
        raise typer.Exit(128 + getattr(stopped, "signal", signal.SIGINT)) from None
    finally:
        watch.process_is_ours = False


def take_place(distributed: bool, row_shards: int) -> bool:
    """Join the other processes, or count the cores of this machine; whether this process is the one that speaks."""
    from gpbae.processes import devices
    from gpbae.processes import distributed as processes

    if row_shards > 1 and not distributed:
        raise typer.BadParameter("needs --distributed, whose processes share the rows.", param_hint="--row-shards")
    if distributed:
        processes.initialise(row_shards=row_shards)
    else:
        devices.use_cores()
    return processes.number() == 0


def spare_the_collector() -> None:
    """Tracing makes objects by the hundred thousand, all of them needed: looking through them and all that was imported
    for garbage would take a seventh of its time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def follow(estimator: Any, data: Sequence[Any], run: Path) -> None:
    """Take part in a fit that the first process keeps and tells of."""
    with stoppable():
        estimator.fit(*data, run_dir=run)


def sample(
    estimator: Any, data: Sequence[Any], run: Path, quiet: bool = False, log: Callable[[dict], None] | None = None,
    course: Any = None,
) -> None:  # fmt: skip
    """Fit x, y and groups in a folder, telling the news and, at the end, what to be careful about."""
    from gpbae.answering import advice
    from gpbae.cli import notices
    from gpbae.processes import progress
    from gpbae.saving import runfolder

    wanted = estimator.progress
    spare_the_collector()
    try:
        name = type(estimator).__name__
        title = name if course is None else course.title(name, "to all cells")
        with stoppable(), progress.display(title, bool(wanted) and not quiet, course) as show:
            estimator.progress = progress.both(show, *([] if log is None else [log]))
            fitted = estimator.fit(*data, run_dir=run)
    finally:
        estimator.progress = wanted
    if is_sampled(fitted):
        for sentence in notices.of_latents(fitted, ()) if fitted.latent_dim is None and not quiet else ():
            terminal.say(sentence)
        dates = {} if runfolder.columns(run) is None else columns(run).dates
        told = command(run)
        warnings = fitted.diagnostics(dates).attrs["warnings with commands"]
        sentences = [advice.spelled_out(words, told) for words in warnings]
        terminal.warn(sentences, with_meanings=not quiet)


def load(run: Path) -> tuple[Any, Any]:
    """The model of a run and the roles of its columns."""
    from gpbae.saving import io

    read_as = columns(run)
    folder = run if (run / io.MANIFEST).exists() else run / "model"
    if not folder.exists():
        raise InputError(f"The fit in {run} was stopped before it began to sample; call `gpbae fit` as before.")
    return io.load(folder), read_as


def columns(run: Path) -> Any:
    """The roles of the columns of a run."""
    from gpbae.cli import roles
    from gpbae.saving import runfolder

    content = runfolder.columns(run)
    if content is None:
        raise InputError(_no_run(run))
    try:
        return roles.Columns.from_json(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{run} does not hold a run of `gpbae fit`: its {runfolder.COLUMNS} cannot be read. Fit again, or name "
            "another folder."
        ) from error


def _no_run(folder: Path) -> str:
    """What a folder holds instead of a run, and what to do."""
    from gpbae.saving import runfolder, storage

    inside = sorted(file.parent.name for file in folder.glob(f"*/{runfolder.COLUMNS}"))
    if (folder / storage.MANIFEST).exists():
        found = "it was fitted or saved in Python. Open it there, with gpbae.load"
    elif inside:
        found = f"there are runs inside it. Name one of them, such as {folder / inside[0]}"
    else:
        found = (
            f"there is no {runfolder.COLUMNS} in it. Name the folder that was --out of a fit, or fit first: gpbae fit "
            f"data.csv --inputs time --out {shlex.quote(str(folder))}"
        )
    return f"{folder} does not hold a run of `gpbae fit`: {found}."


def is_sampled(model: Any) -> bool:
    """Ours has chains to ask about; a baseline was optimised."""
    from gpbae import estimators

    return isinstance(model, estimators.BAE)
