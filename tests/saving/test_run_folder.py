"""The folder of a run is not believed blindly: what was cut, changed, swapped or planted is refused by name."""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import hostile
import runs
from gpbae import BAE, GPBAE, SGPBAE, load
from gpbae.autoencoder import Position
from gpbae.errors import GpbaeError, InputError
from gpbae.kernels import RBF, Embed, Periodic
from gpbae.likelihoods import Gaussian
from gpbae.processes import watch
from gpbae.sampling import checkpoint, health, keptlatents, run, sghmc
from gpbae.sampling.inference import Chain, Refresh, Report
from gpbae.saving import io, runfolder, settings, storage
from gpbae.tabular import ondisk

NAME = "full batch"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Two unfinished runs, with draws, that differ in their seed."""
    folders = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runfolder, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        for seed in (0, 1):
            folders.append(tmp_path_factory.mktemp("stopped") / "run")
            with pytest.raises(runs.Stop):
                runs.fit(NAME, folders[-1], runs.stopping("sampling", 3), seed=seed)
    return folders


@pytest.fixture
def copy(stopped, tmp_path):
    return shutil.copytree(stopped[0], tmp_path / "copy")


CHUNK = f"{runfolder.CHUNKS}/000001.safetensors"
FILES = (runfolder.CONFIG, runfolder.DATA, runfolder.STATE, runfolder.METRICS, CHUNK, storage.MANIFEST)


def refused(folder, name):
    """The sentence that names the file; neither fit nor resume goes on."""
    with pytest.raises(InputError, match=re.escape(str(folder / name))) as caught:
        open_and_read(folder)
    return str(caught.value)


def open_and_read(folder):
    """All that resuming reads, without sampling: a run of its own in the same folder."""
    cls, arguments, groups = runs.RUNS[NAME]
    model = cls(**runs.QUICK | arguments, progress=False)
    with runfolder.keeping(folder, model, runs.X, runs.Y, groups) as run:
        return run.saved()


def committed(folder, name):
    """How much of a file counts: a log may have grown since the last checkpoint."""
    files = json.loads((folder / storage.MANIFEST).read_text())["files"]
    return files[name]["size"] if name in files else (folder / name).stat().st_size


def test_folder_holds_what_it_says(stopped):
    files = {str(p.relative_to(stopped[0])) for p in stopped[0].rglob("*") if p.is_file()}
    assert {*FILES, f"{runfolder.CHUNKS}/000000.safetensors", storage.LOCK} == files
    manifest = json.loads((stopped[0] / storage.MANIFEST).read_text())
    assert set(manifest["files"]) == files - {storage.MANIFEST, storage.LOCK}
    assert manifest["packages"]["jax"] and len(manifest["fingerprint"]) == 64 and not manifest["finished"]
    config = tomllib.loads((stopped[0] / runfolder.CONFIG).read_text())
    assert config["class"] == "BAE" and config["arguments"]["num_samples"] == 4


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_refused_by_name(name, copy):
    content = (copy / name).read_bytes()
    for cut in sorted({committed(copy, name) * i // 20 for i in range(20)}):
        (copy / name).write_bytes(content[:cut])
        assert "truncated" in refused(copy, name)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_by_name(name, copy):
    """Two hundred in each file."""
    rng, content, size = random.Random(0), (copy / name).read_bytes(), committed(copy, name)
    for _ in range(200):
        changed = bytearray(content)
        changed[rng.randrange(size)] ^= 1 << rng.randrange(8)
        (copy / name).write_bytes(changed)
        refused(copy, name)


@pytest.mark.parametrize("name", FILES[:-1])
def test_files_of_another_run_are_refused_by_name(name, stopped, copy):
    if (stopped[1] / name).read_bytes() == (copy / name).read_bytes():
        return  # the same table
    shutil.copy(stopped[1] / name, copy / name)
    refused(copy, name)


def test_the_manifest_of_another_run_is_refused(stopped, copy):
    shutil.copy(stopped[1] / storage.MANIFEST, copy / storage.MANIFEST)
    with pytest.raises(InputError, match=str(copy)):
        open_and_read(copy)


@pytest.mark.parametrize("name", FILES)
def test_planted_files_are_refused_by_name(name, copy, tmp_path):
    """Nothing is executed, and what is large is not read."""
    started = time.monotonic()
    for what in hostile.plants(copy / name, tmp_path):
        sentence = refused(copy, name)
        assert what != "link" or "points out of the folder" in sentence
    assert time.monotonic() - started < 10
    assert not (tmp_path / "executed").exists()


# A finished run: the model inside.

INSIDE = [f"{runfolder.MODEL}/{name}" for name in io.FILES]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("finished") / "run" for _ in range(2)]
    for seed, folder in enumerate(folders):
        runs.fit(NAME, folder, seed=seed)
    return folders


def not_loaded(folder, name):
    with pytest.raises(InputError, match=re.escape(str(folder / name))):
        load(folder)


@pytest.mark.parametrize("name", INSIDE)
def test_a_model_inside_a_run_is_not_believed_blindly(name, finished, tmp_path):
    """Cut at 20 places, 200 bits flipped, taken from another run, and what may be planted."""
    folder, rng = shutil.copytree(finished[0], tmp_path / "run"), random.Random(0)
    content = (folder / name).read_bytes()
    for cut in range(20):
        (folder / name).write_bytes(content[: len(content) * cut // 20])
        not_loaded(folder, name)
    for _ in range(200):
        changed = bytearray(content)
        changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (folder / name).write_bytes(changed)
        not_loaded(folder, name)
    (folder / name).write_bytes((finished[1] / name).read_bytes())
    not_loaded(folder, name)
    (folder / name).write_bytes(content)
    for _ in hostile.plants(folder / name, tmp_path):
        not_loaded(folder, name)
    load(folder)
    assert not (tmp_path / "executed").exists()


def test_planted_files_take_no_more_than_twice_the_memory(finished, tmp_path):
    """Every file of a finished run, in a process of its own that resumes and loads it."""
    folder = shutil.copytree(finished[0], tmp_path / "run")
    found = subprocess.run([sys.executable, hostile.__file__, folder], stdout=subprocess.PIPE, check=True)
    found = json.loads(found.stdout)
    print(found)
    assert found["tried"] == found["refused"] == 5 * found["files"] and not found["executed"]
    assert found["all"] <= 2 * found["honest"]


def test_a_long_log_is_cut_without_being_read(copy):
    with open(copy / runfolder.METRICS, "ab") as log:
        log.truncate(10 * 2**30)
    open_and_read(copy)
    expected = json.loads((copy / storage.MANIFEST).read_text())["files"][runfolder.METRICS]["size"]
    assert (copy / runfolder.METRICS).stat().st_size == expected


def test_draws_linked_elsewhere_are_refused(copy, tmp_path):
    shutil.move(copy / runfolder.CHUNKS, tmp_path / "elsewhere")
    (copy / runfolder.CHUNKS).symlink_to(tmp_path / "elsewhere")
    assert "points out of the folder" in refused(copy, runfolder.CHUNKS)


def test_latents_linked_elsewhere_are_refused_and_their_target_is_left_alone(copy, tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    (copy / keptlatents.FILE).symlink_to(tmp_path / "elsewhere")
    assert "points out of the folder" in refused(copy, keptlatents.FILE)
    assert (tmp_path / "elsewhere").read_text() == "precious"


def reseal(folder, change):
    manifest = json.loads((folder / storage.MANIFEST).read_text())
    del manifest["checksum"]
    change(manifest)
    (folder / storage.MANIFEST).write_bytes(storage.seal(manifest))


TAMPERED = {
    "version": (lambda m: m.update(version=99), "format version 99 and this release reads"),
    "format": (lambda m: m.update(format="other"), "describes 'other'"),
    "files": (lambda m: m.update(files=[]), "changed or damaged"),
    "no table": (lambda m: m["files"].pop(runfolder.DATA), f"must list {runfolder.DATA}"),
    "no size": (lambda m: m["files"].update({runfolder.STATE: {}}), "must say size and sha256"),
    "odd size": (lambda m: m["files"][runfolder.CONFIG].update(size="many"), "must say size and sha256"),
    "no end": (lambda m: m["files"][runfolder.METRICS].update(size=-1), "must say size and sha256"),
    "odd entry": (lambda m: m["files"].update({runfolder.DATA: 7}), "must say size and sha256"),
    "no fingerprint": (lambda m: m.pop("fingerprint"), "must say fingerprint"),
    "gap": (lambda m: m["files"].pop(f"{runfolder.CHUNKS}/000000.safetensors"), "must list draws/000000"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_manifest_that_says_something_else_is_refused(what, copy):
    change, words = TAMPERED[what]
    reseal(copy, change)
    assert words in refused(copy, storage.MANIFEST)


def test_draws_and_state_of_different_moments_are_refused(copy):
    reseal(copy, lambda m: m["files"].pop(CHUNK))
    with pytest.raises(InputError, match="one draw for every block of sampling; got 1 draws after block 2 of sampling"):
        runs.fit(NAME, copy)


def rewritten(folder, name, content):
    """A file with other content, and a manifest that vouches for it."""
    (folder / name).write_bytes(content)
    reseal(folder, lambda m: m["files"].update({name: storage.describe(content)}))


@pytest.mark.parametrize("line", [b"[]", b"{}", b"words", b'{"seconds": "x"}', b'{"seconds": 1, "log_joint": [{}]}'])
def test_a_log_that_holds_no_events_is_refused_by_name(line, copy):
    rewritten(copy, runfolder.METRICS, line + b"\n")
    refused(copy, runfolder.METRICS)


@pytest.mark.parametrize("text", ["", "class = 1", "[arguments]\nseed = {eval = 1}", 'class = "BAE"\narguments = 3'])
def test_settings_that_say_something_else_are_refused_by_name(text, copy):
    rewritten(copy, runfolder.CONFIG, text.encode())
    refused(copy, runfolder.CONFIG)
    with pytest.raises(InputError, match=re.escape(str(copy / runfolder.CONFIG))):
        runfolder.reopen(copy)


@pytest.mark.parametrize("name", FILES[:-1])
def test_a_link_to_itself_is_refused_by_name(name, copy):
    (copy / name).unlink()
    (copy / name).symlink_to(copy / name)
    refused(copy, name)


def test_a_checkpoint_of_another_model_is_refused(copy):
    model = BAE(**runs.QUICK, progress=False)
    with runfolder.keeping(copy, model, runs.X, runs.Y, None) as run:
        run.keep({"chain.0": np.zeros(3)}, run.saved().counters, None)
    with pytest.raises(InputError, match="must hold the variables of this model"):
        runs.fit(NAME, copy)
    with runfolder.keeping(copy, model, runs.X, runs.Y, None) as run:
        run.keep({}, {}, None)
    with pytest.raises(InputError, match="must hold the variables of this model"):
        runs.fit(NAME, copy)


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / runfolder.CONFIG).write_text("mine")
    with pytest.raises(InputError, match=r"holds config\.toml and is not the folder of a run"):
        runs.fit(NAME, tmp_path)
    assert (tmp_path / runfolder.CONFIG).read_text() == "mine"
    with pytest.raises(InputError, match="must be a folder; got the file"):
        runs.fit(NAME, tmp_path / runfolder.CONFIG)
    runs.fit(NAME).save(tmp_path / "model")
    with pytest.raises(InputError, match="describes 'gpbae model'"):
        runs.fit(NAME, tmp_path / "model")


def test_other_versions_are_said(copy):
    reseal(copy, lambda m: m["packages"].update(jax="0.0.1"))
    with pytest.warns(UserWarning, match=r"begun with jax 0\.0\.1"):
        open_and_read(copy)


def test_a_lost_model_is_saved_again_and_half_saved_ones_go(tmp_path):
    model = runs.fit(NAME, tmp_path / "run")
    shutil.move(tmp_path / "run" / "model", tmp_path / "run" / ".model.x1")
    with pytest.raises(InputError, match=r"model/manifest\.json cannot be read"):
        load(tmp_path / "run")
    runs.fit(NAME, tmp_path / "run")
    assert not (tmp_path / "run" / ".model.x1").exists()
    runs.assert_same_draws(load(tmp_path / "run"), model)


# Disks.


def test_a_new_folder_is_on_the_disk_with_its_parents(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(storage, "sync", flushed.append)
    storage.make_folder(tmp_path / "a" / "b")
    assert set(flushed) == {tmp_path, tmp_path / "a"}


def test_a_file_system_that_cannot_flush_a_folder_will_do(tmp_path, monkeypatch):
    def refuse(handle):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(storage.os, "fsync", refuse)
    storage.sync(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):  # but a file must be
        storage.write(tmp_path / "file", b"content")


@pytest.mark.parametrize("call", ["truncate", "open"])
def test_a_disk_that_refuses_when_a_run_is_opened_is_a_sentence(call, copy, monkeypatch):
    """The log is cut, then opened: both before the first block."""

    class ReadOnly:
        def __getattr__(self, name):
            return refuse if name == call else getattr(os, name)

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(runfolder, "os", ReadOnly())
    with pytest.raises(GpbaeError, match=f"Could not write to {copy}: Read-only file system"):
        open_and_read(copy)


def test_a_run_dir_that_is_no_name_is_refused():
    with pytest.raises(InputError, match="run_dir must be the name of a folder; got 5"):
        runs.fit(NAME, 5)


# One process at a time.


def test_a_second_run_in_the_same_folder_is_refused(copy):
    model = BAE(**runs.QUICK, progress=False)
    with runfolder.keeping(copy, model, runs.X, runs.Y, None):
        with pytest.raises(GpbaeError, match=f"in use by process {os.getpid()}"):
            open_and_read(copy)
    open_and_read(copy)


HOLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from gpbae.saving import storage
lock = storage.Lock(Path(sys.argv[2]))
print("held", flush=True)
time.sleep(600)
"""


