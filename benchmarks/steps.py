"""Time a sampler step on three shapes:  python benchmarks/steps.py [folder for results.json]"""

import sys
from pathlib import Path

from gpbae.speed import bench

if __name__ == "__main__":
    rows = bench.run(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    print(bench.markdown(rows))
