"""The density: named terms, unbiased minibatches, local variables with weight one, derivatives that are derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import checks
from gpbae import autoencoder, networks
from gpbae.likelihoods import Bernoulli, Gaussian
from gpbae.priors import NormalPrior


@pytest.mark.parametrize(("prior", "size"), [("normal", 1), ("sparse", 4), ("deep", 6)])
def test_row_minibatches_are_unbiased_and_latents_have_weight_one(prior, size):
    checks.check_minibatches(prior, False, size)


@pytest.mark.parametrize(("prior", "num_groups"), [("sparse", 2), ("full", 1), ("full, whitened", 2)])
def test_minibatches_of_ragged_groups_are_unbiased_and_latents_have_weight_one(prior, num_groups):
    checks.check_minibatches(prior, True, num_groups)


@pytest.mark.parametrize("prior", checks.PRIORS)
def test_gradient_is_the_derivative_of_the_energy(prior):
    checks.check_gradient_is_the_derivative_of_the_energy(prior, "linear")


def test_gradient_through_an_identity_decoder_is_the_derivative_of_the_energy():
    table = checks.ragged_table(num_columns=2)
    model, table, position = checks.make_model("sparse", "identity", table=table)
    batch = checks.full_batch(table)
    energy = checks.fresh(lambda p: model.energy(p, batch)[0])
    gradient, _ = checks.fresh(model.gradient)(position, batch)
    direction = checks.perturbed(jax.tree.map(jnp.zeros_like, position), 1, 1.0)
    slope = sum(jnp.sum(g * u) for g, u in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    np.testing.assert_allclose(slope, checks.central_difference(energy, position, direction), rtol=1e-6)


def test_named_terms_sum_to_minus_the_energy():
    model, table, position = checks.make_model("sparse")
    energy, terms = checks.fresh(model.energy)(position, checks.full_batch(table))
    assert set(terms) == {
        "decoder prior", "noise prior", "kernel prior", "latent noise prior", "inducing prior", "values", "latents",
        "likelihood",
    }  # fmt: skip
    np.testing.assert_allclose(energy, -sum(terms.values()), rtol=1e-12)


def test_log_joint_of_a_linear_autoencoder_is_that_of_scipy():
    """BAE with a linear decoder, written out by hand over observed cells."""
    model, table, position = checks.make_model(NormalPrior(2), likelihood=Gaussian(noise=0.5))
    terms = model.log_joint(position, checks.full_batch(table))
    phi = model.weight_prior.weights(position.shared["decoder"]).layers[0]
    z, mask = np.asarray(position.local), np.asarray(table.mask)
    eta = z @ np.asarray(phi.weight).T + np.asarray(phi.bias)
    noise = float(jnp.exp(position.shared["likelihood"].log_noise))
    expected = scipy.stats.norm.logpdf(np.asarray(table.y)[mask], eta[mask], noise).sum()
    np.testing.assert_allclose(terms["likelihood"], expected, rtol=1e-10)
    np.testing.assert_allclose(terms["latents"], scipy.stats.norm.logpdf(z).sum(), rtol=1e-10)
    np.testing.assert_allclose(terms["noise prior"], scipy.stats.norm.logpdf(np.log(noise / 0.5)), rtol=1e-10)


@pytest.mark.parametrize("likelihood", [Gaussian(noise=0.5), Bernoulli()], ids=["gaussian", "bernoulli"])
def test_hidden_cells_leave_energy_and_gradient_finite_and_unchanged(likelihood):
    model, table, position = checks.make_model("normal", likelihood=likelihood)
    both = checks.fresh(lambda p, b: (model.energy(p, b)[0], model.gradient(p, b)[0]))
    dirty = both(position, checks.full_batch(table))
    clean = both(position, checks.full_batch(table)._replace(y=jnp.where(table.mask, table.y, 7.0)))
    for a, b in zip(jax.tree.leaves(dirty), jax.tree.leaves(clean), strict=True):
        assert np.all(np.isfinite(a))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["sparse", "full", "deep"])
def test_a_law_made_beforehand_changes_nothing_but_what_it_holds(name):
    model, table, position = checks.make_model(name)
    batch = checks.full_batch(table)
    gradient, terms = checks.fresh(model.gradient)(position, batch)
    law = model.prior.law(position.shared["prior"], batch)
    held, same = checks.fresh(lambda p: model.gradient(p, batch, None, law))(position)
    assert checks.relative_error(same, terms) < 1e-12
    assert not any(np.any(g) for g in jax.tree.leaves(held.shared["prior"]))
    assert any(np.any(g) for g in jax.tree.leaves(gradient.shared["prior"]))
    free = lambda g: (g.shared["decoder"], g.shared["likelihood"], g.values, g.local)  # noqa: E731
    assert checks.relative_error(free(held), free(gradient)) < 1e-10


def test_what_is_held_has_no_gradient_and_changes_no_other():
    model, table, position = checks.make_model("sparse")
    batch = checks.full_batch(table)
    gradient, terms = checks.fresh(model.gradient)(position, batch)
    held, same = checks.fresh(lambda p: model.gradient(p, batch, held=("inducing",)))(position)
    assert checks.relative_error(same, terms) < 1e-12
    assert np.any(gradient.shared["prior"]["inducing"]) and not np.any(held.shared["prior"]["inducing"])
    without = lambda g: g._replace(shared={**g.shared, "prior": g.shared["prior"] | {"inducing": 0.0}})  # noqa: E731
    assert checks.relative_error(without(held), without(gradient)) < 1e-10


def test_a_hidden_row_is_ruled_by_its_prior_alone():
    """Whole rows may be missing: their latent's gradient is that of −log p(z)."""
    table = checks.ragged_table()
    table = table._replace(mask=table.mask.at[3].set(False))
    model, table, position = checks.make_model("normal", table=table)
    gradient, _ = checks.fresh(model.gradient)(position, checks.full_batch(table))
    np.testing.assert_allclose(gradient.local[3], position.local[3], rtol=1e-12)


