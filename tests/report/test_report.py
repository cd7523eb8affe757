"""Pages: whole in one file, safe with any text, saying what was found; and so they look in a browser."""

import base64
import dataclasses
import hashlib
import html
import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest

import runs
from browser import Browser
from gpbae import SGPBAE, overview, plots, report
from gpbae.answering import diagnostics
from gpbae.cli import dates, roles
from gpbae.errors import GpbaeError
from gpbae.experiments import ball
from gpbae.networks import Private
from gpbae.report import belief, charts, circumstances, page, subject, trust
from gpbae.scoring import glossary, scoreboard


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


def asks_the_network(text):
    """Addresses a page might open: all but the names of XML dialects, and anything that is not inside the file."""
    addresses = {a for a in re.findall(r"https?://[^\"'`\s<>\\)]+", text) if "www.w3.org" not in a}
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    return addresses | set(re.findall(r"<link|<iframe|<script|src=\"(?!data:)", outside))


def test_page_asks_nothing_of_the_network(written):
    assert not asks_the_network((written / "index.html").read_text())


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
    text = page.html("t", "l", [page.Section("s", charts=[page.Chart("c", chart, "words")])])
    assert text.count("</script>") == 3  # the chart's numbers, the library, the loader
    assert '<script type="application/json" id="spec-c">' in text


def test_page_without_charts_carries_no_script():
    text = page.html("Title & co", "lead", [page.Section("s", ["words"], [page.Table(("a",), [("1 < 2",)])])])
    assert "<script" not in text and "Title &amp; co" in text and "1 &lt; 2" in text


def test_align_recovers_an_affine_map():
    rng = np.random.default_rng(1)
    z = rng.standard_normal((50, 2))
    truth = z @ np.array([[1.0, 2.0], [-0.5, 1.0]]) + np.array([3.0, -1.0])
    np.testing.assert_allclose(ball.align(z, truth, z[None])[0], truth, atol=1e-10)


HOSTILE = ('<img src=x onerror="window.hacked=1">', "</script><script>window.hacked=2</script>", "cost in $ and $")
SECTIONS = ["Is it to be trusted?", "What was fitted", "Data and gaps", "Gaps filled", "Latent functions",
            "Lengthscales and inducing inputs", "Calibration", "Scores on hidden cells", "Traces and diagnostics",
            "Configuration and versions"]  # fmt: skip
EVALUATION = [
    {"experiment": "blocks", "model": model, "column": "all", "seconds": 1.0, "pit": [1] * 10,
     "metrics": {"mae": 0.5, "coverage50": 0.5, "coverage90": 0.875, "cells": 10}} for model in ("SGPBAE", "mean")
]  # fmt: skip


X = pd.DataFrame(runs.X, columns=["time <i>"])
Y = pd.DataFrame(runs.Y, columns=HOSTILE)
GROUPS = [f"<b>{name}</b>" for name in runs.GROUPS]


@pytest.fixture(scope="module")
def model():
    """Two chains over four short series, with names that would like to be code."""
    return SGPBAE(**runs.QUICK | dict(num_inducing=3, num_chains=2, progress=False)).fit(X, Y, GROUPS)


@pytest.fixture(scope="module")
def images():
    """Images over two inputs: pictures and maps."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(10, 2)), rng.standard_normal((10, 8, 8))
    y[2], y[5, :3] = np.nan, np.nan
    return SGPBAE(**runs.QUICK | dict(num_inducing=3, progress=False)).fit(x, y)


@pytest.fixture(scope="module")
def pages(model, images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "table.html").write_text(report.model_page(model, evaluation=EVALUATION), encoding="utf-8")
    images.report(folder / "images.html")
    (folder / "dates.html").write_text(report.model_page(model, READ, run="'a run'"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Numbers, their logarithm modelled, yes and no, two columns of labels of which one has many; and its page."""
    rng, number = np.random.default_rng(0), np.arange(12)
    y = pd.DataFrame({"level [m]": runs.Y[:, 0], "rain": np.exp(rng.standard_normal(12)), "open": number % 3 == 0})
    y = y.assign(**{HOSTILE[0]: np.array(["calm", "<b>wild</b>"])[number % 2], "site": [f"s{i}" for i in number]})
    y.loc[4, HOSTILE[0]] = None
    arguments = runs.QUICK | dict(num_inducing=3, progress=False, transform={"rain": "log"})
    model = SGPBAE(**arguments).fit(X, y, np.repeat(["u", "v"], 6))
    file = tmp_path_factory.mktemp("labels") / "page.html"
    file.write_text(report.model_page(model, unfinished="Begun, not finished: gpbae resume run"), encoding="utf-8")
    return model, file


