"""Several processes over loopback: the same draws, the same energy; a lost process is told of and the run goes on."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gpbae.processes import lookout
from gpbae.sampling.checkpoint import Snapshot
from gpbae.saving import following

HERE = Path(__file__).parents[1]
SECONDS = 240
START = """
import hashlib, json, os, sys, time
import jax, numpy as np
jax.config.update("jax_disable_most_optimizations", True)
from gpbae.processes import distributed
if "JAX_NUM_PROCESSES" in os.environ:
    distributed.initialise(row_shards={row_shards})
"""
FIT = """
import runs
def listener(event):
    print(event["phase"], event.get("done"), flush=True)
    if event["phase"] == "sampling":
        time.sleep({pause})
from gpbae.saving import runfolder
runfolder.SECONDS_BETWEEN_CHECKPOINTS = 0.0
model = runs.fit({name!r}, {folder!r}, listener, num_chains={num_chains})
leaves = jax.tree.leaves((model.draws_, model.encoders_, model.kinetic_temperature_, model.step_size_))
print("digest", hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in leaves)).hexdigest())
"""
ENERGY = """
import runs
from gpbae import SGPBAE
from gpbae.sampling import inference, refreshing
from gpbae.sampling.inference import over_chains
model = SGPBAE(**runs.QUICK | dict(num_inducing=3, num_chains=2))
model, plan, table, decoder_of, encoder_of, latents = model._prepare(runs.X, runs.Y, None)
chains, _ = SGPBAE(**runs.QUICK | dict(num_chains=2))._start(model, plan, table, decoder_of, encoder_of, latents)
def found(chains, table):
    one = lambda p: (model.gradient(p, refreshing.whole(table)), model.energy(p, refreshing.whole(table))[0])
    return over_chains(one)(chains.sampler.position)
alone = jax.tree.leaves(jax.jit(found)(chains, table))
split = distributed.together(jax.jit(lambda *a: found(*a)))  # JAX would remember how the same function was traced
shared = jax.tree.leaves(split(chains, table))
off = max(float(np.max(np.abs(a - b) / (1 + np.abs(b)))) for a, b in zip(shared, alone))
from gpbae.processes import devices
with devices.everyone(distributed._mesh):
    apart = f"('{devices.ROWS}'" in str(jax.make_jaxpr(lambda *a: found(*a))(chains, table))
print("off", off, len(alone), apart)
"""


def launch(code, num_processes, row_shards=1, **arguments):
    """The same script in so many processes; one of them alone needs no coordinator."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = START.format(row_shards=row_shards) + (code.format(**arguments) if arguments else code)
    paths = os.pathsep.join([str(HERE), str(HERE.parent / "src")])
    for number in range(num_processes):
        ours = {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", "XLA_FLAGS": "", "NPROC": "1"}
        if num_processes > 1:
            ours |= {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": str(num_processes),
                     "JAX_PROCESS_ID": str(number)}  # fmt: skip
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        yield subprocess.Popen([sys.executable, "-c", text], env=os.environ | ours, **pipes)


def ends(processes):
    """Exit code, what was printed and what was said, of each; none outlives its test."""
    try:
        said = [process.communicate(timeout=SECONDS) for process in processes]
        return [(p.returncode, *words) for p, words in zip(processes, said, strict=True)]
    finally:
        for process in processes:
            process.kill()


def digests(found):
    assert all(code == 0 for code, _, _ in found), found
    return {line.split()[1] for _, out, _ in found for line in out.splitlines() if line.startswith("digest")}


def run(name, num_processes, folder=None, num_chains=2, row_shards=1):
    arguments = dict(name=name, folder=folder, num_chains=num_chains, pause=0)
    return ends(list(launch(FIT, num_processes, row_shards, **arguments)))


def test_chains_of_two_processes_are_those_of_one_and_a_lost_process_costs_nothing(tmp_path):
    alone = digests(run("full batch", 1))
    folder = str(tmp_path / "run")
    first, second = launch(FIT, 2, name="full batch", folder=folder, num_chains=2, pause=3)
    with contextlib.suppress(StopIteration):
        next(line for line in iter(first.stdout.readline, "") if line.startswith("sampling 1"))
    second.send_signal(signal.SIGKILL)
    (code, _, said), _ = ends([first, second])
    assert code == 1 and "process 1 of 2 ended or fell silent" in said
    assert digests(run("full batch", 2, folder)) == alone


def test_energy_and_gradient_of_shared_rows_are_those_of_all_rows():
    found = ends(list(launch(ENERGY, 2, row_shards=2)))
    assert all(code == 0 for code, _, _ in found), found
    for _, out, _ in found:
        off, count, apart = next(line.split()[1:] for line in out.splitlines() if line.startswith("off"))
        assert float(off) < 5e-6 and int(count) > 8  # networks are float32, and sums are in another order
        assert apart == "True"  # else each process would have done all of it


@pytest.mark.slow
@pytest.mark.parametrize("name", ["values integrated out", "row minibatch, persistent", "group minibatch, amortised"])
def test_chains_of_four_processes_are_those_of_one(name):
    alone = digests(run(name, 1, num_chains=4))
    assert digests(run(name, 4, num_chains=4)) == alone


ON_DISK = """
from gpbae import SGPBAE
from gpbae.tabular.ondisk import OnDisk
x = np.linspace(0, 10, 300)[:, None]
y = np.concatenate([np.sin(x), np.cos(x)], axis=1) + 0.1 * np.random.default_rng(0).standard_normal((300, 2))
model = SGPBAE(latent_dim=2, num_inducing=4, decoder="linear", encoder="linear", num_chains=2, num_warmup=4,
               num_samples=3, thinning=1, sampler_steps=3, encoder_steps=2, num_map_steps=5, batch_size=32,
               latents="amortised", progress=False).fit(OnDisk(x), OnDisk(y))
leaves = jax.tree.leaves((model.draws_, model.encoders_, model.kinetic_temperature_, model.step_size_))
print("digest", hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in leaves)).hexdigest())
"""


@pytest.mark.slow
def test_chains_of_two_processes_are_those_of_one_for_a_table_on_disk():
    alone = digests(ends(list(launch(ON_DISK, 1))))
    assert len(alone) == 1 and digests(ends(list(launch(ON_DISK, 2)))) == alone


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 4), (2, 2)])
def test_processes_that_share_rows_agree_with_each_other(shape):
    chains, rows = shape
    assert len(digests(run("values integrated out", 4, num_chains=chains, row_shards=rows))) == 1


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_after_the_same_block(tmp_path):
    folder = str(tmp_path / "run")
    first, second = launch(FIT, 2, name="full batch", folder=folder, num_chains=2, pause=2)
    next(line for line in iter(first.stdout.readline, "") if line.startswith("sampling 1"))
    second.send_signal(signal.SIGTERM)
    for _code, _out, said in ends([first, second]):
        assert "Stopped by SIGTERM after sweep" in said
    assert digests(run("full batch", 2, folder)) == digests(run("full batch", 1))


