"""Arguments as a user writes them: text becomes values by a list of names, and nothing is executed."""

import itertools

import numpy as np
import pandas as pd
import pytest

from gpbae.cli import arguments, expressions
from gpbae.errors import InputError
from gpbae.kernels import RBF, Periodic
from gpbae.likelihoods import Gaussian
from gpbae.networks import MLP

WRITTEN = {
    "RBF()": RBF(),
    "RBF(lengthscale=0.2) + Periodic(period=24)": RBF(lengthscale=0.2) + Periodic(period=24),
    "RBF().on(0) * Periodic(period=1.5).on(1)": RBF().on(0) * Periodic(period=1.5).on(1),
    "Gaussian(noise=0.1, per_column=True)": Gaussian(noise=0.1, per_column=True),
    "MLP((20, 30), 'tanh')": MLP((20, 30), "tanh"),
    "[RBF(), Periodic(period=2)]": [RBF(), Periodic(period=2)],
}


@pytest.mark.parametrize("text", WRITTEN)
def test_text_stands_for_the_value_it_spells(text):
    assert repr(expressions.read(text)) == repr(WRITTEN[text])


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "RBF().__class__()", "open('x')", "RBF()(1)", "(lambda: 1)()", "RBF(", "[x for x in (1,)]",
     "RBF(lengthscale=open('x'))", "RBF(nonsense=1)", "AbstractKernel.register(int)"],
)  # fmt: skip
def test_nothing_else_is_read(text):
    with pytest.raises(InputError):
        expressions.read(text)


def test_single_arguments_are_values_of_toml_or_plain_words():
    found = arguments.pairs(
        ["num_chains=2", "latents=persistent", "step_size=0.1", "transform={a = 'log'}", "kernel=RBF()"]
    )
    assert found == {
        "num_chains": 2,
        "latents": "persistent",
        "step_size": 0.1,
        "transform": {"a": "log"},
        "kernel": "RBF()",
    }
    model = arguments.estimator("SGPBAE", found)
    assert model.num_chains == 2 and isinstance(model.kernel, RBF)


def test_likelihoods_are_told_unless_all_are_gaussian():
    rng = np.random.default_rng(0)
    y = pd.DataFrame({"a": rng.normal(size=40), "n": rng.poisson(2, 40), "s": rng.choice(["x", "y"], 40)})
    assert arguments.likelihoods_in_words("auto", y[["a"]]) is None
    words = arguments.likelihoods_in_words("auto", y)
    assert words is not None and words.startswith(
        "Likelihoods: gaussian for a; poisson for n; categorical for s. Change them"
    )
    asked = arguments.estimator("SGPBAE", arguments.pairs(['likelihood={n = "negative-binomial"}'])).likelihood
    words = arguments.likelihoods_in_words(asked, y)
    assert words is not None and "negative-binomial for n" in words


def test_settings_follow_the_table_and_yield_to_the_user():
    rng = np.random.default_rng(0)
    small, long = (pd.DataFrame(rng.standard_normal((rows, 5))) for rows in (100, 2000))
    assert "num_warmup" not in arguments.suited("SGPBAE", small)
    found = arguments.suited("SGPBAE", long)
    assert found["latent_dim"] == 5 and found["thinning"] < 10
    assert set(arguments.suited("BAE", long > 0)) == {"num_map_steps", "num_warmup", "num_samples", "thinning"}
    assert arguments.suited("VAE", long) == {}
    assert arguments.estimator("SGPBAE", found | {"thinning": 7}).thinning == 7


def test_what_is_hidden_has_no_say_in_the_settings():
    """A model made anew for what is left is the one that the rest alone would have had, but for what the user said."""
    rng = np.random.default_rng(0)
    left = pd.DataFrame(np.outer(rng.standard_normal(60), np.ones(5)) + 0.01 * rng.standard_normal((60, 5)))
    left.columns = list("abcde")
    full = left + np.where(np.arange(60)[:, None] < 20, 3 * rng.standard_normal((60, 5)), 0.0)
    model = arguments.estimator("SGPBAE", arguments.suited("SGPBAE", full) | {"transform": "none", "seed": 3})
    assert model.latent_dim > 1
    again = arguments.once_more(model, ["transform", "seed"], left)
    assert (again.latent_dim, again.transform, again.seed) == (1, "none", 3)
    assert arguments.once_more(model, ["latent_dim"], left).latent_dim == model.latent_dim
    yes = (left > 0).astype(float)
    assert arguments.once_more(model, [], yes).likelihood == type(model)().likelihood


def test_longer_tables_get_fewer_sweeps():
    runs = [arguments.short_run(rows) for rows in (500, 1500, 5000, 10**6)]
    assert runs[0] == runs[1] == {"num_map_steps": 2000, "num_warmup": 300, "thinning": 10, "num_samples": 25}
    assert all(a[name] >= b[name] for a, b in itertools.pairwise(runs) for name in a)
    assert runs[-1]["num_warmup"] == 60 and runs[-1]["thinning"] == 2


def test_a_column_of_counts_does_not_cost_the_real_ones_their_noises():
    rng = np.random.default_rng(0)
    real = pd.DataFrame(rng.standard_normal((60, 4)), columns=list("abcd"))
    alone, among = (arguments.suited("SGPBAE", y) for y in (real, real.assign(n=rng.poisson(2, 60))))
    assert alone["likelihood"] == among["likelihood"].default and alone["likelihood"].per_column
    assert among["likelihood"].columns == {"n": "auto"} and "latent_dim" in among
