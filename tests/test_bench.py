"""The benchmark runs and says what it measured; how long it took is never asserted."""

import json

from gpbae import bench
from gpbae.networks import MLP, Conv

OPTIMISED = True

TINY = bench.Case("tiny", 12, 3, (4,), 1, 2, 3, None, MLP(()), False, num_steps=2)


def test_a_row_per_case_is_measured_and_written(tmp_path):
    rows = bench.run(tmp_path, cases=(TINY,), repeats=1, num_chains=2)
    assert json.loads((tmp_path / "results.json").read_text()) == rows
    for row in rows:
        assert {"experiment", "model", "seed", "metrics", "seconds"} == set(row)
        assert all(value >= 0 for value in row["metrics"].values())
    assert [row["experiment"] for row in rows] == ["tiny", "tiny, chains"]
    assert "| tiny |" in bench.markdown(rows) and "2 chains on 1 devices" in bench.markdown(rows)


def test_products_are_those_of_the_decoder():
    assert TINY.layers() == [(12, 2, 4)]
    conv = bench.Case("image", 10, 1, (28, 28), 1, 16, 4, 5, Conv(channels=8), False)
    assert conv.layers() == [(5, 16, 392), (245, 72, 32), (980, 72, 32), (3920, 8, 9)]
