"""Time a sampler step and an encoder step on three shapes, as `gpbae bench --only steps,encoder,chains` does.

python benchmarks/steps.py [folder for results.json, pictures and page]
"""

import sys
from pathlib import Path

from gpbae.speed import bench

if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    bench.run(("steps", "encoder", "chains"), out=out, show=lambda table: print(table.markdown, end="\n\n"))
