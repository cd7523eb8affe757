"""The paper's experiments from the command line: what is written, what is not done twice, what is refused."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gpbae import cli
from gpbae.baselines.autoencoders import Snapshot
from gpbae.cli.reproduce import ALL, Name
from gpbae.experiments import catalogue, cells, figures, moving_ball, rotated_mnist, runner, summary
from gpbae.experiments.experiment import BUDGETS, Experiment, Metric, Model, Plot, Problem, Run, Scores, Setting
from gpbae.likelihoods import Gaussian
from gpbae.scoring import metrics

ROW = {"experiment", "model", "seed", "metrics", "seconds"}
SCORED = {"eeg": {"smse", "nll", "nlpd", "coverage90"}, "jura": {"mae", "mae_median", "nll", "nlpd", "coverage90"},
          "moving-ball": {"rmse", "rmse_frame", "lengthscale"},
          "rotated-mnist": {"mse", "nlpd", "coverage90", "circular_correlation"}}  # fmt: skip
WORST = {"smse": 3.0, "mae": 2.0, "mae_median": 2.0, "nll": 30.0, "nlpd": 30.0, "rmse": 1.1, "mse": 0.5}


def reproduce(*arguments):
    """Exit code of `gpbae reproduce ARGUMENTS`, in this process."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["reproduce", *(str(argument) for argument in arguments)])
    return ended.value.code or 0


# A whole experiment, in its smallest form.


@pytest.mark.parametrize("name", SCORED)
def test_every_experiment_runs_and_writes_what_it_promises(name, data_dir, tmp_path, capsys):
    assert reproduce(name, "--models", "sgp-bae", "--budget", "smoke", "--out", tmp_path) == 0
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert set(row) == ROW and (row["experiment"], row["model"], row["seed"]) == (name, "sgp-bae", 0)
    assert SCORED[name] <= set(row["metrics"]) and row["seconds"] > 0
    for metric, value in row["metrics"].items():
        assert np.isfinite(value) and abs(value) <= WORST.get(metric, np.inf)
    assert 0 <= row["metrics"].get("coverage90", 0.5) <= 1
    published = catalogue.EXPERIMENTS[name].paper["sgp-bae"].values()
    shown = capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert all(text in shown and text in page for text in published)
    addresses = set(re.findall(r"https?://[^\"'`\s<>\\)]+", page))
    assert {a for a in addresses if not a.startswith("http://www.w3.org/")} == set()
    drawn = {path.name.removeprefix(f"{name}-") for path in (tmp_path / "figures").glob("*.png")}
    wanted = {f"{plot.name}.png" for plot in catalogue.EXPERIMENTS[name].plots} - {"rmse-against-m.png"}
    assert drawn == wanted


RIVALS = {"eeg": "igp", "jura": "igp", "moving-ball": "vae", "rotated-mnist": "cvae"}


@pytest.mark.parametrize("name", [*list(RIVALS)[:3], pytest.param("rotated-mnist", marks=pytest.mark.slow)])
def test_a_rival_of_every_experiment_runs_and_is_scored(name, data_dir, tmp_path):
    assert reproduce(name, "--models", RIVALS[name], "--budget", "smoke", "--out", tmp_path) == 0
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert set(row) == ROW and row["model"] == RIVALS[name]
    assert row["metrics"] and all(np.isfinite(value) for value in row["metrics"].values())


# The runner, with a model that takes no time.


class Instant:
    """Fits nothing and says one number."""

    num_chains_ = 2
    history_ = ({"phase": "sampling", "log_joint": np.zeros(2), "seconds": 1.0},)
    num_fits = 0

    def __init__(self, noise):
        self.noise = noise

    def fit(self, x, y, groups=None, run_dir=None):
        run_dir.mkdir()
        type(self).num_fits += 1

    def kinetic_temperatures_(self):
        return {"decoder": (1.0, 0.01)}

    def diagnostics(self):
        return SimpleNamespace(attrs={"warnings": ["Something <b>odd</b>."]})


