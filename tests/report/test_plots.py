"""Pictures: functions of numbers, drawn without a display."""

import numpy as np
import pytest

import runs
from gpbae import GPBAE, plots
from gpbae.errors import InputError


@pytest.fixture
def paths():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((3, 7, 2)).cumsum(axis=1)
    return truth, {name: truth + s * rng.standard_normal((6, 3, 7, 2)) for name, s in (("one", 0.1), ("two", 0.5))}


def _words(figure):
    """Every text of a figure: titles, labels and legends."""
    from matplotlib.text import Text

    return {text.get_text() for text in figure.findobj(Text)}


def _saves(figure, tmp_path):
    figure.savefig(tmp_path / "figure.png")
    return (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_trajectories_show_each_model_and_video(paths, tmp_path):
    truth, draws = paths
    figure = plots.trajectories(truth, draws, half_canvas=2.5)
    words = _words(figure)
    assert {"one, unseen video 1", "two, unseen video 3", "time (frames)", "edge of the picture"} <= words
    assert len(figure.axes) == 4 * 3
    assert _saves(figure, tmp_path)


@pytest.mark.parametrize(
    "draws", [np.random.default_rng(1).normal(2, 0.1, (2, 20)), np.full((1, 3), 1.5), np.ones((1, 1))]
)
def test_density_names_interval_and_truth(draws, tmp_path):
    figure = plots.density(draws, "lengthscale (frames)", truth=2.0)
    words = " ".join(_words(figure))
    assert "90% interval" in words and "true value: 2" in words and "lengthscale (frames)" in words
    assert _saves(figure, tmp_path)


def test_smooth_density_integrates_to_one():
    grid = np.linspace(-8, 8, 2001)
    density = plots.smooth_density(np.random.default_rng(2).standard_normal(50), grid)
    assert np.sum(density) * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-3)


def test_temperatures_and_log_joint_are_drawn(tmp_path):
    blocks = {"SGP-BAE": {"decoder": (1.0, 0.01), "latents": (0.9, 0.02)}, "BAE": {"decoder": (1.1, 0.0)}}
    assert {"decoder", "latents", "kinetic temperature"} <= _words(plots.temperatures(blocks))
    assert _saves(plots.temperatures(blocks), tmp_path)
    assert _saves(plots.log_joint({"BAE": np.arange(10.0).reshape(5, 2)}), tmp_path)


def test_pictures_leave_pyplot_alone(paths):
    """No figure is kept alive by pyplot, and the user's style is untouched."""
    import matplotlib
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    plots.trajectories(*paths)
    assert plt.get_fignums() == [] and dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def model():
    return GPBAE(**runs.QUICK, progress=False).fit(runs.X, runs.Y, runs.GROUPS)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (plots.imputation, {"column 2", "x", "90% interval", "observed"}),
        (plots.latents, {"latent 0", "latent 1", "x"}),
        (plots.missingness, {"column 0", "share missing"}),
        (plots.calibration, {"cells of the fit itself", "share of cells inside"}),
        (plots.hyperparameters, {"RBF lengthscale", "noise"}),
        (plots.traces, {"log joint (with warm-up)", "noise"}),
    ],
)
def test_fitted_models_are_drawn(model, draw, words, tmp_path):
    figure = draw(model)
    assert words <= _words(figure)
    figure.savefig(tmp_path / "figure.svg")
    assert "<svg" in (tmp_path / "figure.svg").read_text() and _saves(figure, tmp_path)


def test_columns_and_groups_are_chosen(model):
    figure = plots.imputation(model, columns=["column 1"], group="c")
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_xdata(), runs.X[6:9, 0])
    assert len(figure.axes) == 1 and figure.axes[0].get_ylabel() == "column 1"
    for wrong in (dict(group="nobody"), dict(columns=["nothing"]), dict(columns=[9])):
        with pytest.raises(InputError, match="must be"):
            plots.imputation(model, **wrong)


def test_maps_and_images_say_what_they_need(model):
    for draw in (plots.maps, plots.images, plots.generated):
        with pytest.raises(InputError, match="needs"):
            draw(model)
