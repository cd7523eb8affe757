"""Chains over devices: the draws are the same on any number of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpbae.processes import devices

FIT = """
import hashlib, json, jax, numpy as np
from gpbae.processes import devices
devices.use_cores()
import runs
model = runs.fit({name!r}, num_chains={num_chains})
leaves = jax.tree.leaves((model.draws_, model.encoders_, model.kinetic_temperature_, model.step_size_))
digest = hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in leaves)).hexdigest()
print(json.dumps([jax.local_device_count(), digest]))
"""


def fitted(name, num_chains, **environment):
    """Devices and a digest of all that was drawn, from a process of its own: devices are counted when JAX starts."""
    here = Path(__file__).parents[1]
    paths = os.pathsep.join([str(here), str(here.parent / "src")])
    environment = os.environ | {"PYTHONPATH": paths} | environment
    code = FIT.format(name=name, num_chains=num_chains)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_same(name):
    count, digest = fitted(name, 4, XLA_FLAGS="--xla_force_host_platform_device_count=1")
    other_count, other = fitted(name, 4, XLA_FLAGS="", NPROC="2")
    assert (count, other_count) == (1, 2)
    assert digest == other


def test_draws_are_the_same_on_one_device_and_on_two():
    check_same("full batch")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["values integrated out", "row minibatch, persistent", "group minibatch, amortised"])
def test_draws_of_every_kind_are_the_same_on_two_devices(name):
    check_same(name)


def test_devices_share_the_chains_evenly():
    assert [devices.share(n, 4) for n in (1, 2, 3, 4, 6, 8, 5)] == [1, 2, 3, 4, 3, 4, 1]