def _experiment(noise=0.1):
    chains = np.random.default_rng(0).standard_normal((2, 8, 5))
    return Experiment(
        name="toy",
        title="A toy",
        about="Nothing.",
        load=lambda options, seed: Problem(np.zeros((3, 1)), np.zeros((3, 1)), None),
        score=lambda model, problem, options: Scores(
            {"smse": model.noise, "nll": float("nan")}, {"a": np.arange(3)}, chains
        ),
        models={
            "sgp-bae": Model("SGP-BAE", {b: Setting("SGPBAE", {"noise": noise}, {"every": 1}) for b in BUDGETS}),
            "bae": Model("BAE", {"full": Setting("BAE", {"noise": noise}, {})}),
        },
        metrics=(Metric("smse", "SMSE", high=0.2), Metric("nll", "NLL")),
        plots=(Plot("nothing", "nothing", "nothing", lambda runs: None),),
        paper={"sgp-bae": {"smse": "0.22 ± 0.01"}, "GPAR": {"smse": "0.28 ± 0.00"}},
    )


@pytest.fixture
def instant(monkeypatch):
    monkeypatch.setattr(Instant, "num_fits", 0)
    make = lambda self, seed, progress, **more: Instant(self.arguments["noise"] + 0.01 * seed)  # noqa: E731
    monkeypatch.setattr(Setting, "make", make)
    return Instant


def test_results_have_the_contracts_shape_and_no_nan(instant, tmp_path):
    runner.reproduce([_experiment()], None, "full", 2, tmp_path, progress=False)
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [(r["model"], r["seed"]) for r in rows] == [("sgp-bae", 0), ("sgp-bae", 1), ("bae", 0), ("bae", 1)]
    assert all(set(row) == ROW for row in rows) and "nll" not in rows[0]["metrics"]
    assert rows[1]["metrics"]["smse"] == pytest.approx(0.11)
    assert "Something &lt;b&gt;odd&lt;/b&gt;." in (tmp_path / "report.html").read_text()


def test_a_table_for_the_documentation_is_written(instant, tmp_path):
    runner.reproduce([_experiment()], None, "full", 2, tmp_path, progress=False)
    caption, _, header, rule, first, second = (tmp_path / "tables.md").read_text().splitlines()
    assert "over 2 seeds" in caption and header == "| model | SMSE | paper | seconds |"
    assert rule.count("---") == 4
    assert first.startswith("| SGP-BAE | 0.105 ± 0.007 | 0.22 ± 0.01 | ")
    assert second.startswith("| BAE | 0.105 ± 0.007 | – | ")


def test_what_is_done_is_not_done_again(instant, tmp_path):
    first = runner.reproduce([_experiment()], ["sgp-bae"], "quick", 2, tmp_path)
    again = runner.reproduce([_experiment()], ["sgp-bae"], "quick", 3, tmp_path)
    assert instant.num_fits == 3 and [r.row() for r in again[:2]] == [r.row() for r in first]
    assert np.array_equal(again[0].arrays["a"], np.arange(3))


def test_other_settings_and_damaged_files_are_run_again(instant, tmp_path):
    runner.reproduce([_experiment()], ["sgp-bae"], "quick", 1, tmp_path)
    runner.reproduce([_experiment(noise=0.2)], ["sgp-bae"], "quick", 1, tmp_path)
    assert instant.num_fits == 2
    for end in ("json", "npz"):
        file = tmp_path / "runs" / f"toy-sgp-bae-0.{end}"
        file.write_bytes(file.read_bytes()[:40])
        runner.reproduce([_experiment(noise=0.2)], ["sgp-bae"], "quick", 1, tmp_path)
    assert instant.num_fits == 4


def test_a_run_that_fails_leaves_what_was_done(instant, tmp_path, monkeypatch):
    def fail(self, x, y, groups=None, run_dir=None):
        run_dir.mkdir()
        raise ValueError("no")

    runner.reproduce([_experiment()], ["sgp-bae"], "quick", 1, tmp_path)
    monkeypatch.setattr(instant, "fit", fail)
    with pytest.raises(ValueError, match="no"):
        runner.reproduce([_experiment()], ["sgp-bae"], "quick", 2, tmp_path)
    assert len(json.loads((tmp_path / "results.json").read_text())) == 1
    assert [path.name[:20] for path in (tmp_path / "runs").glob("*unfinished*")] == ["toy-sgp-bae-1.unfini"]


def test_table_has_mean_and_sd_beside_the_papers_numbers_and_baselines(instant, tmp_path):
    runs = runner.reproduce([_experiment()], ["sgp-bae"], "quick", 2, tmp_path)
    rows = summary.table(_experiment(), runs)
    assert ("SGP-BAE", "SMSE", "0.105 ± 0.007", "0.22 ± 0.01", "≤ 0.2") in rows
    assert ("GPAR", "SMSE", "–", "0.28 ± 0.00", "") in rows


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nonsense"], "rotated-mnist"),
        (["eeg", "--models", "vae"], "dsgp-bae"),
        (["eeg", "--models", "sgp-bae,"], ""),
        (["eeg", "--models", ","], "dsgp-bae"),
        (["eeg", "--budget", "huge"], "quick"),
        (["eeg", "--seeds", "0"], "seeds"),
    ],
)
def test_unknown_names_are_bad_usage_and_say_what_is_known(arguments, named, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, "reproduce", lambda *a, **k: [])
    code = reproduce(*arguments, "--out", tmp_path)
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert (code == 2 and named in said) if named else code == 0
    assert not list(tmp_path.iterdir())


