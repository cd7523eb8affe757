"""The page: whole in one file, safe with any text, and saying what was found."""

import json
import re

import numpy as np
import pytest

import runs
from gpbae import report
from gpbae.experiments import ball


@pytest.fixture(scope="module")
def outcome():
    """What a run of the demo could have found, without running it."""
    rng = np.random.default_rng(0)
    settings = ball.Settings(num_videos=4, num_test_videos=5, num_frames=12)
    truth = ball.moving_ball(5, 12, seed=3).paths.reshape(5, 12, 2)
    return ball.Outcome(
        settings, 0, truth, (_answer("SGP-BAE", truth, 0.1, rng), _answer("BAE", truth, 0.6, rng)), 12.0
    )


def _answer(name, truth, sd, rng):
    lengthscale = rng.normal(2, 0.1, (2, 20)) if name == "SGP-BAE" else None
    metrics = {"rmse": sd, "rmse_frame": sd * 2**0.5, "lengthscale": 2.0, "lengthscale_lower": 1.8,
               "lengthscale_upper": 2.2}  # fmt: skip
    log_joint = rng.standard_normal((30, 2)).cumsum(axis=0) * 100 - 5e5
    paths = truth + sd * rng.standard_normal((40, *truth.shape))
    temperatures = {"decoder": (1.01, 0.01), "latents": (0.99, 0.02)}
    return ball.Answer(name, metrics, 5.0, paths, temperatures, log_joint, lengthscale, ("Something <b>odd</b>.",))


@pytest.fixture(scope="module")
def written(outcome, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    ball.write(outcome, folder)
    return folder


def test_results_are_rows_by_model(written):
    rows = json.loads((written / "results.json").read_text())
    assert [row["model"] for row in rows] == ["SGP-BAE", "BAE"]
    assert all(set(row) == {"experiment", "model", "seed", "metrics", "seconds"} for row in rows)
    assert rows[0]["metrics"]["rmse"] == 0.1


def test_page_asks_nothing_of_the_network(written):
    text = (written / "index.html").read_text()
    addresses = set(re.findall(r"https?://[^\"'`\s<>\\)]+", text))
    assert all("www.w3.org" in address for address in addresses)  # names of XML dialects
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"<link|<iframe|<script|src=\"(?!data:)", outside)


def test_page_holds_pictures_charts_and_findings(written):
    text = (written / "index.html").read_text()
    assert text.count("data:image/png;base64,") == 2
    assert text.count('class="chart"') == 4
    assert "error of 0.10 per coordinate, BAE of 0.60" in text
    assert 'name="viewport"' in text


def test_text_is_escaped(written):
    text = (written / "index.html").read_text()
    assert "Something &lt;b&gt;odd&lt;/b&gt;." in text


def test_specs_cannot_close_their_script():
    import altair as alt

    chart = alt.Chart(alt.Data(values=[{"a": "</script><b>"}])).mark_point().encode(x="a:N")
    text = report.page("t", "l", [report.Section("s", charts=[report.Chart("c", chart, "words")])])
    assert text.count("</script>") == 2


def test_page_without_charts_carries_no_script():
    text = report.page("Title & co", "lead", [report.Section("s", ["words"], [report.Table(("a",), [("1 < 2",)])])])
    assert "<script" not in text and "Title &amp; co" in text and "1 &lt; 2" in text


def test_align_recovers_an_affine_map():
    rng = np.random.default_rng(1)
    z = rng.standard_normal((50, 2))
    truth = z @ np.array([[1.0, 2.0], [-0.5, 1.0]]) + np.array([3.0, -1.0])
    np.testing.assert_allclose(ball.align(z, truth, z[None])[0], truth, atol=1e-10)


@pytest.fixture(scope="module")
def model():
    return runs.fit("values integrated out")


def test_recalled_rows_are_imputed_rows(model):
    cells, latents = model.recall([3, 0, 7])
    np.testing.assert_array_equal(cells.mean, model.impute(runs.X, runs.Y).mean[[3, 0, 7]])
    np.testing.assert_array_equal(latents.mean, model.encode(runs.X, runs.Y).mean[[3, 0, 7]])
