"""The benchmark runs and says what it measured; how long it took is never asserted."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpbae import report
from gpbae.errors import GpbaeError
from gpbae.networks import MLP, Conv
from gpbae.processes import compiled
from gpbae.speed import apart, bench, disk, growth, pictures, questions, shapes, starts, steps, tables, targets

OPTIMISED = True

TINY = shapes.Case("tiny", 12, 3, (4,), 1, 2, 3, None, MLP(()), MLP((3,)), False, num_steps=2)
IMAGE = shapes.Case("image", 10, 1, (28, 28), 1, 16, 4, 5, Conv(channels=8), Conv(channels=8), False, num_steps=1)


def is_sound(rows):
    for row in rows:
        assert {"experiment", "model", "seed", "metrics", "seconds"} == set(row)
        assert all(isinstance(value, float) and value >= 0 for value in row["metrics"].values())
    json.dumps(rows, allow_nan=False)
    return True


def test_a_row_per_case_is_measured():
    rows = [*steps.run([TINY], 1), *steps.run_encoders([TINY], 1), *steps.run_chains(TINY, 1, num_chains=2)]
    assert is_sound(rows) and [row["experiment"] for row in rows] == ["tiny", "tiny, encoder", "tiny, chains"]
    assert "| tiny |" in tables.table("Steps", tables.STEPS, rows[:1]).markdown


def test_products_are_those_of_the_networks():
    assert TINY.layers() == [(12, 2, 4)]
    assert IMAGE.layers() == [(5, 16, 392), (245, 72, 32), (980, 72, 32), (3920, 8, 9)]
    encoders = {TINY: [(12, 12, 3), (12, 3, 2)], IMAGE: [(980, 27, 8), (245, 72, 8), (80, 72, 8), (5, 128, 16)]}
    for case, layers in encoders.items():
        rows, seed_size = case.batch_rows, 4
        made = case.encoder.encoder(jax.random.key(0), case.event_shape, case.latent_dim)
        sizes = [leaf.shape[::-1] for leaf in jax.tree.leaves(made) if getattr(leaf, "ndim", 0) == 2]
        assert case.encoder_layers(rows, seed_size) == layers and [layer[1:] for layer in layers] == sizes


def test_the_floor_goes_back_to_the_inputs_only_where_they_are_sampled():
    X, W = jnp.ones((3, 2)), jnp.ones((4, 2))
    for is_given in (False, True):
        moved = shapes._products(X, W, is_given)
        np.testing.assert_allclose(moved, W - 1e-9 * (6 + (0 if is_given else 8)), rtol=0, atol=1e-15)


def test_growth_has_a_point_for_every_size_and_slopes():
    small = {"N, rows on disk": (300, 600), "chains": (1, 2), "groups, ragged": (2, 40)}
    which = [axis._replace(values=small[axis.name]) for axis in growth.axes() if axis.name in small]
    said = []
    rows = growth.run(which, repeats=1, listener=said.append)
    assert [row["metrics"].get("n") for row in rows] == [300, 600, None, 1, 2, None, 2, 40, None]
    assert all(row["metrics"]["step_cpu_ms"] > 0 < row["metrics"]["megabytes"] for row in rows if "n" in row["metrics"])
    shown = [table.markdown for table in bench.SECTIONS["growth"].tables(rows)]
    assert len(said) == 3 and len(shown) == 4 and "600" in shown[0] and "| chains |" in shown[-1]
    assert pictures.growth(rows).axes


def test_how_far_points_are_from_their_middle():
    assert growth._around_middle(np.log([0.9, 1.0, 1.1])) == pytest.approx(0.1)


def test_sweeps_and_answers_are_measured_in_processes_of_their_own():
    rows = disk.run((300,), 2, repeats=1, listener=lambda words: None)
    rows += questions.run((50,), ("predict",), num_draws=2, listener=lambda words: None)
    assert is_sound(rows) and rows[0]["metrics"]["sweep_cpu_ms"] > 0 < rows[-1]["metrics"]["rows_per_cpu_second"]
    assert all(row["metrics"]["peak_megabytes"] > 50 for row in rows)
    assert apart.peak_megabytes() >= apart.held_megabytes() > 50


def test_commands_are_clocked_and_the_first_sweep_is_read_from_the_log(tmp_path):
    whole, found = starts._clocked(
        ("-c", 'print("{\\"phase\\": \\"map\\"}\\n{\\"sweep\\": 1, \\"seconds\\": 2.5, \\"processor_seconds\\": 2}")'),
        read=starts._first_sweep,
    )
    assert whole["start_seconds"] > 0 < whole["start_cpu_seconds"] and found.pop("first_sweep_seconds") > 0
    assert found == {"sweep_since_fit_seconds": 2.5, "sweep_since_fit_cpu_seconds": 2}
    with pytest.raises(GpbaeError, match="No such"):
        starts._clocked(("-c", "open('No such')"))
    starts._write_table(tmp_path / "t.csv")
    assert np.loadtxt(tmp_path / "t.csv", delimiter=",", skiprows=1).shape == (starts.NUM_ROWS, 4)


def made_up(name, **metrics):
    return shapes.as_row(name, metrics, 1.0)


STEP = {"step_ms": 2.0, "gradient_ms": 1.5, "products_ms": 1.0, "step_over_products": 2.0}
ROWS = {
    "steps": [made_up("ball", **STEP), made_up("mnist", **STEP), made_up("jura", **STEP)],
    "encoder": [made_up("ball, encoder", **STEP)],
    "chains": [made_up("jura, chains", over_one=2.25)],
    "start": [made_up("import gpbae", start_seconds=1.5), made_up("gpbae fit, second", first_sweep_seconds=1.9)],
    "growth": [made_up("growth in N, rows on disk", n=n, step_cpu_ms=1.0, megabytes=1.0) for n in (1, 10)]
    + [made_up("slopes in N, rows on disk", time_around_middle=0.05, memory_around_middle=0.2)],
}


def test_what_was_wanted_stands_beside_what_was_found():
    verdicts = {row["experiment"]: targets.met(row) for rows in ROWS.values() for row in rows if targets.of(row)}
    assert verdicts == {
        "ball": "no", "mnist": "yes", "jura": "no", "ball, encoder": "no", "jura, chains": "no", "import gpbae": "yes",
        "gpbae fit, second": "yes", "slopes in N, rows on disk": "yes, no",
    }  # fmt: skip
    shown = tables.table("Steps", tables.STEPS, ROWS["steps"])
    assert shown.header[-2:] == ("target", "met") and shown.rows[0][-2:] == ("≤ 1.3 × products", "no")
    assert ("jura, chains", "2.25 ×", "≤ 2.2 × one chain", "no") in tables.summary(ROWS["chains"]).rows


def test_a_quick_look_judges_nothing():
    whole, quick = (bench.shown_of("steps", ROWS["steps"], is_quick)[0] for is_quick in (False, True))
    assert [row[:-1] for row in quick.rows] == [row[:-1] for row in whole.rows]
    assert {row[-1] for row in quick.rows} == {"quick"} and {row[-1] for row in whole.rows} == {"yes", "no"}
    assert {row[-1] for row in tables.summary(ROWS["chains"], quick=True).rows} == {"quick"}
    other = tables.table("Sweeps from disk", tables.DISK, [made_up("latents born", rows=3)])
    assert tables.unjudged(other) is other


def test_what_is_measured_apart_compiles_whatever_the_command_line_keeps(monkeypatch):
    for name in compiled.SETTINGS:
        monkeypatch.setenv(name, "/nowhere")
    assert apart.called(os.getenv, compiled.SETTINGS[0]) is None and apart.called(os.getenv, "PATH")
    assert [os.environ[name] for name in compiled.SETTINGS] == ["/nowhere"] * 3


def test_every_target_is_of_something_that_is_measured():
    cases = [f"{case.name}{kind}" for case in shapes.CASES for kind in ("", ", encoder", ", chains")]
    fits = ["gpbae fit, second"]
    known = {*cases, *starts.COMMANDS, *fits, *(f"slopes in {axis.name}" for axis in growth.axes())}
    assert {target.experiment for target in targets.TARGETS} <= known


def test_all_is_written_to_the_folder(tmp_path, monkeypatch):
    for name, section in bench.SECTIONS.items():
        made = ROWS.get(name, [])
        monkeypatch.setitem(
            bench.SECTIONS, name, bench.dataclasses.replace(section, measure=lambda quick, say, made=made: made)
        )
    shown = []
    bench.run(ROWS, True, tmp_path, lambda words: None, shown.append)
    assert json.loads((tmp_path / "results.json").read_text()) == [row for rows in ROWS.values() for row in rows]
    for name in ("steps.png", "growth.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64") == 2 and "http" not in page.replace("http-equiv", "")
    for words in ("≤ 1.3 × products", "jaxlib", "--quick", *(table.caption for table in shown)):
        assert words in page
    assert "| jura, chains |" in (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert isinstance(shown[0], report.Table)
