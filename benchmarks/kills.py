"""kill -9 at random moments, resume, and compare with a run that was left alone: draws and predictions, bit for bit.

    python benchmarks/kills.py [NUMBER] [FOLDER]

Each run is killed five times, every life after the first being a resume; then it is left to finish.  A third of the
kills come from inside, before a random call to the disk (half of a write done), the others from outside after a random
time.  Prints a line per run and a summary.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

NUM_SAMPLES, LIVES = 150, 5
CALLS = ("open", "write", "fsync", "replace", "truncate", "unlink")


def build(name):
    """Model, x, y and groups of a configuration."""
    import numpy as np

    from gpbae import BAE, GPBAE, SGPBAE
    from gpbae.kernels import RBF

    quick = dict(latent_dim=2, decoder="linear", encoder="linear", num_warmup=20, num_samples=NUM_SAMPLES, thinning=1,
                 sampler_steps=3, encoder_steps=2, num_map_steps=5, num_chains=1)  # fmt: skip
    x = np.linspace(0.0, 1.0, 24)[:, None]
    y = np.random.default_rng(0).standard_normal((24, 3))
    y[2, 1] = y[5] = np.nan
    groups = np.repeat(list("abcd"), 6)
    configurations = {
        "full batch, one chain": (BAE, {}, None),
        "row minibatch, amortised, three chains": (BAE, dict(batch_size=7, latents="amortised", num_chains=3), None),
        "sparse GP, row minibatch, persistent": (SGPBAE, dict(num_inducing=4, batch_size=7, num_chains=2), None),
        "exact GP, group minibatch": (GPBAE, dict(kernel=RBF(lengthscale=0.3), batch_size=12), groups),
    }
    cls, arguments, groups = configurations[name]
    return cls(**quick | arguments), x, y, groups


NAMES = ("full batch, one chain", "row minibatch, amortised, three chains", "sparse GP, row minibatch, persistent",
         "exact GP, group minibatch")  # fmt: skip


class Fatal:
    """`os` with a last call: the process dies before it, or in the middle of a write."""

    def __init__(self, last):
        self.last, self.count = last, 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*arguments, **options):
            self.count += 1
            if self.count == self.last:
                if name == "write":
                    os.write(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call


def live(name, folder, last):
    """One life of a run; the answer of one that reaches its end is a digest."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    from gpbae import load
    from gpbae.saving import runfolder, storage

    runfolder.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    model, x, y, groups = build(name)
    model.progress = lambda event: print(event["phase"], flush=True)
    if last:
        storage.os = runfolder.os = Fatal(last)
    model.fit(x, y, groups, run_dir=folder)
    found = hashlib.sha256((Path(folder) / "model" / "draws.safetensors").read_bytes())
    found.update(load(folder).predict(x, groups).samples.tobytes())
    print("digest", found.hexdigest(), flush=True)


def launch(name, folder, last=0):
    command = [sys.executable, __file__, "live", name, str(folder), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(name, folder):
    """The digest of a run that is left alone from here, and how many seconds it took."""
    started = time.monotonic()
    out, err = launch(name, folder).communicate()
    words = [line.split()[1] for line in out.splitlines() if line.startswith("digest")]
    return (words[0] if words else err.strip().splitlines()[-1]), time.monotonic() - started


def kill(name, folder, rng):
    """Where it died: in which phase, from outside or at a call to the disk."""
    if rng.random() < 1 / 3:
        process = launch(name, folder, rng.randrange(1, 1500))
        out, _ = process.communicate()
        how = "at a call to the disk"
    else:
        process = launch(name, folder)
        first = process.stdout.readline()
        time.sleep(rng.uniform(0.0, 4.0))
        process.kill()
        out, how = first + process.communicate()[0], "from outside"
    phases = [line for line in out.splitlines() if not line.startswith("digest")]
    survived = process.returncode == 0
    return None if survived else (how, phases[-1] if phases else "before the first event")


def main(number, folder):
    rng, kills, good, bad, began = random.Random(5), Counter(), 0, [], time.monotonic()
    twins, index = {}, 0
    while sum(kills.values()) < number:
        name = NAMES[index % len(NAMES)]
        if name not in twins:
            twins[name], _ = finish(name, folder / f"twin{index}")
        run = folder / f"run{index}"
        deaths = [death for _ in range(LIVES) if (death := kill(name, run, rng))]
        kills.update(deaths)
        digest, seconds = finish(name, run)
        good, bad = good + (digest == twins[name]), bad + ([] if digest == twins[name] else [(name, digest)])
        litter = [p.name for p in run.rglob("*") if p.name.endswith(".tmp") or "next" in p.name]
        print(f"{name}: {len(deaths)} kills, {'same' if digest == twins[name] else digest}, litter {litter}, "
              f"last life {seconds:.1f} s", flush=True)  # fmt: skip
        index += 1
    print(f"{sum(kills.values())} kills in {index} runs, {good} of {index} identical, {time.monotonic() - began:.0f} s")
    for (how, phase), count in sorted(kills.items()):
        print(f"  {count:3d} {how}, {phase}")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["live"]:
        live(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        import tempfile

        number = int(sys.argv[1]) if len(sys.argv) > 1 else 60
        with tempfile.TemporaryDirectory() as temporary:
            sys.exit(main(number, Path(sys.argv[2] if len(sys.argv) > 2 else temporary)))
