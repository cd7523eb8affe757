"""Columns with a path of their own: beside what columns share, one latent that no other column sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from gpbae import BAE, SGPBAE, load
from gpbae.errors import InputError
from gpbae.kernels import RBF, Matern32
from gpbae.networks import MLP, Private
from gpbae.sampling import start

RNG = np.random.default_rng(0)
X = np.linspace(0, 10, 60)[:, None]


def test_a_private_latent_moves_its_own_column_only():
    decoder = Private(MLP((4,))).decoder(jax.random.key(0), 2 + 3, (3,))
    z = jnp.asarray(RNG.normal(size=5), jnp.float32)
    slopes = np.asarray(jax.jacobian(decoder)(z))
    np.testing.assert_array_equal(slopes[:, 2:], np.diag(np.asarray(decoder.scale)))
    np.testing.assert_allclose(decoder(z) - decoder.scale * z[2:], decoder.shared(z[:2]), atol=1e-6)


def test_starting_latents_together_say_all_of_the_table():
    values, mask = RNG.normal(size=(40, 3)), RNG.random((40, 3)) < 0.8
    z = start.private_latents(values, mask, 1, RNG)
    for column, seen in enumerate(mask.T):
        own = z[seen][:, [0, 1 + column]]
        told, *_ = np.linalg.lstsq(own, values[seen, column], rcond=None)
        np.testing.assert_allclose(own @ told, values[seen, column], atol=1e-8)
    np.testing.assert_array_equal(z[:, 1:][~mask], 0.0)


def test_every_latent_has_a_kernel_of_its_own():
    private = SGPBAE(latent_dim=1, decoder=Private())._given_kernels(4)
    assert len(private) == 4 and all(isinstance(k, Matern32) for k in private)
    assert len(SGPBAE(kernel=RBF(), decoder=Private())._given_kernels(4)) == 4
    assert len(SGPBAE(kernel=RBF())._given_kernels(4)) == 1


REFUSED = {
    "no inputs": (BAE, RNG.normal(size=(60, 2))),
    "classes": (SGPBAE, pd.DataFrame({"a": RNG.normal(size=60), "kind": pd.Categorical(list("abc") * 20)})),
    "pixels": (SGPBAE, RNG.normal(size=(60, 9, 9))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_paths_need_inputs_and_one_output_for_each_of_a_few_columns(name):
    model, y = REFUSED[name]
    with pytest.raises(InputError, match="Private"):
        model(decoder=Private()).fit(X, y)


def test_gaps_do_not_make_a_path_look_rough():
    """A third of the cells hidden: private kernels start at no less than a tenth of the whole table's lengthscales."""
    x = np.linspace(0, 10, 150)[:, None]
    waves = np.column_stack([np.sin(0.9 * x[:, 0] + phase) for phase in (0.0, 1.0, 2.2)])
    whole = waves * (1.0, 0.9, 1.1) + 0.3 * np.cos(np.outer(x[:, 0], (1.1, 1.3, 0.7)))
    seen = np.where(RNG.random(whole.shape) < 0.33, np.nan, whole)

    def lengthscales(y):
        kernels = SGPBAE(latent_dim=1, decoder=Private())._prepare(x, y, None)[0].prior.hyper_reference.kernels
        return np.array([float(np.exp(k.log_lengthscale[0])) for k in kernels[1:]])

    ratio = lengthscales(seen) / lengthscales(whole)
    assert np.all((ratio > 0.1) & (ratio < 10))


@pytest.fixture(scope="module")
def table():
    """Two columns that go together, and one on a path of its own, with every sixth cell of it hidden."""
    together, alone = np.sin(X[:, 0]), np.cos(2.1 * X[:, 0] + 1)
    y = np.column_stack([together, -together, alone]) + 0.05 * RNG.standard_normal((60, 3))
    seen = y.copy()
    seen[::6, 2] = np.nan
    return pd.DataFrame(y, columns=list("abc")), pd.DataFrame(seen, columns=list("abc"))


@pytest.fixture(scope="module")
def model(table):
    return SGPBAE(latent_dim=1, decoder=Private(), num_inducing=16, num_chains=2, num_warmup=12, num_samples=6,
                  thinning=2, num_map_steps=300, encoder_steps=5, progress=False).fit(X, table[1])  # fmt: skip


def test_latents_of_rows_are_those_that_columns_share(model, table):
    assert (model.latent_dim_, model.num_shared_) == (4, 1)
    assert list(model.encode(X, table[1]).mean.columns) == ["latent0"]


def test_hyper_parameters_of_a_path_are_named_after_its_column(model):
    assert "path of c.Matern32.variance" in model.scalars_() and "latent3.Matern32.variance" not in model.scalars_()
    assert {"Matern32 variance, latent 0", "Matern32 variance, path of c"} <= set(model.diagnostics().index)


def test_private_latents_are_never_turned_into_others(model):
    turns = model.rotations_
    np.testing.assert_array_equal(turns[..., :1, 1:], 0.0)
    np.testing.assert_array_equal(np.abs(turns[..., 1:, 1:]), np.broadcast_to(np.eye(3), (2, 6, 3, 3)))


def test_a_path_that_one_column_follows_is_found(model, table):
    """One shared latent cannot say two paths; interpolation of the third column alone would do."""
    whole, seen = table
    hidden = seen["c"].isna()
    error = (model.impute(X, seen).filled["c"] - whole["c"])[hidden]
    assert np.sqrt(np.mean(error**2)) < 0.5 * whole["c"].std()


def test_a_saved_model_with_private_paths_answers_the_same(model, tmp_path):
    model.save(tmp_path / "kept")
    again = load(tmp_path / "kept")
    assert again.decoder == Private()
    np.testing.assert_array_equal(again.predict(X[:4]).mean, model.predict(X[:4]).mean)
