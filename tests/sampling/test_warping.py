"""Where deep priors begin: a warp that the starting latents speak of, and which models move hidden layers by it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpbae import DSGPBAE
from gpbae.kernels import RBF
from gpbae.sampling import refreshing, warping

QUICK = dict(latent_dim=1, decoder="identity", encoder="linear", num_inducing=12, progress=False)
NUM = 60


def quiet_and_fast():
    """x, and a path that turns eight times as fast in a fifth of it, of which a row in three is not there."""
    x = np.linspace(0, 1, NUM)
    clock = x + 7 * np.clip(x - 0.4, 0.0, 0.2)
    return x[:, None], np.sin(5 * clock)[:, None]


def prepared(x, y, groups=None, **changes):
    return DSGPBAE(**QUICK | changes)._prepare(x, y, groups)


def collapsed(prior, hyper, table, z):
    """log p(z, hyper) with values integrated out, all rows of the first component."""
    seeds = jnp.broadcast_to(prior.seeds[0][:, None], (len(prior.hidden), len(z), table.x.shape[1]))
    told = prior.given(seeds)
    law = told.law(hyper, refreshing.whole(table))
    return float(law.log_collapsed(z, jnp.ones(())) + refreshing.log_prior(told, hyper))


@pytest.mark.parametrize("num_layers", [2, 3])
def test_a_start_is_likelier_than_none_and_turns_the_clock_faster_where_the_path_is_fast(num_layers):
    x, y = quiet_and_fast()
    model, _, table, _, _, z = prepared(x, y, num_layers=num_layers)
    prior = model.prior
    flat, _ = warping.dataclasses.replace(prior, hyper_start=None).init(jax.random.key(0), 1)
    found, values = prior.init(jax.random.key(0), 1)
    assert collapsed(prior, found, table, jnp.asarray(z)) > collapsed(prior, flat, table, jnp.asarray(z)) + 20
    assert jax.tree.structure(found) == jax.tree.structure(flat)
    h = np.asarray(prior.propagate(found, table.x))[0, :, 0]
    slope = np.abs(np.gradient(h, x[:, 0]))
    inside = (x[:, 0] > 0.42) & (x[:, 0] < 0.58)
    assert slope[inside].mean() > 2 * slope[~inside].mean()
    assert not np.any(values)


def test_hidden_kernels_and_noises_start_where_their_priors_are():
    """They were held, or were those of the climb alone."""
    prior = prepared(*quiet_and_fast(), sample_latent_noise=True)[0].prior
    found, flat = prior.hyper_start, warping.dataclasses.replace(prior, hyper_start=None).init(jax.random.key(0), 1)[0]
    begun, plain = found["hidden"][0], flat["hidden"][0]
    assert begun["hyper"]["kernel"] == plain["hyper"]["kernel"]
    assert found["log_latent_noise"] == flat["log_latent_noise"]
    assert begun["hyper"]["log_latent_noise"] == plain["hyper"]["log_latent_noise"]
    assert np.any(begun["values"] != 0) and found["kernel"][0].log_lengthscale != flat["kernel"][0].log_lengthscale


def test_kernels_that_are_told_stay():
    prior = prepared(*quiet_and_fast(), kernel=RBF(lengthscale=0.2), sample_hyperparameters=False)[0].prior
    assert jax.tree.leaves(prior.hyper_start["kernel"]) == []
    assert np.any(prior.hyper_start["hidden"][0]["values"] != 0)


ODD = {
    "one row": (np.zeros((1, 1)), None),
    "copies of one x": (np.zeros((9, 1)), None),
    "a constant column": (np.column_stack([np.linspace(0, 1, 9), np.ones(9)]), None),
    "groups": (np.linspace(0, 1, 9)[:, None], np.repeat(["a", "b", "c"], 3)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_tables_have_a_finite_start(name):
    x, groups = ODD[name]
    y = np.random.default_rng(0).standard_normal((len(x), 1))
    found, _ = prepared(x, y, groups)[0].prior.init(jax.random.key(0), 1)
    assert all(np.all(np.isfinite(a)) for a in jax.tree.leaves(found))


def test_a_long_table_is_seen_from_end_to_end():
    rng, largest = np.random.default_rng(0), warping.LARGEST_SUBSAMPLE
    rows = warping._rows(np.zeros(2 * largest - 1, int), rng)
    assert len(rows) == largest and (rows.min(), rows.max()) == (0, 2 * largest - 2)
    assert np.diff(np.sort(rows)).max() <= 3
    codes = np.arange(4 * largest) % 8
    chosen = warping._rows(codes, rng)
    assert len(chosen) == largest and all(np.sum(codes[chosen] == g) == largest // 2 for g in np.unique(codes[chosen]))
    assert sorted(warping._rows(np.arange(9) % 2, rng)) == list(range(9))


PLANS = {
    "all rows": ({}, (True, True)),
    "some rows": (dict(batch_size=20), (True, False)),
    "some of many rows": (dict(batch_size=20, latent_dim=400, decoder="linear"), (False, False)),
    "all of many rows": (dict(latent_dim=400, decoder="linear"), (True, True)),
    "tempered": (dict(temperature=0.5), (False, False)),
    "born anew": (dict(latents="amortised"), (False, False)),
    "one layer": (dict(num_layers=1, temperature=0.5), (True, True)),
}


@pytest.mark.parametrize("name", PLANS)
def test_values_are_integrated_out_where_auxiliary_variables_have_the_right_law(name):
    arguments, expected = PLANS[name]
    plan = prepared(*quiet_and_fast(), **arguments)[1]
    assert (plan.refresh, plan.collapsed) == expected
