"""The benchmark runs and says what it measured; how long it took is never asserted."""

import json

from gpbae.networks import MLP, Conv
from gpbae.speed import bench, growth

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


def test_growth_has_a_point_for_every_size_and_slopes(tmp_path):
    small = {"N, rows on disk": (300, 600), "chains": (1, 2), "groups, ragged": (2, 40)}
    which = [axis._replace(values=small[axis.name]) for axis in growth.axes() if axis.name in small]
    said = []
    rows = growth.run(which, repeats=1, listener=said.append)
    assert [row["metrics"].get("n") for row in rows] == [300, 600, None, 1, 2, None, 2, 40, None]
    assert all(row["metrics"]["step_cpu_ms"] > 0 < row["metrics"]["megabytes"] for row in rows if "n" in row["metrics"])
    assert len(said) == 3 and "| 600 |" in growth.markdown(rows) and "chains: time ∝" in growth.markdown(rows)
    growth.figure(rows).savefig(tmp_path / "growth.png")