def test_probabilities_of_labels_add_up_and_rare_labels_are_taken_together(labelled):
    view = overview.Overview(labelled[0])
    assert [view.cell_names[c] for c in view.labelled] == [HOSTILE[0], "site"]
    names, chances, seen = view.label_chances(3)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert [names[i] if i >= 0 else None for i in seen] == ["calm", "<b>wild</b>"] * 2 + [None] + (
        ["<b>wild</b>", "calm"] * 4)[:7]  # fmt: skip
    names, chances, seen = view.label_chances(4)
    assert names[-1] == "all others" and len(names) == chances.shape[1] == overview.MOST_LABELS
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert all(names[seen[i]] in (f"s{i}", "all others") for i in range(12)) and (seen == len(names) - 1).sum() == 5
    assert len(view.pit) == 12 * 3 - (~view.mask[:, :3]).sum()  # labels have no order


def test_an_evaluation_that_was_not_finished_is_mentioned(labelled):
    text = labelled[1].read_text()
    assert "Scores on hidden cells" in titles(text) and "Begun, not finished: gpbae resume run" in text


NOON = dates.Dates("2004-03-28T00:30:00+00:00", "h", aware=True)
READ = roles.Columns(("time <i>",), HOSTILE, "g", {"time <i>": NOON})


