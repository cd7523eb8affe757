"""What hidden layers make of inputs, as users ask for it."""

import numpy as np
import pandas as pd
import pytest

import runs
from gpbae import DSGPBAE, SGPBAE, load, plots, report
from gpbae.errors import GpbaeError, InputError

X = np.linspace(5.0, 6.0, 60)
CLOCK = X + 7 * np.clip(X - 5.4, 0, 0.2)
Y = np.column_stack([np.sin(f * CLOCK) for f in (4, 5, 6)]) + 0.05 * np.random.default_rng(0).standard_normal((60, 3))
QUICK = dict(runs.QUICK, num_warmup=30, num_samples=6, num_inducing=16, progress=False)


@pytest.fixture(scope="module")
def model():
    return DSGPBAE(**QUICK).fit(pd.DataFrame({"hour": X}), Y)


def test_the_clock_runs_fast_where_the_paths_do_and_is_told_in_units_of_x(model):
    new = pd.DataFrame({"hour": [5.0, 5.4, 5.6, 6.0]}, index=list("abcd"))
    found = model.warp(new)
    assert list(found.mean.columns) == ["hour"] and list(found.mean.index) == list("abcd")
    before, inside, after = np.diff(found.mean["hour"])
    assert inside / 0.2 > 2 * max(before, after) / 0.4, "faster by far more than the true eight's square root"
    at_rows = model.warp(pd.DataFrame({"hour": X}))
    np.testing.assert_allclose(at_rows.samples[..., 0].mean(axis=1), X.mean(), atol=1e-6)
    np.testing.assert_allclose(at_rows.samples[..., 0].std(axis=1), X.std(), rtol=1e-6)
    assert np.all(np.sum((at_rows.samples[..., 0] - X.mean()) * (X - X.mean()), axis=1) > 0)


def test_saved_models_have_the_same_warp(model, tmp_path):
    model.save(tmp_path / "m")
    x = pd.DataFrame({"hour": X[:5]})
    np.testing.assert_array_equal(load(tmp_path / "m").warp(x).samples, model.warp(x).samples)
    assert len(model.warp(x, num_draws=2).samples) == 2 * model.num_propagations


def test_one_layer_warps_nothing_and_a_constant_input_stays():
    x = np.column_stack([X, np.ones(60)])
    flat = DSGPBAE(**QUICK, num_layers=1).fit(x, Y)
    np.testing.assert_allclose(flat.warp(x).mean, x, atol=1e-9)
    bent = DSGPBAE(**QUICK).fit(x, Y).warp(x)
    assert np.all(np.isfinite(bent.samples))


def test_it_is_drawn_and_reported(model, tmp_path):
    figure = plots.warp(model)
    assert figure.axes[0].get_xlabel() == "hour" and figure.axes[0].get_ylabel() == "hour, warped"
    figure.savefig(tmp_path / "warp.png")
    page = report.model_page(model)
    assert "The warp" in page and "along the warped inputs" in page and "where the model spends its detail" not in page
    two = DSGPBAE(**QUICK).fit(np.column_stack([X, X[::-1] ** 2]), Y)
    assert len(plots.warp(two).axes) == 2


def test_other_models_say_that_they_have_none(model):
    plain = SGPBAE(**QUICK).fit(X, Y)
    assert "The warp" not in report.model_page(plain)
    with pytest.raises(InputError, match="has no hidden layers to draw; warp needs DSGPBAE"):
        plots.warp(plain)
    with pytest.raises(GpbaeError, match="fit"):
        DSGPBAE().warp(X)
    with pytest.raises(InputError, match="hour"):
        model.warp(pd.DataFrame({"day": X}))
