"""Ctrl-C is answered at once, whatever is computed."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gpbae

BUSY = """
import hashlib, sys, time
sys.path.insert(0, sys.argv[1])
from gpbae import cli
from gpbae.experiments import ball

def busy(*given, **more):
    print("busy", flush=True)
    {work}

ball.run = busy
cli.main(["demo", "--out", sys.argv[2]])
"""
COMPILED = 'hashlib.pbkdf2_hmac("sha256", b"a", b"b", {rounds})'  # Python's own handlers wait for the end of this
PROMISE = b"press Ctrl-C again to stop at once."


@pytest.fixture
def demo(tmp_path):
    """A demo that has nothing else to do than this, begun."""
    with contextlib.ExitStack() as stack:

        def begin(work):
            source = str(Path(gpbae.__file__).parents[1])
            command = [sys.executable, "-c", BUSY.format(work=work), source, str(tmp_path)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout.readline() == b"busy\n"
            time.sleep(0.5)  # into the compiled code
            return process

        yield begin


def test_a_second_ctrl_c_ends_what_is_compiled_at_once(demo):
    process = demo(COMPILED.format(rounds=5 * 10**7))
    process.send_signal(signal.SIGINT)
    assert PROMISE in process.stderr.readline()
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130 and process.stderr.read() == b""


def test_one_ctrl_c_waits_for_what_is_compiled_and_says_so(demo):
    process = demo(COMPILED.format(rounds=10**7))  # seconds
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1].splitlines()
    assert process.returncode == 130
    assert [PROMISE in said[0], said[1].startswith(b"Stopped."), len(said)] == [True, True, 2]


def test_where_python_stops_by_itself_nothing_is_promised(demo):
    process = demo("time.sleep(60)")
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130 and time.monotonic() - began < 30
    assert said.startswith(b"Stopped.") and PROMISE not in said
