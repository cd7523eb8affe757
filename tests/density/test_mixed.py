"""A table of numbers, counts, labels, yes and no, with gaps, from fit to filled cells."""

import re

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from gpbae import SGPBAE, overview, report
from gpbae.answering import inspection
from gpbae.likelihoods import Blocks, Gaussian, Mixed, StudentT

N = 30
QUICK = {"num_chains": 1, "num_warmup": 8, "num_samples": 8, "thinning": 1, "sampler_steps": 8, "encoder_steps": 2,
         "num_map_steps": 60, "progress": False}  # fmt: skip


def make_table():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, N)
    f = np.sin(6 * t)
    full = pd.DataFrame({
        "level": 50 + 10 * f + rng.normal(size=N),
        "events": rng.poisson(np.exp(1 + 0.8 * f)),
        "kind": np.array(["low", "mid", "high"])[np.digitize(f + 0.2 * rng.normal(size=N), [-0.4, 0.4])],
        "alarm": f + 0.3 * rng.normal(size=N) > 0.3,
        "rate": np.exp(f + 0.1 * rng.normal(size=N)),
    })  # fmt: skip
    full = full.astype({"events": "Int64", "alarm": "boolean"})
    y = full.mask(rng.random(full.shape) < 0.15)
    return pd.DataFrame({"t": t}), y, full


@pytest.fixture(scope="module")
def fitted(quick_compilation):
    x, y, full = make_table()
    asked = Mixed({"level": StudentT()}, default="auto")
    model = SGPBAE(latent_dim=2, num_inducing=6, likelihood=asked, transform={"rate": "log"}, **QUICK)
    return model.fit(x, y), x, y, full


def test_quantities_are_named_by_column_row_and_input(fitted):
    """A label has several outputs, each named after one; everything else has one."""
    model, x, y, _ = fitted
    found = [name[len("output[") : -1].split(", ") for name in model.scalars_() if name.startswith("output[")]
    assert found and {row: float(t[2:]) for _, row, t in found} == {
        f"row {i}": pytest.approx(x["t"][i], rel=1e-5) for i in {int(row[4:]) for _, row, _ in found}
    }
    for name in {name for name, _, _ in found}:
        column, _, label = name.partition(":")
        assert column in y.columns and bool(label) == (model.likelihood_choice_[column].startswith("categorical"))
        assert not label or label in set(y[column].dropna())


def test_draws_are_an_array_whose_codes_are_places_of_labels(fitted):
    model, x, y, _ = fitted
    draws, answer = model.sample(x, num_samples=4), model.predict(x)
    assert isinstance(draws, np.ndarray) and draws.shape == (4, *y.shape)
    for column, name in enumerate(y.columns):
        if model.likelihood_choice_[name].startswith("categorical"):
            labels = list(answer.probabilities(name).columns)
            assert labels == sorted(labels) and set(np.unique(draws[..., column])) <= set(range(len(labels)))


def test_noises_are_named_by_column(fitted):
    assert {"scale[level]", "noise[rate]"} <= set(fitted[0].scalars_())


def test_noises_of_a_block_are_named_by_its_columns():
    names, draws = list("abcdefg"), jnp.zeros(4)
    shared, each = Gaussian(), eqx.tree_at(lambda g: g.log_noise, Gaussian(), jnp.zeros((4, 2)))
    shared = eqx.tree_at(lambda g: g.log_noise, shared, draws)
    found = inspection._noises(Blocks((shared, each), ((0, 2, 3, 6), (1, 4))), names)
    assert [(name, labels) for name, labels, _ in found] == [("noise[a, c, d, …]", list("acdg")), ("noise", list("be"))]


def test_the_page_says_the_likelihoods_in_words(fitted):
    page = report.model_page(fitted[0])
    assert "student-t for level;" in page and "bernoulli for alarm;" in page and ">Blocks<" not in page


def test_the_page_draws_probabilities_and_no_codes(fitted):
    view = overview.Overview(fitted[0])
    assert [view.cell_names[c] for c in view.cells] == ["level", "events", "alarm", "rate"]
    bands, alarm = view.fans(), 2
    assert ((bands.low <= bands.mean) & (bands.mean <= bands.high))[:, alarm].all()
    assert 0 < bands.low[:, alarm].min() and bands.high[:, alarm].max() < 1
    page = report.model_page(fitted[0])
    assert "of yes and no, the probability of yes and its interval; of labels, the probability of each." in page
    row = '<td class="word">kind</td><td class="word">categorical</td>'
    assert re.search(row + r"<td>\d+</td><td>[\d.%]+</td><td></td>", page)


def test_the_choice_is_said_column_by_column(fitted):
    model = fitted[0]
    assert [text.split(":")[0] for text in model.likelihood_choice_.values()] == [
        "student-t", "poisson" if "poisson" in model.likelihood_choice_["events"] else "negative-binomial",
        "categorical", "bernoulli", "gaussian",
    ]  # fmt: skip


def test_filled_cells_have_the_types_of_the_table_and_known_ones_stay(fitted):
    model, x, y, _ = fitted
    filled = model.impute(x, y).filled
    assert filled.dtypes.to_dict() == y.dtypes.to_dict()
    assert not filled.isna().any().any()
    known = y.notna().to_numpy()
    assert (filled.astype(object).to_numpy()[known] == y.astype(object).to_numpy()[known]).all()
    assert set(filled["kind"]) <= {"low", "mid", "high"}