def test_names_known_to_the_command_are_the_catalogue():
    known = {name.value for name in Name} - {ALL}
    assert known == set(catalogue.EXPERIMENTS)


def test_hidden_budget_is_not_in_the_help(capsys):
    assert reproduce("--help") == 0
    assert "smoke" not in capsys.readouterr().out


# Values.


@pytest.mark.parametrize("experiment", catalogue.EXPERIMENTS.values(), ids=lambda e: e.name)
def test_settings_are_arguments_of_their_estimators_at_temperature_one(experiment):
    for model in experiment.models.values():
        for setting in model.settings.values():
            made = setting.make(0, False)
            assert getattr(made, "temperature", 1.0) == 1.0  # a baseline is not sampled and has none
    assert set(experiment.paper) & set(experiment.models), "nothing of ours stands beside the paper's numbers"


def test_settings_differ_as_text_where_they_differ():
    a, b = (Setting("SGPBAE", {"likelihood": Gaussian(noise=noise)}, {}).described() for noise in (0.1, 0.2))
    assert a != b and a == Setting("SGPBAE", {"likelihood": Gaussian(noise=0.1)}, {}).described()


class LogNormal:
    """Answers with a normal law for log y, N(m, s²), by very many draws."""

    num_chains_ = 1

    def __init__(self, m, s):
        self.m, self.s = m, s

    def impute(self, x, y):
        draws = self.m + self.s * np.random.default_rng(0).standard_normal((40_000, *y.shape))
        density = lambda value, mask: np.where(mask, stats.norm.logpdf(value, self.m, self.s), np.nan)  # noqa: E731
        return SimpleNamespace(samples=draws, _means=draws[:, None], log_density=density)


def test_log_transform_scores_are_those_of_the_log_normal_in_original_units():
    truth = pd.DataFrame({"Cd": [0.4, 1.0, 2.5], "Ni": [np.nan] * 3})
    problem = Problem(None, np.log(truth), truth)
    found = cells.hidden_cells(LogNormal(0.2, 0.5), problem, "log")
    law = stats.lognorm(s=0.5, scale=np.exp(0.2))
    assert found.nlpd == pytest.approx(-law.logpdf(truth["Cd"]).mean())
    error = 5 * law.std() / 200  # of 40 000 draws
    assert found.mean[0, 0] == pytest.approx(law.mean(), abs=error)
    assert found.median[0, 0] == pytest.approx(law.median(), abs=error)
    assert found.upper[0, 0] == pytest.approx(law.ppf(0.95), abs=5 * error)
    assert found.coverage == pytest.approx(np.mean((truth["Cd"] > law.ppf(0.05)) & (truth["Cd"] < law.ppf(0.95))))


def _problems(name, fold):
    """The problem of the test, and that of a fold."""
    experiment = catalogue.EXPERIMENTS[name]
    for e in (experiment, experiment.with_fold(fold)):
        yield e.load(e.models["sgp-bae"].settings["full"].options, 0)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ["eeg", "jura"])
def test_a_validation_fold_hides_known_cells_and_shows_no_test_cell(name, number, data_dir):
    test, fold = _problems(name, number)
    hidden = fold.truth.notna().to_numpy()
    assert hidden.any() and not (hidden & test.truth.notna().to_numpy()).any()
    assert fold.y.isna().to_numpy()[hidden].all() and test.y.notna().to_numpy()[hidden].all()


def test_a_validation_fold_of_digits_hides_an_angle_of_the_training_images(data_dir):
    test, fold = _problems("rotated-mnist", 1)
    hidden = set(fold.truth[1].angle)
    assert len(hidden) == 1 and not hidden & set(test.truth[1].angle) and not hidden & set(fold.x[:, 0])
    assert hidden < set(test.x[:, 0]) and len(fold.x) + len(fold.truth[0]) == len(test.x)


def test_a_validation_fold_of_the_ball_has_other_videos(data_dir):
    test, fold = _problems("moving-ball", 0)
    assert np.array_equal(test.y, fold.y) and not np.array_equal(test.truth.paths, fold.truth.paths)


