"""Whether a copy that is about to become the table of a run is the table that the run was begun with."""

from pathlib import Path
from typing import Any

from gpbae.errors import InputError
from gpbae.saving import runfolder, settings, storage, tablefolder


def is_on_disk(run: Path) -> bool:
    """Whether a run that was begun keeps a sample of a table that stays on disk."""
    return settings.ON_DISK in _arrays(run)


def refuse_another(run: Path) -> None:
    """Refuse the unfinished copy in a run, unless all of it is as in the copy that the run has; where that is lost,
    unless the sample that the run keeps is a sample of it."""
    try:
        before = tablefolder.content(tablefolder.manifest(run))
    except InputError:
        return _refuse_another_sample(run)
    now = tablefolder.content(tablefolder.manifest(run, tablefolder.UNFINISHED))
    if other := [name for name in before if before[name] != now[name]]:
        words = {"files": "the cells", "inputs": "the inputs", "frame": "the names, kinds or labels of outputs"}
        _refuse(run, f"{words[other[-1]]} are not those of the copy in {tablefolder.TABLE}")


def _refuse_another_sample(run: Path) -> None:
    from gpbae.sampling import outofcore

    files, config = runfolder.read_manifest(run)["files"], run / runfolder.CONFIG
    stored = storage.read(run, runfolder.CONFIG, files[runfolder.CONFIG])
    estimator, _, _ = settings.read(stored, config)
    x, y, groups = tablefolder.reopen(run, tablefolder.UNFINISHED)
    chosen = outofcore.chosen_rows(outofcore.labels_of(groups, len(y)), len(y))
    sample = outofcore.sample_of(x, y, groups, chosen)
    settings.check_same(stored, settings.text(estimator, *sample[:2]), config)
    before, now = _arrays(run), settings.table(*sample, len(y))
    if settings.fingerprint(before) != settings.fingerprint(now):
        _refuse(run, settings.difference(before, now))


def _arrays(run: Path) -> dict[str, Any]:
    data = storage.read(run, runfolder.DATA, runfolder.read_manifest(run)["files"][runfolder.DATA])
    return storage.arrays(data, run / runfolder.DATA)


def _refuse(run: Path, what: str) -> None:
    raise InputError(
        f"{run} was begun with other data: {what}. Give the same table (with the same inputs, outputs and groups), or "
        "name a new folder."
    )
