"""What a command compiled is there for the next one, is thrown away when damaged, and never fills the disk."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpbae import cli
from gpbae.processes import compiled

PROGRAM = """
import warnings
from gpbae.processes import compiled
compiled.remember()
import jax, jax.numpy as jnp
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as said:
    print(jax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.eye(3)).sum())
print(sum(compiled.stumbled(str(one.message)) for one in said))
"""


def run(home, **more):
    """Value, warnings about programs of ours and complaints of a process that compiles."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), compiled.SWITCH: "on", **more}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # set by JAX in this process
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    value, warned = done.stdout.split()
    return value, int(warned), done.stderr


def programs(home):
    return {path: path.stat().st_size for path in home.rglob("*-cache")}


pytestmark = pytest.mark.skipif(compiled._machine() is None, reason="nothing is kept where the processor is not told")


def test_a_second_process_compiles_nothing_and_a_damaged_program_is_no_matter(tmp_path):
    first = run(tmp_path)
    kept = programs(tmp_path)
    assert kept and first[1:] == (0, "")
    again = run(tmp_path)
    assert again == first and programs(tmp_path) == kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:40])
    value, warned, _ = run(tmp_path)
    assert value == first[0] and warned > 0 and not programs(tmp_path)
    assert run(tmp_path) == first and programs(tmp_path).keys() == kept.keys()


def test_it_can_be_switched_off_and_leaves_alone_what_a_user_set(tmp_path):
    run(tmp_path / "off", **{compiled.SWITCH: "off"})
    run(tmp_path / "own", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "elsewhere"))
    assert not (tmp_path / "off").exists() and not (tmp_path / "own").exists()


def test_a_home_that_cannot_be_written_or_found_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "home").write_text("a file")
    assert run(tmp_path / "home")[1:] == (0, "")
    monkeypatch.setattr(compiled, "_root", lambda: Path("~nobody-at-all").expanduser())
    monkeypatch.setattr(compiled, "sys", SimpleNamespace(modules={}))
    monkeypatch.setenv(compiled.SWITCH, "on")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    compiled.remember()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_programs_in_a_folder_of_the_users_own_are_left_to_jax(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    (tmp_path / "a-cache").write_bytes(b"")
    assert not compiled.stumbled(f"{compiled.COMPLAINTS[0]} entry for 'a'") and (tmp_path / "a-cache").exists()


def test_what_was_read_longest_ago_goes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "MOST_BYTES", 100)
    for age in range(12):
        path = tmp_path / f"{age}-cache"
        path.write_bytes(bytes(10))
        os.utime(path, (1000 - age, 1000 - age))
    compiled._make_room(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{age}-cache" for age in range(5)}
    compiled._make_room(tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def test_other_processors_have_other_folders(tmp_path, monkeypatch):
    names = set()
    for flags in ("flags : sse avx", "flags : sse", ""):
        (tmp_path / "cpuinfo").write_text(flags)
        monkeypatch.setattr(compiled, "CPUINFO", tmp_path / "cpuinfo")
        names.add(compiled._machine())
    assert len(names) == 3 and None in names


@pytest.mark.parametrize("more, asked", [((), 1), (("--distributed",), 0)])
def test_commands_remember_but_those_of_several_processes(more, asked, monkeypatch):
    told = []
    monkeypatch.setattr(compiled, "remember", lambda: told.append(1))
    with pytest.raises(SystemExit):
        cli.main(["fit", "--help", *more])
    assert len(told) == asked