def test_inputs_that_were_dates_are_shown_as_dates(model):
    text = report.model_page(model, READ)
    body = html.unescape(re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    assert "time <i> (hours since 2004-03-28 00:30 UTC)" in body and "RBF lengthscale (hours)" in body
    assert "row 0, group <b>a</b>, time <i>=2004-03-28 00:30 UTC" in body
    specs = dict(re.findall(r'id="spec-(.*?)">(.*?)</script>', text, flags=re.DOTALL))
    for name in ("fans", "latents", "inducing"):
        assert '"2004-03-28T0' in specs[name] and '"type": "utc"' in specs[name], name
        assert '"format": "%d %b %H:%M"' in specs[name], name


def test_the_page_of_a_run_names_its_folder_in_what_is_to_be_done(pages):
    assert "or gpbae evaluate 'a run'." in html.unescape((pages / "dates.html").read_text())


def test_the_page_of_a_model_fitted_in_python_advises_calls(pages):
    text = html.unescape((pages / "images.html").read_text())
    assert "<code>model.set_params(" in text and "gpbae fit" not in text and "gpbae evaluate" not in text


def test_words_of_the_page_are_explained(pages):
    text = (pages / "table.html").read_text()
    assert '<abbr title="mean absolute error; 0 is perfect">MAE</abbr>' in text
    for word in ("R-hat", "kinetic temperature", "ESS", "PIT"):
        assert f"<dt>{word}</dt>" in text


def titles(text):
    body = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    return [html.unescape(title) for title in re.findall(r"<h2>(.*?)</h2>", body)]


def test_what_was_fitted_names_the_logarithms_and_counts_the_inducing_inputs():
    model = SGPBAE(**runs.QUICK | dict(num_inducing=3, progress=False, transform={"b": "log"}))
    model.fit(X, pd.DataFrame(np.exp(runs.Y[:, :2]), columns=["a", "b"]), GROUPS)
    words = " ".join(re.sub("<[^>]+>", " ", report.model_page(model)).split())
    assert "inducing inputs 3 " in words and "logarithms of b " in words


def test_recalled_rows_are_imputed_rows(model):
    cells, latents = model.recall([3, 0, 7])
    np.testing.assert_array_equal(cells.mean, model.impute(X, Y, GROUPS).mean.iloc[[3, 0, 7]])
    np.testing.assert_array_equal(latents.mean, model.encode(X, Y, GROUPS).mean.iloc[[3, 0, 7]])


def test_every_section_is_there(pages):
    assert titles((pages / "table.html").read_text()) == SECTIONS
    found = titles((pages / "images.html").read_text())
    assert {"Images, filled and generated", "Maps"} <= set(found) and "Scores on hidden cells" not in found


@pytest.mark.parametrize("name", ["table", "images"])
def test_model_page_is_whole_and_small(pages, name):
    text = (pages / f"{name}.html").read_text()
    assert not asks_the_network(text)
    assert len(text.encode()) < 5_000_000
    for script in re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert digest in html.unescape(text[: text.index("<title>")])


def test_images_and_maps_are_drawn(images, tmp_path):
    for name, draw in (
        ("images", plots.images),
        ("generated", plots.generated),
        ("maps", plots.maps),
        ("places", plots.hyperparameters),
    ):
        draw(images).savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5000


def test_generated_images_lie_between_the_rows_of_one_series(model):
    """Halfway between neighbours, each with the group of both; answers are those of predict."""
    view = overview.Overview(model)
    x, group = view.between
    neighbours = [(view.x[a], view.x[b], np.asarray(model.table_.group)[a]) for series in view.series
                  for a, b in zip(series.rows[:-1], series.rows[1:], strict=True)]  # fmt: skip
    for place, label in zip(x, group, strict=True):
        assert any(label == g and np.allclose(place, (a + b) / 2) for a, b, g in neighbours)
    frame = pd.DataFrame(x, columns=X.columns)
    np.testing.assert_array_equal(view.generated["mean"], model.predict(frame, model.groups_[group]).mean)


def test_generated_images_of_a_map_lie_between_places_that_are_nearest(images):
    view = overview.Overview(images)
    x, _ = view.between
    assert view.is_map and len(x)
    apart = np.linalg.norm((view.x[:, None] - view.x) / view.x.std(axis=0), axis=2) + np.diag(
        np.full(len(view.x), np.inf)
    )
    halfway = (view.x + view.x[apart.argmin(axis=1)]) / 2
    assert all(np.isclose(place, halfway).all(axis=1).any() for place in x)


def test_nothing_is_generated_at_places_that_were_seen():
    model = SGPBAE(**runs.QUICK | dict(num_inducing=3, progress=False)).fit(
        np.repeat([[0.0], [1.0]], 5, axis=0), np.random.default_rng(0).standard_normal((10, 8, 8))
    )
    np.testing.assert_array_equal(overview.Overview(model).between[0], [[0.5]])


def test_calibration_says_whether_cells_were_hidden(model, pages):
    assert "Cells hidden from the fit" in (pages / "table.html").read_text()
    assert "PIT of hidden blocks: flat" in (pages / "table.html").read_text()
    both = [row | {"experiment": how} for row in EVALUATION for how in ("cells", "blocks")]
    charts_of_both = belief.calibration(subject.Subject(overview.Overview(model), evaluation=both)).charts
    assert "PIT of hidden cells and blocks together: flat" in charts_of_both[1].caption
    assert "In-sample" in (pages / "images.html").read_text()


def test_coverage_of_uniform_pit_is_its_level():
    levels = np.linspace(0, 1, 11)
    pit = (np.arange(1000) + 0.5) / 1000
    np.testing.assert_allclose(overview.coverages(pit, levels), levels, atol=1e-3)
    np.testing.assert_allclose(overview.coverages(np.full(5, 0.5), levels), 1.0)


@pytest.mark.parametrize(
    ("kinetic", "r_hat", "ess", "light"),
    [(1.0, 1.0, 100, "green"), (1.0, 1.2, 100, "amber"), (1.5, 1.0, 100, "red"), (0.5, 1.0, 100, "red"),
     (1.0, 2.0, 100, "red"), (1.0, 1.0, 5, "red"), (1.1, 1.0, 100, "amber")],
)  # fmt: skip
def test_lights_follow_the_numbers(model, kinetic, r_hat, ess, light):
    nan = float("nan")
    rows = {"lengthscale": [1.0, 0.1, r_hat, ess, nan, nan], "block: latents": [nan, nan, nan, nan, kinetic, 0.001]}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=list(diagnostics.COLUMNS))
    found = [check for check in trust.checks(model, frame) if "moves" not in check.name]
    assert trust.worst(found) == light
    assert all(bool(check.advice) == (check.light != "green") for check in found)


@pytest.mark.parametrize(("kinetic", "error"), [(1.146, 0.070), (1.146, 0.020), (0.9, 0.01), (1.04, 0.001)])
def test_the_picture_of_temperatures_judges_as_the_light_does(model, kinetic, error):
    """Green where the line of a block reaches the shade."""
    columns = {"kinetic_temperature": [kinetic], "temperature_error": [error]}
    (check,) = trust._temperatures(model, pd.DataFrame(columns, index=["block: latents"]))
    band, _, line, _ = charts.temperatures({"SGPBAE": {"latents": (kinetic, error)}}).to_dict()["layer"]
    (shade,), (row,) = band["data"]["values"], line["data"]["values"]
    assert (row["from"] <= shade["high"] and row["to"] >= shade["low"]) == (check.light == "green")


