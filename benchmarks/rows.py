"""Rows per second and peak memory of predict, impute and encode, for tables of growing length.

    python benchmarks/rows.py [--rows 10000 100000 1000000] [--questions predict impute encode] [--out DIR]

`gpbae bench --only rows` measures the same with the lengths above; here others can be asked for.
"""

import argparse
import json
from pathlib import Path

from gpbae.speed import questions, tables


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=questions.LENGTHS)
    parser.add_argument("--questions", nargs="+", default=questions.QUESTIONS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = questions.run(given.rows, given.questions)
    print(tables.table("Answers to many rows", tables.QUESTIONS, rows).markdown)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
