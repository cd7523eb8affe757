"""How long it takes to begin: importing, asking for help, and the first sweep of a fit, in fresh processes.

The second fit of the same shape finds what the first one compiled, which the command line keeps.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gpbae.errors import GpbaeError
from gpbae.processes import compiled
from gpbae.speed.shapes import Row, as_row

COMMANDS = {
    "import gpbae": ("-c", "import gpbae"),
    "import gpbae, a model": ("-c", "from gpbae import SGPBAE"),
    "gpbae --help": ("-m", "gpbae", "--help"),
}
FIT = ("--inputs", "t", "--set", "num_chains=1", "--set", "num_warmup=10", "--set", "thinning=1", "--set",
       "num_samples=5", "--log-json", "-")  # fmt: skip
NUM_ROWS = 200


def run(repeats: int = 5, num_fits: int = 3) -> list[Row]:
    """The least of several starts; of fits, one that compiles and several that follow."""
    rows = [_command_row(name, words, repeats) for name, words in COMMANDS.items()]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        _write_table(here / "table.csv")
        return [*rows, _fit_row("gpbae fit, first", here, ["first"]),
                _fit_row("gpbae fit, second", here, [f"again-{n}" for n in range(num_fits)])]  # fmt: skip


def _command_row(name: str, words: Sequence[str], repeats: int) -> Row:
    started = time.perf_counter()
    times = [_clocked(words)[0] for _ in range(repeats + 1)][1:]  # the first one reads from a cold disk
    return as_row(name, _least(times), time.perf_counter() - started)


def _fit_row(name: str, folder: Path, outs: Sequence[str]) -> Row:
    started = time.perf_counter()
    remembered = {"XDG_CACHE_HOME": str(folder / "cache"), compiled.SWITCH: "on"}
    words = ("-m", "gpbae", "fit", str(folder / "table.csv"), *FIT)
    times = []
    for out in outs:
        whole, sweep = _clocked((*words, "--out", str(folder / out)), remembered, _first_sweep)
        times.append(whole | sweep)
    return as_row(name, _least(times), time.perf_counter() - started)


def _least(times: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: min(one[name] for one in times) for name in times[0]}


def _clocked(
    words: Sequence[str], more: dict[str, str] | None = None, read: Callable[[str], dict[str, float]] | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a command by the clock and of processors, and what is first read from its lines, with the time it was
    read."""
    found: dict[str, float] = {}
    with tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        given = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        process = subprocess.Popen([sys.executable, *words], env=given | (more or {}), text=True,
                                   stdout=subprocess.PIPE, stderr=said)  # fmt: skip
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if read is not None and not found and (found := read(line)):
                    found["first_sweep_seconds"] = time.perf_counter() - began
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if process.returncode:
            said.seek(0)
            last = said.read().strip().splitlines()[-1:]
            raise GpbaeError(f"A command that was to be timed failed: {' '.join(words)}: {' '.join(last)}")
    return {"start_seconds": seconds, "start_cpu_seconds": used.ru_utime + used.ru_stime}, found


def _first_sweep(line: str) -> dict[str, float]:
    """What the fit's own log says of its first sweep."""
    event = json.loads(line) if line.startswith("{") else {}
    if "sweep" not in event:
        return {}
    return {"sweep_since_fit_seconds": event["seconds"], "sweep_since_fit_cpu_seconds": event["processor_seconds"]}


def _write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 10, NUM_ROWS))
    cells = np.sin(t[:, None] + np.arange(3)) + 0.1 * rng.standard_normal((NUM_ROWS, 3))
    lines = [",".join(f"{value:.6g}" for value in row) for row in np.column_stack([t, cells])]
    path.write_text("\n".join(["t,a,b,c", *lines]) + "\n", encoding="utf-8")