def test_the_lock_of_a_dead_process_is_no_lock(tmp_path):
    source = str(runfolder.Path(storage.__file__).parents[2])
    process = subprocess.Popen([sys.executable, "-c", HOLD, source, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    with pytest.raises(GpbaeError, match=f"in use by process {process.pid}"):
        storage.Lock(tmp_path)
    process.kill()
    process.communicate()
    assert (tmp_path / storage.LOCK).read_text() == f"{process.pid}\n"
    storage.Lock(tmp_path).release()


def test_without_locks_the_number_of_the_process_decides():
    assert not storage._is_alive(b"") and not storage._is_alive(b"999999999\n")
    assert storage._is_alive(f"{os.getppid()}\n".encode()) and not storage._is_alive(f"{os.getpid()}\n".encode())


# Settings.

MODELS = {
    "words": lambda: BAE(latent_dim=None, weight_prior="hierarchical"),
    "kernels": lambda: GPBAE(kernel=[RBF(lengthscale=(0.3, 2.0)), Periodic(period=0.5) + 0.1]),
    "labels": lambda: SGPBAE(kernel=Embed(RBF(lengthscale=0.3), column=1, num_labels=3, dim=2)),
    "likelihood": lambda: SGPBAE(likelihood=Gaussian(per_column=True), step_size=0.1, batch_size=7),
}


@pytest.mark.parametrize("name", MODELS)
def test_arguments_survive_as_toml(name, tmp_path):
    model = MODELS[name]()
    text = settings.text(model, runs.X, runs.Y)
    twin, *_ = settings.read(text, tmp_path)
    assert repr(twin) == repr(model) and settings.text(twin, runs.X, runs.Y) == text
    settings.check_same(text, settings.text(twin, runs.X, runs.Y), tmp_path)


LABELS = {
    "none": None,
    "text": np.array(["b", "a", "bé"] * 4),
    "numbers": np.arange(12) // 3,
    "objects": np.array([1, 2.0, "x"] * 4, dtype=object),
    "dates": np.array(["2024-01-02", "2024-01-01", "2024-01-03"] * 4, "M8[D]"),
}


@pytest.mark.parametrize("labels", LABELS)
def test_the_table_survives_as_arrays(labels):
    frame = pd.DataFrame(runs.Y, columns=list("abc"))
    times = pd.DataFrame(runs.X, columns=["time"])
    data = settings.table(times, frame, LABELS[labels])
    _, *looks = settings.read(settings.text(BAE(), times, frame), runfolder.Path("config.toml"))
    x, y, groups = settings.given(data, *looks)
    assert settings.fingerprint(settings.table(x, y, groups)) == settings.fingerprint(data)
    pd.testing.assert_frame_equal(x, times)
    pd.testing.assert_frame_equal(y, frame)


def test_a_network_of_your_own_is_resumed_in_python(tmp_path):
    def module(seed):
        return eqx.nn.Linear(2, 3, key=jax.random.key(seed), dtype=jnp.float32)

    arguments = runs.QUICK | dict(decoder=module(0), progress=False)
    model = BAE(**arguments).fit(None, runs.Y, run_dir=tmp_path / "run")
    runs.assert_same_draws(BAE(**arguments).fit(None, runs.Y, run_dir=tmp_path / "run"), model)
    with pytest.raises(InputError, match="decoder of your own, whose code is not in the folder"):
        runfolder.reopen(tmp_path / "run")
    with pytest.raises(InputError, match="begun with decoder"):
        BAE(**arguments | dict(decoder=module(1))).fit(None, runs.Y, run_dir=tmp_path / "run")
    assert load(tmp_path / "run", decoder=module(0)).score(None, runs.Y) == model.score(None, runs.Y)


# Guards.


def test_what_is_not_finite_is_named():
    terms = {"latents": jnp.array([1.0, jnp.nan]), "likelihood": jnp.array([1.0, -jnp.inf])}
    report = Report(terms, None, *jnp.zeros((4, 2)))
    position = Position({"prior": {"kernel": jnp.ones((2, 1))}}, None, jnp.array([[0.0, 0.0], [jnp.nan, 0.0]]))
    keys = jax.random.split(jax.random.key(0), 2)
    chains = Chain(sghmc.init(position), None, None, Refresh({}, jnp.zeros(2), jnp.zeros(2)), None, keys, jnp.zeros(2))
    words = health.culprits_of(chains, report, np.array([False, True]))
    assert words == "the terms likelihood, latents and the variables latents"
    assert health.finite_chains(chains, report).tolist() == [True, False]
    left, sound = np.array([[[0.0], [np.inf]], [[0.0], [1.0]]]), jax.tree.map(jnp.zeros_like, (position, terms))
    chains, report = chains._replace(sampler=sghmc.init(sound[0])), report._replace(terms=sound[1])
    assert health.finite_chains(chains, report).all()  # of rows that come again, those of the last visit only
    assert health.finite_chains(chains, report, left).tolist() == [False, True]
    assert health.culprits_of(chains, report, np.array([True, False]), left) == "the variables latents"


def test_a_hopeless_step_size_names_what_broke():
    with pytest.raises(GpbaeError, match=r"not finite near the start are the terms .*likelihood.* and the variables"):
        runs.fit(NAME, step_size=1e30)


SEVERAL = "row minibatch, amortised, several chains"


@pytest.mark.parametrize("phase", ["warm-up", "sampling"])
def test_a_chain_that_dies_leaves_the_others_as_they_were(phase, tmp_path, monkeypatch):
    """It is stopped at its last good block, left out of every answer, and named; also after a resume."""
    seen, finite_chains = ["compiling"], run.finite_chains

    def one_is_not(*told):
        return finite_chains(*told) & ((np.arange(3) != 1) | (seen[-1] != phase))

    def listen(event):
        seen.append(event["phase"] if event["phase"] in ("warm-up", "sampling") else seen[-1])
        if event["phase"] == "sampling" and event["done"] == 3 and not stopped:
            stopped.append(True)
            raise runs.Stop

    stopped = []
    whole = runs.fit(SEVERAL)
    monkeypatch.setattr(run, "finite_chains", one_is_not)
    with pytest.raises(runs.Stop):
        runs.fit(SEVERAL, tmp_path / "run", listen)
    model = runs.fit(SEVERAL, tmp_path / "run", listen)
    assert model.dead_chains_.tolist() == [1] and model.num_chains_ == 2
    for attribute in ("draws_", "encoders_"):
        others = jax.tree.map(lambda a: np.asarray(a)[[0, 2]], getattr(whole, attribute))
        assert eqx.tree_equal(jax.tree.map(np.asarray, getattr(model, attribute)), others), attribute
    assert any(re.match(r"Chain 1 diverged .*not finite: ", w) for w in model.diagnostics().attrs["warnings"])
    assert np.isfinite(load(tmp_path / "run").predict(runs.X).mean).all()


def test_rows_on_disk_go_on_when_the_first_chain_has_died(monkeypatch):
    asked = []
    rows = types.SimpleNamespace(mask=np.ones((2, 3, 5)))
    feed = object.__new__(ondisk.Feed)
    feed.block = lambda sweep, num: asked.append((sweep, num)) or (None, [rows])
    monkeypatch.setattr(run.streamed, "run_block", lambda *_: (None, jnp.zeros(2)))
    sampler = types.SimpleNamespace(chains=types.SimpleNamespace(sweep=jnp.array([4, 9])),
                                    latents=keptlatents.Latents(), _given=lambda *_: ())  # fmt: skip
    run.Sampler._block_from_disk(sampler, feed, np.ones(3), False)
    assert asked == [(9, 3)]


def test_draws_are_kept_once_though_the_file_of_latents_fails():
    """The checkpoint that holds them is on the disk by then, and the next one must not hold them again."""

    def fails(arrays):
        raise GpbaeError("Could not write")

    chunk = {"draw.0": np.ones(1)}
    moment = types.SimpleNamespace(chunk=lambda: chunk, arrays=dict, counters={}, fresh=["a draw"], kept={})
    sampler = types.SimpleNamespace(last=moment, chunks=[], fresh=["a draw", "a later one"], keeper=checkpoint.Keeper(),
                                    latents=types.SimpleNamespace(flush=lambda: None, settle=fails))  # fmt: skip
    with pytest.raises(GpbaeError, match="Could not write"):
        run.Sampler._save(sampler)
    assert sampler.chunks == [chunk] and sampler.fresh == ["a later one"]


def test_a_stall_is_called_out_with_a_stack(monkeypatch, capfd):
    monkeypatch.setattr(watch, "PATIENCE", 0.2)
    with watch.Watch() as seen:
        seen.beat()
        seen.beat()
        time.sleep(2.5)
        assert seen.warned
        seen.beat()
        assert not seen.warned  # another stall, another word
    said = capfd.readouterr().err
    assert said.count("No sweep was finished for") == 1
    assert "in test_a_stall_is_called_out_with_a_stack" in said


@pytest.mark.slow
def test_a_stall_is_noticed_within_a_minute(capfd):
    with watch.Watch() as seen:
        seen.beat()
        seen.beat()
        time.sleep(60)
        said = capfd.readouterr().err
    assert "No sweep was finished for" in said and "in test_a_stall_is_noticed_within_a_minute" in said


BUSY = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from gpbae.processes import watch
watch.process_is_ours = True
with watch.Watch() as seen:
    for _ in range(int(sys.argv[2])):
        seen.beat()
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)  # Python's own handlers wait for the end of this
"""


@pytest.mark.parametrize(("beats", "words"), [(0, b"when the start is compiled"), (1, b"after the sweeps under way")])
def test_a_second_signal_leaves_at_once(beats, words):
    source = str(runfolder.Path(storage.__file__).parents[2])
    command = [sys.executable, "-c", BUSY, source, str(beats)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"busy\n"
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130 and words in said


def test_a_usual_block_is_no_stall(monkeypatch, capfd):
    monkeypatch.setattr(watch, "PATIENCE", 0.2)
    with watch.Watch() as seen:
        seen.beat()
        time.sleep(0.5)
        seen.beat()
        time.sleep(1.5)
    assert "No sweep" not in capfd.readouterr().err