# The lookout, without JAX.


@pytest.fixture
def fast(monkeypatch):
    for name, seconds in (("TICK", 0.02), ("PATIENCE", 0.3), ("GRACE", 0.05)):
        monkeypatch.setattr(lookout, name, seconds)


@contextlib.contextmanager
def watched(numbers=(1,)):
    """A lookout, the other ends of its connections, and the processes it found lost."""
    pairs = {n: socket.socketpair() for n in numbers}
    lost = []
    here = lookout.Lookout({n: a for n, (a, _) in pairs.items()}, lost.append)
    try:
        yield here, {n: b for n, (_, b) in pairs.items()}, lost
    finally:
        here.close()
        for connection in (c for pair in pairs.values() for c in pair):
            connection.close()


def speak(connection, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.send(b".")
        time.sleep(0.01)


def test_whoever_speaks_is_not_lost(fast):
    with watched() as (here, others, lost), here.needing():
        speak(others[1], 0.6)
        assert not lost


@pytest.mark.parametrize("way", ["ends", "falls silent"])
def test_a_process_that_is_needed_is_missed(fast, way):
    with watched((1, 2)) as (here, others, lost):
        speaking = threading.Thread(target=speak, args=(others[1], 0.8))
        speaking.start()
        with here.needing():
            if way == "ends":
                others[2].close()
            speaking.join()
        assert lost and set(lost) == {2}
        assert b"2;" in others[1].recv(4096)  # the others hear of it


def test_a_process_that_is_not_needed_may_leave(fast):
    with watched() as (_, others, lost):
        others[1].close()
        time.sleep(0.3)
        assert not lost


def test_strangers_are_not_let_in():
    listener = lookout.Listener("127.0.0.1")
    found = []
    accepting = threading.Thread(target=lambda: found.append(listener.accept(2, 10.0)))
    accepting.start()
    with socket.create_connection(("127.0.0.1", listener.port)) as stranger:
        stranger.sendall(b"x" * lookout.LONGEST_GREETING)
        friend = lookout.connect(["127.0.0.1"], listener.port, listener.secret, 1, 5.0)
        accepting.join()
    assert set(found[0]) == {1} and set(friend) == {0}
    for connection in (*found[0].values(), *friend.values()):
        connection.close()


def test_a_snapshot_survives_being_told():
    chunk = {"draw.0": np.arange(6.0).reshape(1, 2, 3), "clamped": np.zeros(2)}
    history = [
        {"phase": "sampling", "seconds": 1.5, "log_joint": np.array([1.0, 2.0])},
        {"phase": "map", "seconds": 0.0},
    ]
    saved = Snapshot({"chain.0": np.ones((2, 3), np.float32)}, {"block": 2, "dead": [False]}, [chunk, chunk], history)
    told = following.from_bytes(following.to_bytes(saved))
    np.testing.assert_equal(told._asdict(), saved._asdict())
    assert json.dumps(told.counters) == json.dumps(saved.counters)