def test_circular_correlation_is_one_for_a_turned_angle_and_none_for_another():
    a, b = np.random.default_rng(0).uniform(0, 2 * np.pi, (2, 4000))
    assert metrics.circular_correlation(a + 1.3, a) == pytest.approx(1, abs=0.06)
    assert metrics.circular_correlation(-a, a) == pytest.approx(-1, abs=0.06)
    assert metrics.circular_correlation(a, b) == pytest.approx(0, abs=0.06)


# Figures that only a full run has.


def test_figures_over_the_number_of_inducing_inputs(tmp_path):
    rng = np.random.default_rng(0)

    def run(model, m, seed):
        kept = {"lengthscale": rng.normal(2, 1 / m, (2, 30)), "inducing": rng.uniform(0, 29, (2, 30, m, 1)),
                "num_inducing": np.array(m)}  # fmt: skip
        return Run("moving-ball", model, seed, {"rmse": 0.1 + 1 / m}, 1.0, {}, {}, (), kept)

    runs = [run(model, m, s) for model, m in (("sgp-bae", 10), ("sgp-bae-m5", 5), ("sgp-bae-m15", 15)) for s in (0, 1)]
    drawn = {plot.name: plot.draw(runs) for plot in moving_ball.EXPERIMENT.plots}
    words = [axis.get_ylabel() for axis in drawn["inducing-positions"].axes]
    assert words == ["M = 5", "M = 10", "M = 15"]
    for name in ("rmse-against-m", "lengthscale", "inducing-positions"):
        drawn[name].savefig(tmp_path / f"{name}.png")
    assert drawn["trajectories"] is None and moving_ball._rmse(runs[:2]) is None


def test_time_to_quality_is_when_the_curve_first_reaches_it():
    curve = {"curve_mse": np.array([0.05, 0.0250, 0.0260, 0.0240]), "curve_seconds": np.array([10.0, 20, 30, 40]),
             "curve_processor_seconds": np.array([9.0, 18, 27, 36])}  # fmt: skip
    found = rotated_mnist._time_to_quality(curve)
    assert found["seconds_to_0.0257"] == 20 and found["processor_seconds_to_0.0257"] == 18
    assert np.isnan(found["seconds_to_0.0236"]) and np.isnan(rotated_mnist._time_to_quality({})["seconds_to_0.0257"])


def test_a_rivals_curve_is_its_own_training():
    """Errors of the model as it was then, not of the one at the end."""
    truth = np.zeros((3, 4))

    class Rival:
        snapshots_ = (Snapshot(1.0, 0.5, 10, 0.3), Snapshot(2.0, 1.0, 20, 0.1))

        def as_of(self, snapshot):
            answer = SimpleNamespace(mean=np.full((3, 2, 2), snapshot.model))
            return SimpleNamespace(predict=lambda x, groups: answer)

    found = rotated_mnist._training_curve(Rival(), None, None, truth)
    np.testing.assert_allclose(found["curve_mse"], [0.09, 0.01])
    np.testing.assert_array_equal(found["curve_processor_seconds"], [0.5, 1.0])


def test_a_sampled_curve_is_the_mean_over_the_draws_so_far():
    """Two chains of two draws, whose errors cancel; each draw at the clock of its own block."""
    draws = np.array([1.0, 3.0, 3.0, -7.0])[:, None, None] * np.ones((1, 3, 4))
    blocks = [{"phase": "sampling", "seconds": 5.0 + i, "processor_seconds": 4.0 + i} for i in range(2)]
    model = SimpleNamespace(num_chains_=2, history_=[{"phase": "warm-up", "seconds": 1.0}, *blocks])
    found = rotated_mnist._curve(model, draws, np.zeros((3, 4)))
    np.testing.assert_allclose(found["curve_mse"], [4.0, 0.0])  # (1 + 3)/2, then with (3 − 7)/2 nothing is left
    np.testing.assert_allclose(found["curve_seconds"], [5.0, 6.0])
    np.testing.assert_allclose(found["curve_processor_seconds"], [4.0, 5.0])


def test_scores_in_time_are_drawn_beside_the_papers(tmp_path):
    figure = figures.in_time({"sgp-bae": (np.arange(5.0), np.linspace(1, 0, 5))}, "MSE", {"paper": 0.2})
    figure.savefig(tmp_path / "figure.png")
    assert [line.get_label() for line in figure.axes[0].lines] == ["sgp-bae", "paper"]
