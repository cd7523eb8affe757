"""What may happen to the copy of a table that stays on disk: kills, full disks, files that change, tables that are
renamed.  The run that was begun goes on, or nothing has changed."""

import os
import shutil
import types

import numpy as np
import pandas as pd
import pytest

from gpbae import SGPBAE, cli
from gpbae.cli import copying, ondisk, pieces, reading, runs
from gpbae.errors import GpbaeError, InputError
from gpbae.sampling import outofcore
from gpbae.saving import runfolder, sametable, storage, tablefolder

N = 2400
WISH = reading.Wish("time", "all,sky", groups="site")


@pytest.fixture(autouse=True)
def in_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "ROWS_IN_MEMORY", 700)
    monkeypatch.setattr(outofcore, "SAMPLE", 100)


def make_frame():
    rng, i = np.random.default_rng(0), np.arange(N)
    return pd.DataFrame({"time": i / 24, "site": np.where(i % 2, "B", "A"), "level": np.sin(i / 50).round(3),
                         "wet": rng.choice(["yes", "no"], N), "sky": rng.choice(["clear", "cloud"], N)})  # fmt: skip


@pytest.fixture
def source(tmp_path):
    make_frame().to_csv(tmp_path / "data.csv", index=False)
    return copying.Source(tmp_path / "data.csv", WISH)


def fit(source, out):
    """The copy of a fit, made or kept, as the fit opens it."""
    runfolder.make(out)
    make = lambda y: (SGPBAE(batch_size=64), ["batch_size"])  # noqa: E731
    return ondisk.Fit(source, out, make, runs.Given([]), quiet=True)._opened(lambda event: None)


def begin(out, opened):
    """A run that was begun with a table on disk, stopped before its first sweep."""
    x, y, groups = opened
    model = SGPBAE(batch_size=64)
    chosen = outofcore.chosen_rows(outofcore.labels_of(groups, len(y)), len(y))
    (out / runfolder.COLUMNS).write_text("{}")
    with runfolder.keeping(out, model, *outofcore.sample_of(x, y, groups, chosen), len(y)):
        pass


@pytest.fixture
def begun(source, tmp_path):
    out = tmp_path / "run"
    opened, _ = fit(source, out)
    begin(out, opened)
    return out


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def hidden(out):
    """What is left of copies."""
    return [file.name for file in out.iterdir() if file.name.startswith(".table")]


def other(source, tmp_path, **cells):
    make_frame().assign(**cells).to_csv(tmp_path / "other.csv", index=False)
    return source._replace(path=tmp_path / "other.csv")


# Kills.


def test_a_kill_never_leaves_a_begun_run_without_its_table(source, begun, monkeypatch):
    """A file that was touched is copied again, and is the same: no name changes hands."""
    os.utime(source.path)
    before = content(begun / tablefolder.TABLE)
    whole = os.replace

    def killed(old, new):
        if tablefolder.TABLE in (os.path.basename(old), os.path.basename(new)):
            raise KeyboardInterrupt
        whole(old, new)

    monkeypatch.setattr(os, "replace", killed)
    assert fit(source, begun)[1]
    after = content(begun / tablefolder.TABLE)
    assert before.pop(storage.MANIFEST) != after.pop(storage.MANIFEST) and before == after
    assert not fit(source, begun)[1] and not hidden(begun)


def lose(table):
    shutil.rmtree(table)


def lose_manifest(table):
    (table / storage.MANIFEST).write_text("{}")


def flip(table):
    cells = bytearray((table / "y.npy").read_bytes())
    cells[-1] ^= 1
    (table / "y.npy").write_bytes(cells)


@pytest.mark.parametrize("damage", [lose, lose_manifest, flip])
def test_a_table_that_is_lost_or_damaged_is_copied_again_and_no_other_takes_its_place(
    damage, source, begun, tmp_path, capsys
):
    damage(begun / tablefolder.TABLE)
    with pytest.raises(SystemExit) as ended:
        cli.main(["resume", str(begun), "-q"])
    assert ended.value.code == 1
    if damage is not lose_manifest:
        assert "epeat the `gpbae fit` command, which copies" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(InputError, match="begun with other data"):
        fit(other(source, tmp_path, level=np.cos(np.arange(N) / 50).round(3)), begun)
    with pytest.raises(InputError, match="was begun with"):
        fit(other(source, tmp_path, sky=make_frame()["sky"].replace("clear", "sun")), begun)
    assert fit(source, begun)[1] and tablefolder.is_whole(begun) and not hidden(begun)


