"""A run that was stopped goes on to the draws it would have had anyway."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import runs
from commands import run
from gpbae import BAE, GPBAE, load
from gpbae.errors import GpbaeError, InputError, Interrupted
from gpbae.sampling import run as sampling
from gpbae.saving import io, runfolder, storage

CHEAPEST = "full batch"


@pytest.fixture
def every_block(monkeypatch):
    monkeypatch.setattr(runfolder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)


@pytest.fixture(scope="module")
def uninterrupted():
    """Each configuration without a folder, once."""
    fitted = {}
    return lambda name: fitted.setdefault(name, runs.fit(name))


@pytest.mark.parametrize("name", runs.RUNS)
def test_resumed_chain_equals_uninterrupted_chain(name, uninterrupted, tmp_path, every_block):
    """Stopped in warm-up, where the scales are measured again, at its end, and twice while sampling."""
    for moment in (("warm-up", 1), ("warm-up", 3), ("warm-up", 4), ("sampling", 1), ("sampling", 3)):
        with pytest.raises(runs.Stop):
            runs.fit(name, tmp_path / "run", runs.stopping(*moment))
    resumed = runs.fit(name, tmp_path / "run")
    whole = uninterrupted(name)
    runs.assert_same_draws(resumed, whole)
    answers = [m.predict(runs.X, runs.RUNS[name][2]).samples for m in (load(tmp_path / "run"), whole)]
    np.testing.assert_array_equal(*answers)


def test_chain_does_not_depend_on_how_often_it_is_kept(uninterrupted, tmp_path):
    """With checkpoints at the ends of phases only, a stop in the middle of one repeats it."""
    with pytest.raises(runs.Stop):
        runs.fit(CHEAPEST, tmp_path / "run", runs.stopping("sampling", 3))
    assert not list((tmp_path / "run" / "draws").iterdir())
    runs.assert_same_draws(runs.fit(CHEAPEST, tmp_path / "run"), uninterrupted(CHEAPEST))


def test_a_finished_run_is_not_run_again(uninterrupted, tmp_path):
    runs.fit(CHEAPEST, tmp_path / "run")
    events = []
    runs.assert_same_draws(runs.fit(CHEAPEST, tmp_path / "run", events.append), uninterrupted(CHEAPEST))
    assert [event["phase"] for event in events] == ["resumed"]


def test_a_run_that_goes_on_is_compiled_first(tmp_path, every_block):
    with pytest.raises(runs.Stop):
        runs.fit(CHEAPEST, tmp_path / "run", runs.stopping("sampling", 2))
    phases = []
    runs.fit(CHEAPEST, tmp_path / "run", lambda event: phases.append(event["phase"]))
    assert phases[:2] == ["resumed", "compiling"] and set(phases[2:]) == {"sampling"}


def test_history_survives(tmp_path, every_block):
    with pytest.raises(runs.Stop):
        runs.fit(CHEAPEST, tmp_path / "run", runs.stopping("sampling", 2))
    model = runs.fit(CHEAPEST, tmp_path / "run")
    done = [event["done"] for event in model.history_ if event["phase"] == "sampling"]
    assert done == [1, 2, 3, 4]
    for clock in ("seconds", "processor_seconds"):
        told = [event[clock] for event in model.history_]
        assert told == sorted(told)
    for name in ("log_joint", "kinetic_temperature"):
        told = [event[name] for event in model.history_ if name in event]
        assert told and all(isinstance(values, np.ndarray) for values in told)
    lines = (tmp_path / "run" / runfolder.METRICS).read_text().splitlines()
    assert [json.loads(line)["phase"] for line in lines][:2] == ["compiling", "map"]


CHANGES = {
    "seed": (dict(seed=1), "begun with seed = 0; got 1"),
    "num_samples": (dict(num_samples=5), "begun with num_samples = 4; got 5"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_other_arguments_are_refused(what, tmp_path):
    runs.fit(CHEAPEST, tmp_path / "run")
    changes, words = CHANGES[what]
    with pytest.raises(InputError, match=words):
        runs.fit(CHEAPEST, tmp_path / "run", **changes)


def test_other_data_and_other_models_are_refused(tmp_path):
    runs.fit(CHEAPEST, tmp_path / "run")
    other = runs.Y.copy()
    other[0, 0] += 1e-9
    with pytest.raises(InputError, match=r"begun with other data: 1 of .* values of y are others, the first in row 1"):
        BAE(**runs.QUICK).fit(runs.X, other, run_dir=tmp_path / "run")
    with pytest.raises(InputError, match="class = 'BAE'; got 'GPBAE'"):
        GPBAE(**runs.QUICK).fit(runs.X, runs.Y, run_dir=tmp_path / "run")
    frame = pd.DataFrame(runs.Y, columns=list("abc"))
    with pytest.raises(InputError, match="begun with columns"):
        BAE(**runs.QUICK, progress=False).fit(runs.X, frame, run_dir=tmp_path / "run")


def test_other_columns_are_named(tmp_path):
    frame = pd.DataFrame(runs.Y, columns=list("abc"))
    BAE(**runs.QUICK, progress=False).fit(runs.X, frame, run_dir=tmp_path / "run")
    with pytest.raises(InputError, match="got them without b and with d"):
        BAE(**runs.QUICK, progress=False).fit(runs.X, frame.rename(columns={"b": "d"}), run_dir=tmp_path / "run")
    with pytest.raises(InputError, match="got them in another order"):
        BAE(**runs.QUICK, progress=False).fit(runs.X, frame[["c", "b", "a"]], run_dir=tmp_path / "run")


# Signals.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_block_and_says_how_to_go_on(number, uninterrupted, tmp_path, capsys):
    def send(event):
        if event["phase"] == "sampling" and event["done"] == 2:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=r"after sweep 6 of 8;.*gpbae resume") as caught:
        runs.fit(CHEAPEST, tmp_path / "run", send)
    assert caught.value.signal == number and isinstance(caught.value, KeyboardInterrupt)
    assert signal.getsignal(number) is before
    assert [p.name for p in (tmp_path / "run" / "draws").iterdir()] == ["000000.safetensors"]
    runs.assert_same_draws(runs.fit(CHEAPEST, tmp_path / "run"), uninterrupted(CHEAPEST))


def test_a_kill_after_a_signal_costs_no_more_than_the_block(uninterrupted, tmp_path, monkeypatch):
    """The block before is kept while this one is computed, without a checkpoint being due."""
    manifest, block = tmp_path / "run" / storage.MANIFEST, sampling.Sampler._block

    def killed(self, temperatures, adapting):
        if self.phase == "sampling" and self.block == 3:
            before, patience = manifest.read_bytes(), time.monotonic() + 20
            os.kill(os.getpid(), signal.SIGTERM)
            while manifest.read_bytes() == before and time.monotonic() < patience:
                time.sleep(0.01)
            raise runs.Stop
        return block(self, temperatures, adapting)

    with monkeypatch.context() as patch:
        patch.setattr(sampling.Sampler, "_block", killed)
        with pytest.raises(runs.Stop):
            runs.fit(CHEAPEST, tmp_path / "run")
    events = []
    runs.assert_same_draws(runs.fit(CHEAPEST, tmp_path / "run", events.append), uninterrupted(CHEAPEST))
    assert (events[0]["at"], events[0]["block"]) == ("sampling", 3)
    assert [e["done"] for e in events if e["phase"] == "sampling"] == [4]


def test_a_signal_after_a_block_was_kept_keeps_it_once(uninterrupted, tmp_path, monkeypatch):
    """Kept while the next block was computed, then that one too: every draw is there once."""
    manifest, block = tmp_path / "run" / storage.MANIFEST, sampling.Sampler._block

    def slow(self, temperatures, adapting):
        if self.phase == "sampling" and self.block == 2:
            before, patience = manifest.read_bytes(), time.monotonic() + 20
            os.kill(os.getpid(), signal.SIGINT)
            while manifest.read_bytes() == before and time.monotonic() < patience:
                time.sleep(0.01)
        return block(self, temperatures, adapting)

    with monkeypatch.context() as patch:
        patch.setattr(sampling.Sampler, "_block", slow)
        with pytest.raises(Interrupted, match="after sweep 7 of 8;"):
            runs.fit(CHEAPEST, tmp_path / "run")
    assert len(list((tmp_path / "run" / "draws").iterdir())) == 2
    runs.assert_same_draws(runs.fit(CHEAPEST, tmp_path / "run"), uninterrupted(CHEAPEST))


def test_resume_on_the_command_line(tmp_path, capsys, monkeypatch):
    """Stopped by SIGTERM, exit code 143; `gpbae resume` needs neither the table nor the arguments again."""
    frame = pd.DataFrame(runs.Y, columns=list("abc")).assign(id=runs.GROUPS)
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = runs.QUICK | dict(progress=False)
    lines = [f"{k} = {json.dumps(v)}" for k, v in arguments.items()]
    (tmp_path / "config.toml").write_text("\n".join(lines))

    def fit(out):
        return run("fit", tmp_path / "data.csv", "--model", "bae", "--outputs", "a,b,c", "--groups", "id", "--config",
                   tmp_path / "config.toml", "--out", tmp_path / out)  # fmt: skip

    assert fit("whole") == 0
    record = runfolder.RunFolder.record

    def stop(self, event):
        record(self, event)
        if event["phase"] == "sampling" and event["done"] == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(runfolder.RunFolder, "record", stop)
        assert fit("run") == 143
    assert "gpbae resume" in capsys.readouterr().err
    assert run("diagnose", tmp_path / "run") == 1
    assert "is not finished; `gpbae resume" in capsys.readouterr().err
    assert run("resume", tmp_path / "run") == 0
    whole, resumed = load(tmp_path / "whole"), load(tmp_path / "run")
    runs.assert_same_draws(resumed, whole)
    assert list(resumed.frame_.columns) == ["a", "b", "c"] and list(resumed.groups_) == list("abcd")
    assert run("predict", tmp_path / "run", tmp_path / "data.csv", "-o", tmp_path / "p.csv") == 0
    assert run("resume", tmp_path) == 1
    assert "there is no manifest.json" in capsys.readouterr().err
    file = tmp_path / "run" / runfolder.COLUMNS
    content = file.read_bytes()
    for other in (content[:-5], content.replace(b'"a"', b'"b"', 1), bytes(len(content))):
        file.write_bytes(other)
        assert run("diagnose", tmp_path / "run") == 1
        assert str(file) in capsys.readouterr().err
    file.unlink()
    file.symlink_to(tmp_path / "whole" / runfolder.COLUMNS)
    assert run("diagnose", tmp_path / "run") == 1
    assert "points out of the folder" in capsys.readouterr().err


# Crashes.


class Disk:
    """`os` as the storage module sees it, which does something before each call that changes the disk."""

    CALLS = ("open", "write", "fsync", "replace", "truncate", "ftruncate", "unlink")

    def __init__(self, before):
        self.before, self.count = before, 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.CALLS:
            return real

        def call(*arguments, **options):
            self.count += 1
            self.before(self.count, name, arguments)
            return real(*arguments, **options)

        return call


def install(monkeypatch, disk):
    for module in (storage, runfolder, io):
        monkeypatch.setattr(module, "os", disk)


STRIDES = [11, pytest.param(1, marks=pytest.mark.slow)]
"""Every call to the disk is tried with `pytest -m slow`."""


@pytest.mark.parametrize("stride", STRIDES)
def test_a_crash_at_any_call_to_the_disk_can_be_resumed(stride, tmp_path, every_block, monkeypatch):
    """What a crash leaves is what lies there before a call: copies of the folder at each, half of a write included."""
    folder, copies = tmp_path / "run", []

    def copy(count, name, arguments):
        if name == "write" and len(arguments[1]) > 1:
            os.write(arguments[0], arguments[1][: len(arguments[1]) // 2])
        if folder.exists() and count % stride == 0:
            copies.append(shutil.copytree(folder, tmp_path / f"copy{count}", symlinks=True))
        if name == "write" and len(arguments[1]) > 1:
            os.lseek(arguments[0], -(len(arguments[1]) // 2), os.SEEK_CUR)
            os.ftruncate(arguments[0], os.lseek(arguments[0], 0, os.SEEK_CUR))

    with monkeypatch.context() as patch:
        install(patch, Disk(copy))
        runs.fit(CHEAPEST, folder, num_samples=2, num_warmup=2)
    whole = runs.fit(CHEAPEST, num_samples=2, num_warmup=2)
    assert len(copies) > 60 // stride
    for crashed in copies:
        runs.assert_same_draws(runs.fit(CHEAPEST, crashed, num_samples=2, num_warmup=2), whole)
        names = {p.name for p in crashed.rglob("*")}
        assert not any(name.endswith(".tmp") or name == runfolder.NEXT for name in names), names


@pytest.mark.parametrize("stride", STRIDES)
def test_a_full_disk_is_a_sentence_and_the_last_checkpoint_is_intact(stride, tmp_path, every_block, monkeypatch):
    """Every write, flush and rename in turn fails, for good, as on a disk that is full; then there is room again."""
    options = dict(num_samples=2, num_warmup=2)
    whole = runs.fit(CHEAPEST, **options)
    counting = Disk(lambda *_: None)
    with monkeypatch.context() as patch:
        install(patch, counting)
        runs.fit(CHEAPEST, tmp_path / "count", **options)
    for fails_at in range(1, counting.count + 1, stride):

        def fail(count, name, arguments, fails_at=fails_at):
            if count >= fails_at and name in ("write", "fsync", "replace"):
                raise OSError(28, "No space left on device")

        folder = tmp_path / f"run{fails_at}"
        with monkeypatch.context() as patch:
            install(patch, Disk(fail))
            try:
                runs.fit(CHEAPEST, folder, **options)
            except GpbaeError as error:
                assert "No space left on device" in str(error) and str(folder) in str(error)
        runs.assert_same_draws(runs.fit(CHEAPEST, folder, **options), whole)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}k", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(words, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


DISK = 512


def test_a_disk_that_is_really_full_is_a_sentence_and_can_be_resumed(small_disk, uninterrupted, every_block):
    """From no room at all to enough, a page at a time at first: where it ends, it goes on when there is room."""
    whole, refused = uninterrupted(CHEAPEST), 0
    for room in (0, 4, 8, 12, 16, 20, 24, 32, 40, 52, 64, 96, DISK):
        folder, filler = small_disk / "run", small_disk / "filler"
        filler.write_bytes(bytes(1024 * (DISK - room)))
        try:
            runs.fit(CHEAPEST, folder)
        except GpbaeError as error:
            assert "No space left on device" in str(error) and str(folder) in str(error)
            refused += 1
        filler.unlink()
        runs.assert_same_draws(runs.fit(CHEAPEST, folder), whole)
        assert not list(folder.rglob("*.tmp"))
        shutil.rmtree(folder)
    assert 6 <= refused <= 12, refused


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
import jax
jax.config.update("jax_disable_most_optimizations", True)
import runs
from gpbae.saving import runfolder
runfolder.SECONDS_BETWEEN_CHECKPOINTS = 0.0
def say(event):
    print(event["phase"], flush=True)
runs.fit("row minibatch, amortised, several chains", {folder!r}, say, num_samples=60)
"""


def launch(folder):
    paths = [str(Path(runs.__file__).parent), str(Path(storage.__file__).parents[2])]
    script = SCRIPT.format(paths=paths, folder=str(folder))
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def test_killed_processes_are_resumed(tmp_path):
    """kill -9 from outside, at random moments after the first event; `benchmarks/kills.py` does it sixty times."""
    rng = random.Random(0)
    for _ in range(2):
        process = launch(tmp_path / "run")
        assert process.stdout is not None and process.stdout.readline()
        time.sleep(rng.uniform(0.0, 1.5))
        process.kill()
        process.communicate()
    for name in ("run", "whole"):
        process = launch(tmp_path / name)
        process.communicate()
        assert process.returncode == 0
    digests = [
        hashlib.sha256((tmp_path / name / "model" / "draws.safetensors").read_bytes()).hexdigest()
        for name in ("run", "whole")
    ]
    assert digests[0] == digests[1]