def test_a_few_quantities_that_disagree_are_seen_among_many_that_agree(model):
    """The light does not say green where the diagnostics warn, and names the worst."""
    frame = pd.DataFrame(np.nan, [f"output {i}" for i in range(13)], list(diagnostics.COLUMNS))
    frame["r_hat"], frame["ess"] = [1.01] * 9 + [2.0, 2.87, 2.1, 2.2], [100] * 9 + [9, 5, 8, 7]
    said = " ".join(remedy.words for _, remedy in diagnostics._mixing_words(frame, 4, model._now()))
    first, second = trust._mixing(model, frame)
    assert first.remedy.words in said and "num_warmup=8" in said  # one advice for both
    command = trust.command([first, second])
    assert command.startswith("gpbae fit … --set num_warmup=8 ") and command.endswith(" --out NEW")
    assert first.light == "amber" and first.advice and first.found.endswith("largest 2.87 (output 10)")
    assert second.found.endswith("smallest 5 (output 10)")


def test_gaps_end_halfway_to_the_rows_that_have_the_cell():
    missing = np.array([[0, 0], [1, 0], [0, 1], [0, 1], [0, 0], [0, 1]], bool)
    found = overview._stretches(np.array([0.0, 1, 2, 3, 5, 6]), missing)
    assert list(found) == [(0, 0.5, 1.5), (1, 1.5, 4.0), (1, 5.5, 6.0)]


def test_the_column_with_the_widest_gap_is_shown_first_and_its_gaps_are_shaded(model):
    view = overview.Overview(model)
    widths = {gap.cell: gap.high - gap.low for gap in sorted(view.gaps, key=lambda g: g.high - g.low) if not gap.series}
    assert widths[view.widest] == max(widths.values()) > 0
    at_first = {param["name"]: param.get("value") for param in charts.fans(view).to_dict()["params"]}
    assert at_first["thing"] == view.widest and at_first["missing"] is True


def test_long_tables_show_the_stretch_with_most_gaps():
    mask = np.ones((100, 2), bool)
    mask[60:70] = False
    rows = overview._with_most_gaps(np.arange(100), mask, 20)
    assert len(rows) == 20 and {*range(60, 70)} <= {*rows}