def test_a_run_in_memory_is_known_by_what_it_keeps(source, tmp_path):
    out, table = tmp_path / "run", reading.read(source.path, WISH)
    with runfolder.keeping(out, SGPBAE(), table.x, table.y, table.groups):
        pass
    assert not sametable.is_on_disk(out)
    with pytest.raises(InputError, match="begun with a table in memory; pass --in-memory"):
        fit(source, out)


def test_labels_are_on_the_disk_before_the_table_has_its_name(source, tmp_path, monkeypatch):
    synced, whole = [], os.fsync

    def sync(handle):
        synced.append(os.fstat(handle).st_ino)
        whole(handle)

    monkeypatch.setattr(os, "fsync", sync)
    fit(source, tmp_path / "run")
    files = list((tmp_path / "run" / tablefolder.TABLE).iterdir())
    assert len(files) == 5 and {file.stat().st_ino for file in files} <= set(synced)


# Room.


def test_what_a_kill_left_is_not_counted_against_the_room(source, tmp_path, monkeypatch):
    out = tmp_path / "run"
    for name in (tablefolder.UNFINISHED, tablefolder.BEFORE):
        (out / name).mkdir(parents=True)
        (out / name / "y.npy").write_bytes(bytes(200_000))

    def usage(path):
        taken = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
        return types.SimpleNamespace(free=450_000 - taken)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    fit(source, out)
    assert not hidden(out)


@pytest.mark.parametrize("size", [20_000, 57_700, 57_727])
def test_a_disk_that_is_full_at_any_byte_is_told_and_nothing_stays(size, source, tmp_path):
    """The outputs take 57 728 bytes; the last of them are written when the file is closed."""
    resource = pytest.importorskip("resource")
    out, before = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(GpbaeError, match=r"Could not copy the table to .*; make room there"):
            fit(source, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not hidden(out) and not tablefolder.is_there(out)


# Other tables.


@pytest.mark.parametrize("when", ["settled", "copied"])
def test_a_file_that_changes_while_it_is_copied_is_refused(when, source, tmp_path, monkeypatch):
    """After its columns were settled, and after some of its rows were copied."""
    name = {"settled": "head", "copied": "_write"}[when]
    whole = getattr(copying, name)

    def changing(*given):
        found = whole(*given)
        os.replace(other(source, tmp_path, level=9.0).path, source.path)
        return found

    monkeypatch.setattr(copying, name, changing)
    with pytest.raises(InputError, match="must stay as it is while it is copied"):
        fit(source, tmp_path / "run")
    assert not tablefolder.is_there(tmp_path / "run")


@pytest.mark.parametrize("what", ["labels", "outputs", "inputs", "cells"])
def test_a_begun_run_refuses_the_same_numbers_by_other_names(what, source, begun, tmp_path):
    frame = make_frame()
    names = {"outputs": {"level": "depth"}, "inputs": {"time": "hour"}}.get(what, {})
    if what == "labels":
        frame["sky"] = frame["sky"].replace("clear", "sun")
    if what == "cells":
        frame.loc[N - 1, "level"] = 0.5
    frame.rename(columns=names).to_csv(tmp_path / "other.csv", index=False)
    wish = WISH._replace(inputs=names.get("time", "time"))
    before = content(begun / tablefolder.TABLE)
    with pytest.raises(InputError, match=r"was begun with other data: the .* are not those of the copy in table"):
        fit(copying.Source(tmp_path / "other.csv", wish), begun)
    assert content(begun / tablefolder.TABLE) == before and not fit(source, begun)[1]


@pytest.mark.parametrize("wish", [WISH, reading.Wish("time,wet", "level")], ids=["output", "input"])
def test_numbers_among_yes_and_no_are_refused_wherever_the_table_is(wish, source, tmp_path):
    frame = make_frame()
    frame.loc[N - 5, "wet"] = "1"
    frame.to_csv(source.path, index=False)
    with pytest.raises(InputError) as in_memory:
        reading.read(source.path, wish)
    with pytest.raises(InputError) as on_disk:
        fit(source._replace(wish=wish), tmp_path / "run")
    assert f"must hold yes or no; got '1' on line {N - 3}." in str(on_disk.value)
    assert f"got '1' on line {N - 3}." in str(in_memory.value)


def test_the_sentence_says_from_how_many_cells_a_table_stays_on_disk(source):
    with pytest.raises(InputError, match="or more than 50 million cells"):
        ondisk.check(source.path, types.SimpleNamespace(name="VAE", value="vae"), False, False)
