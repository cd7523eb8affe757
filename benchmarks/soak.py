"""A long run of a small model with checkpoints: does memory grow, does it slow down, do its files stay bounded?

    python benchmarks/soak.py [STEPS] [FOLDER]

Prints a line per twentieth of the run and a summary.  Memory is the resident set of the process; warm-up and the first
tenth of sampling are not counted.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

SAMPLER_STEPS, SWEEPS, SECONDS_BETWEEN_CHECKPOINTS = 20, 20, 2.0
PARTS = 20


def resident() -> float:
    """MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def size(folder: Path) -> float:
    """MB on disk."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 2**20


def main(num_steps: int, folder: Path) -> int:
    import jax
    import numpy as np

    from gpbae import SGPBAE
    from gpbae.saving import runfolder

    runfolder.SECONDS_BETWEEN_CHECKPOINTS = SECONDS_BETWEEN_CHECKPOINTS
    num_draws = num_steps // (SAMPLER_STEPS * SWEEPS)
    marks, every = [], max(1, num_draws // PARTS)

    def listen(event):
        if event["phase"] != "sampling" or event["done"] % every:
            return
        mark = {"steps": event["done"] * SAMPLER_STEPS * SWEEPS, "MB": resident(), "cpu": time.process_time(),
                "arrays": len(jax.live_arrays()), "disk": size(folder),
                "files": sum(p.is_file() for p in folder.rglob("*"))}  # fmt: skip
        marks.append(mark)
        print(json.dumps({k: round(v, 3) for k, v in mark.items()}), flush=True)

    x = np.linspace(0.0, 1.0, 12)[:, None]
    y = np.random.default_rng(0).standard_normal((12, 3))
    model = SGPBAE(latent_dim=2, num_inducing=3, decoder="linear", encoder="linear", num_warmup=40, thinning=SWEEPS,
                   num_samples=num_draws, sampler_steps=SAMPLER_STEPS, encoder_steps=1, num_chains=1,
                   progress=listen)  # fmt: skip
    model.fit(x, y, run_dir=folder)
    settled = marks[PARTS // 10 :]
    paces = np.diff([mark["cpu"] for mark in settled])
    half = len(paces) // 2
    growth = settled[-1]["MB"] / settled[0]["MB"] - 1
    slower = np.median(paces[half:]) / np.median(paces[:half]) - 1
    draws = num_draws * sum(a[0, 0].nbytes for a in jax.tree.leaves(model.draws_)) / 2**20
    print(f"{num_draws * SAMPLER_STEPS * SWEEPS} steps, {len(model.history_)} events: memory {settled[0]['MB']:.1f} to "
          f"{settled[-1]['MB']:.1f} MB ({growth:+.2%}), second half {slower:+.1%} slower, live arrays "
          f"{settled[0]['arrays']} to {settled[-1]['arrays']}, {settled[-1]['files']} files of {size(folder):.2f} MB, "
          f"of which draws {draws:.2f} MB")  # fmt: skip
    return 0 if growth < 0.02 else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        number = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
        sys.exit(main(number, Path(sys.argv[2] if len(sys.argv) > 2 else temporary) / "run"))