# In a browser.


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = Browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.close()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["table", "images"])
def test_page_opens_without_complaint_and_fits(browser, pages, name, width):
    browser.open(pages / f"{name}.html", width)
    assert browser.complaints == []
    assert browser.ask("document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.ask("[...document.querySelectorAll('.chart svg')].every(s => s.getBoundingClientRect().width <= "
                       "s.closest('figure').getBoundingClientRect().width + 1)")  # fmt: skip


@pytest.mark.parametrize("width", [1280, 400])
def test_commands_wrap_and_the_scores_that_matter_are_in_sight(browser, width, tmp_path):
    command = "gpbae fit 'a long name of a table.csv' " + " ".join(f"--set name{i}=value{i}" for i in range(12))
    line = dict.fromkeys(("mae", "rmse", "smse", "nlpd", "crps", "coverage50", "coverage90", "cells"), 0.1234)
    rows = [{"experiment": "blocks", "model": "SGPBAE", "column": "all", "metrics": line}]
    (board,) = scoreboard.boards(rows)
    text = page.html("t", "l", [page.Section("s", ["do"], [belief._board(board)], command=command)])
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    browser.open(tmp_path / "page.html", width)
    assert browser.ask("[...document.querySelectorAll('pre')].every(p => p.scrollWidth <= p.clientWidth && "
                       "p.getBoundingClientRect().right <= window.innerWidth)")  # fmt: skip
    for word in ("MAE", "NLPD", "in 90\N{NO-BREAK SPACE}%"):
        heading = f"[...document.querySelectorAll('th')].find(h => h.textContent == {json.dumps(word)})"
        assert browser.ask(f"{heading}.getBoundingClientRect().right <= window.innerWidth"), word


def test_long_names_of_quantities_have_the_width_of_their_chart(browser, tmp_path):
    name = "degrees of freedom beyond 2 (large: nearly Gaussian) of water_temperature"
    chart = page.Chart("intervals", charts.intervals({name: np.linspace(1, 2, 20)}), "words", wide=True)
    (tmp_path / "page.html").write_text(page.html("t", "l", [page.Section("s", charts=[chart])]), encoding="utf-8")
    browser.open(tmp_path / "page.html", 1280)
    assert browser.ask(f"document.querySelector('[data-spec=intervals] svg').textContent.includes({json.dumps(name)})")


def test_names_do_not_become_code(browser, pages):
    browser.open(pages / "table.html", 1280)
    assert browser.ask("window.hacked === undefined && document.querySelectorAll('img, b, i').length == 0")
    assert browser.ask("document.body.innerText.includes('window.hacked=2')")
    options = browser.ask("[...document.querySelectorAll('[data-spec=fans] select')[0].options].map(o => o.text)")
    assert options == list(HOSTILE)


def pointed_at(browser, chart):
    """What the page says of the middle of a chart."""
    browser.ask(
        f"document.querySelector('[data-spec={chart}]').scrollIntoView({{block: 'center', behavior: 'instant'}})"
    )
    box = browser.ask("(({x, y, width, height}) => [x, y, width, height])"
                      f"(document.querySelector('[data-spec={chart}] svg').getBoundingClientRect())")  # fmt: skip
    for step in (0.5, 0.52):
        browser.hover(box[0] + step * box[2], box[1] + 0.5 * box[3])
    browser.wait_until("document.querySelector('#vg-tooltip-element.visible') !== null")
    return browser.ask("document.querySelector('#vg-tooltip-element').innerText")


def test_pointing_shows_value_and_interval(browser, pages):
    browser.open(pages / "table.html", 1280)
    words = pointed_at(browser, "fans")
    assert all(word in words for word in ("mean", "low", "high", "time <i>"))


def test_series_are_switched_and_chosen(browser, pages):
    browser.open(pages / "table.html", 1280)
    look = "document.querySelector('[data-spec=fans] .mark-{0} path').getAttribute('{1}')"
    assert browser.ask(look.format("line", "opacity")) == "1"
    boxes = "document.querySelectorAll('[data-spec=fans] input[type=checkbox]')"
    browser.ask(f"{boxes}[0].click()")
    browser.wait_until(look.format("line", "opacity") + " == '0'")
    assert browser.ask(look.format("area", "opacity")) == "0.2"
    before = browser.ask(look.format("area", "d"))
    menu = "document.querySelectorAll('[data-spec=fans] select')[1]"
    browser.ask(f"{menu}.selectedIndex = 1; {menu}.dispatchEvent(new Event('change'))")
    browser.wait_until(f"{look.format('area', 'd')} != {json.dumps(before)}")
    assert browser.complaints == []


def choose(browser, chart, which, number):
    """Another entry of a menu."""
    menu = f"document.querySelectorAll('[data-spec={chart}] select')[{which}]"
    browser.ask(f"{menu}.selectedIndex = {number}; {menu}.dispatchEvent(new Event('change'))")


@pytest.mark.parametrize("width", [1280, 400])
def test_axes_say_what_is_drawn_and_labels_have_probabilities(browser, labelled, width):
    browser.open(labelled[1], width)
    title = "document.querySelector('[data-spec={}] .role-title-text').textContent"
    for number, words in enumerate(["level [m]", "rain (its logarithm is modelled)", "open: probability of yes"]):
        choose(browser, "fans", 0, number)
        browser.wait_until(f"{title.format('fans')} == {json.dumps(words)}")
    browser.wait_until(f"{title.format('labels')} == {json.dumps(f'probability of each {HOSTILE[0]}')}")
    areas = "document.querySelectorAll('[data-spec=labels] .mark-area path').length"
    assert browser.ask(areas) == 2
    words = pointed_at(browser, "labels").split()
    assert {words[words.index(what) + 1] for what in ("label", "observed")} <= {"calm", "<b>wild</b>", "missing"}
    assert words[words.index("probability") + 1].endswith("%")
    choose(browser, "labels", 0, 1)
    browser.wait_until(f"{areas} == {overview.MOST_LABELS}")
    dots = "document.querySelector('[data-spec=labels] .mark-symbol path').getAttribute('opacity')"
    browser.ask("document.querySelector('[data-spec=labels] input[type=checkbox]').click()")
    browser.wait_until(f"{dots} == '0'")
    assert browser.complaints == [] and browser.ask("window.hacked === undefined")
    assert browser.ask("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("width", [1280, 400])
def test_labels_of_an_axis_keep_apart(browser, width, tmp_path):
    """Whatever numbers an axis holds, and however narrow the page."""
    draws, low = np.linspace(0, 1, 20).reshape(2, 10), [0.13, 0.9, 7.0, 120.0, 990.0]
    shown = [page.Chart(f"c{i}", charts.densities({"a": a + 0.1 * a * draws}), "words") for i, a in enumerate(low)]
    found = {"model": {"decoder": (1.05, 0.24)}}
    shown.append(page.Chart("t", charts.temperatures(found), "words"))
    (tmp_path / "page.html").write_text(page.html("t", "l", [page.Section("s", charts=shown)]), encoding="utf-8")
    browser.open(tmp_path / "page.html", width)
    boxes = ("[...document.querySelectorAll('.role-axis-label')].map(g => [...g.querySelectorAll('text')]"
             ".filter(t => t.getAttribute('opacity') != '0').map(t => t.getBoundingClientRect())"
             ".map(b => [b.left, b.right, b.top, b.bottom]))")  # fmt: skip
    for one, other in (pair for axis in browser.ask(boxes) for pair in itertools.combinations(axis, 2)):
        (left, right), (up, down) = sorted([one[:2], other[:2]]), sorted([one[2:], other[2:]])
        assert right[0] - left[1] >= 3 or down[0] >= up[1] - 4  # boxes of letters are higher than letters


def test_dates_are_those_of_the_table_wherever_the_page_is_read(browser, pages):
    """In New York the table's hour after midnight is an evening."""
    browser.call("Emulation.setTimezoneOverride", timezoneId="America/New_York")
    browser.open(pages / "dates.html", 1280)
    assert re.search(r"time <i> \(UTC\)\s+2004-03-28 0[01]:\d\d", pointed_at(browser, "fans"))
    assert browser.ask("document.querySelector('[data-spec=inducing] svg').textContent.includes('28 Mar 0')")
    assert browser.complaints == []
    browser.call("Emulation.setTimezoneOverride", timezoneId="")


PROMISES = {"all kept": (0.9, 1000, "green"), "a little short": (0.83, 1000, "amber"), "broken": (0.59, 96, "red"),
            "few cells": (0.75, 8, "green"), "labels": (None, 8, None)}  # fmt: skip


@pytest.mark.parametrize("name", PROMISES)
def test_intervals_that_held_too_few_hidden_cells_have_a_light(name):
    share, cells, light = PROMISES[name]
    row = {"model": "SGPBAE", "experiment": "blocks", "metrics": {"coverage90": share, "cells": cells}}
    found = list(trust.kept_promises([row]))
    assert [str(check.light) for check in found] == ([light] if light else [])
    assert all(bool(check.advice) == (check.light != "green") for check in found)


SHORT = [{"model": "SGPBAE", "experiment": "blocks", "metrics": {"coverage90": 0.5, "cells": 500}}]


@pytest.mark.parametrize("decoder", ["auto", Private()])
@pytest.mark.parametrize("columns", ["numbers", "labels"])
def test_paths_of_their_own_are_advised_only_where_they_are_not_refused(columns, decoder):
    """A label has an output for each of its words, so that there is no path for its column."""
    y = Y if columns == "numbers" else pd.DataFrame({"a": runs.Y[:, 0], "sky": list("abc") * 4})
    estimator = SGPBAE(**runs.QUICK | dict(decoder=decoder, num_inducing=3))
    (found,) = trust.kept_promises(SHORT, circumstances.of_wish(estimator, y))
    assert ("Private" in found.advice) == (columns == "numbers" and decoder == "auto")
    if "Private" in found.advice:
        estimator.set_params(decoder=Private())._prepare(runs.X, y, None)


def test_what_a_fitted_model_could_have_is_what_a_model_to_be_fitted_could(model, labelled):
    assert circumstances.of_fitted(model) == circumstances.of_wish(model, Y)
    assert not circumstances.of_fitted(labelled[0]).may_have_paths
    (found,) = trust.promises(model, SHORT)
    assert "Private" in found.advice and "below" not in found.advice


RAINY = {"the others keep theirs": (0.91, 300, 0.49, "amber"), "nobody does": (0.6, 300, 0.49, "red"),
         "rain does": (0.91, 300, 0.9, "green"), "no others": (0.0, 0, 0.49, "red")}  # fmt: skip


@pytest.mark.parametrize("name", RAINY)
def test_a_column_of_zeros_that_was_expected_to_fall_short_makes_no_light_red_and_hides_no_other(name):
    share, cells, of_rain, light = RAINY[name]

    def row(column, share, cells):
        metrics = {"coverage90": share, "cells": cells}
        return {"model": "SGPBAE", "experiment": "blocks", "column": column, "metrics": metrics}

    whole = row("all", (share * cells + of_rain * 300) / (cells + 300), cells + 300)
    rows = [row("rain", of_rain, 300), *([row("a", share, cells)] if cells else []), whole]
    (found,) = trust.kept_promises(rows, circumstances.Circumstances(zeros={"rain": 0.6}))
    assert str(found.light) == light
    assert ("rain (60% zeros)" in found.advice) == (light != "green")
    assert ("The other columns hold 91% of 300." in found.advice) == (light == "amber")
    assert ("Intervals are too narrow" in found.advice) == (light == "red")
    (plain,) = trust.kept_promises(rows)
    assert str(plain.light) == ("green" if light == "green" else "red")


def test_columns_of_many_zeros_are_known_before_a_fit_and_after_it():
    rain = np.where(np.arange(30) % 3, 0.0, np.random.default_rng(1).gamma(0.8, 6.0, 30))
    table = pd.DataFrame({"level": np.random.default_rng(2).normal(size=30), "rain": rain, "dew": rain + 0.01})
    table.loc[4, "rain"] = np.nan
    estimator = SGPBAE(**runs.QUICK | dict(num_inducing=3, progress=False, transform="auto"))
    wished = circumstances.of_wish(estimator, table)
    assert list(wished.zeros) == ["rain"] and wished.zeros["rain"] == pytest.approx(19 / 29)
    assert circumstances.of_fitted(estimator.fit(np.arange(30.0)[:, None], table)) == wished


def test_one_column_that_fell_behind_turns_a_green_light():
    def row(column, share, cells):
        metrics = {"coverage90": share, "cells": cells}
        return {"model": "SGPBAE", "experiment": "blocks", "column": column, "metrics": metrics}

    kept = [row("a", 0.93, 200), row("rain", 0.8, 20), row("all", 0.91, 220)]
    assert [str(check.light) for check in trust.kept_promises(kept)] == ["green"]
    (found,) = trust.kept_promises([row("a", 0.93, 200), row("rain", 0.6, 20), row("all", 0.9, 220)])
    assert found.light == "amber" and found.found == "hold 90% of 220 cells; too few in rain (60% of 20)"
    assert "evaluation.csv" in found.advice


def test_scores_by_column_are_beside_those_of_the_best_rival(model):
    def row(method, mae, column="a"):
        metrics = {"mae": mae, "nlpd": 1.0, "coverage90": 0.9, "cells": 12}
        return {"model": method, "experiment": "blocks", "column": column, "metrics": metrics}

    rows = [row("SGPBAE", 0.5), row("mean", 0.7), row("line", 0.6), row("SGPBAE", 0.5, "all"), row("line", 0.6, "all")]
    *_, table = belief.scores(subject.Subject(overview.Overview(model), evaluation=rows)).tables
    assert table.folded and table.caption.startswith("Scores by column")
    assert table.rows == [("blocks", "a", "0.5", "1", "0.9", "12", "line", "0.6", "1", "0.9")]


def test_thresholds_of_r_hat_are_the_same_wherever_they_are_said():
    limits = {str(diagnostics.LARGEST_RHAT), str(diagnostics.LARGEST_SINGLE_RHAT)}
    assert set(re.findall(r"1\.\d", glossary.MEANINGS["R-hat"])) == limits


def test_the_page_of_a_file_names_it(model):
    text = report.model_page(model, dataclasses.replace(READ, table="<b>.csv"))
    assert "<h1>SGPBAE, fitted to &lt;b&gt;.csv</h1>" in text


def test_a_page_makes_its_folder_and_says_where_it_cannot_be(model, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "model_page", lambda model: "<p>page")
    model.report(tmp_path / "new" / "folder" / "page.html")
    assert (tmp_path / "new" / "folder" / "page.html").read_text() == "<p>page"
    with pytest.raises(GpbaeError, match=r"Could not write the page .*new: Is a directory; name another file"):
        model.report(tmp_path / "new")