def test_encoders_see_hidden_cells_as_explained_zeros():
    table = checks.ragged_table()
    encoder = networks.build_encoder("linear", jax.random.key(0), (3,), 2)
    seeds = jnp.zeros((12, encoder.seed_size))
    z = autoencoder.encode_with(encoder, table.y, table.mask, seeds)
    assert np.all(np.isfinite(z)) and z.dtype == jnp.float64
    observed_zeros = autoencoder.encode_with(
        encoder, jnp.where(table.mask, table.y, 0.0), jnp.ones((12, 3), bool), seeds
    )
    gaps = np.any(~np.asarray(table.mask), axis=1)
    assert np.all(np.any(z != observed_zeros, axis=1) == gaps)


def test_encoder_draws_differ_from_key_to_key():
    table = checks.ragged_table()
    encoder = networks.build_encoder("linear", jax.random.key(0), (3,), 2)
    draws = [autoencoder.encode(encoder, table.y, table.mask, jax.random.key(i)) for i in range(2)]
    assert np.all(draws[0] != draws[1])


def test_amortisation_loss_is_the_mean_squared_distance_over_valid_rows():
    table = checks.ragged_table()
    batch = checks.full_batch(table)._replace(valid=jnp.arange(12) < 7)
    encoder = networks.build_encoder("linear", jax.random.key(0), (3,), 2)
    seeds, z = jnp.ones((12, encoder.seed_size)), jnp.ones((12, 2))
    distance = np.sum((np.asarray(autoencoder.encode_with(encoder, table.y, table.mask, seeds)) - 1.0) ** 2, axis=1)
    np.testing.assert_allclose(autoencoder.amortisation_loss(encoder, batch, z, seeds), distance[:7].mean(), rtol=1e-6)
