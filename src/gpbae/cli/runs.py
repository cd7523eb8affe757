"""A run's folder as commands use it: begun, sampled, opened again."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from gpbae.cli import terminal
from gpbae.errors import InputError, Interrupted


def begin(columns: Any, run: Path) -> None:
    """Keep how the table was read, unless a fit has been here."""
    from gpbae import runfolder, storage

    if not runfolder.has_table(run):
        storage.write(run / runfolder.COLUMNS, columns.to_json())


@contextlib.contextmanager
def stoppable(words: str | None = None) -> Iterator[None]:
    """Stopped by a signal, the exit code is 128 and the signal's number, as shells have it; words say how to go on."""
    from gpbae import watch

    watch.process_is_ours = True
    try:
        yield
    except Interrupted as stopped:
        terminal.say(words or str(stopped))
        raise typer.Exit(128 + stopped.signal) from None
    finally:
        watch.process_is_ours = False


def sample(
    estimator: Any, data: Sequence[Any], run: Path, quiet: bool = False, log: Callable[[dict], None] | None = None
) -> None:
    """Fit x, y and groups in a folder, telling the news and, at the end, what to be careful about."""
    from gpbae import progress

    wanted = estimator.progress
    try:
        with stoppable(), progress.display(type(estimator).__name__, bool(wanted) and not quiet) as show:
            estimator.progress = progress.both(show, *([] if log is None else [log]))
            fitted = estimator.fit(*data, run_dir=run)
    finally:
        estimator.progress = wanted
    for words in fitted.diagnostics().attrs["warnings"] if is_sampled(fitted) else ():
        terminal.say(f"Warning: {words}")


def load(run: Path) -> tuple[Any, Any]:
    """The model of a run and the roles of its columns."""
    from gpbae import io

    columns = _columns(run)
    return io.load(run if (run / io.MANIFEST).exists() else run / "model"), columns


def _columns(run: Path) -> Any:
    from gpbae import runfolder
    from gpbae.cli import roles

    content = runfolder.columns(run)
    try:
        return roles.Columns.from_json(content or b"")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{run} does not hold a run of `gpbae fit`: its columns.json cannot be read. If a fit was stopped while it "
            "was still evaluating, run it again."
        ) from error


def is_sampled(model: Any) -> bool:
    """Ours has chains to ask about; a baseline was optimised."""
    from gpbae import estimators

    return isinstance(model, estimators.BAE)
