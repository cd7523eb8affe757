"""What batches stand for, and what gaps do not: with codes of almost no spread the loss of a step is a number.

Every batch that can be drawn is, so that means over batches are those of the table and not estimates.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpbae import networks
from gpbae.baselines.latents import Exact, FreeSparse, Independent, Sparse
from gpbae.baselines.product import LowRank, Memory, remembered_bound
from gpbae.baselines.variational import VariationalAutoencoder, negative_bound
from gpbae.kernels import RBF
from gpbae.likelihoods import Gaussian
from gpbae.sampling.batches import FullBatch, GroupBatch, RowBatch, Table
from passing import NOISE, Passing

KERNELS = (RBF(lengthscale=0.9),)
INDUCING = jnp.linspace(0, 3, 8)[:, None]  # so many that they leave codes no spread of their own
SMALL_NOISE = 0.2  # log N(0; 0, 0.4²) is nearly zero by chance, and a likelihood of nothing may count as it likes
SMALLEST = jnp.asarray(-12.0)  # the logarithm of the smallest variance that codes can have
LAWS = {"VAE": Independent(), "GPVAE": Exact(KERNELS, True), "SGP-VAE": Sparse(KERNELS, INDUCING, True)}


def table_of(num_groups, length, seed=0):
    x, y = np.random.default_rng(seed).uniform(0, 3, (2, num_groups * length, 1))
    rows = jnp.arange(num_groups * length).reshape(num_groups, length)
    return Table(jnp.asarray(x), jnp.asarray(y), jnp.ones(y.shape, bool), jnp.repeat(jnp.arange(num_groups), length),
                 rows)  # fmt: skip


def model_of(law, log_variance=SMALLEST):
    return VariationalAutoencoder(Passing(log_variance), networks.IdentityDecoder(), Gaussian(SMALL_NOISE), law)


def losses(loss, model, table, batching, memory=None):
    """Of steps with many keys: those of all batches there are."""
    some = eqx.filter_jit(jax.vmap(lambda key: loss(model, table, batching, memory, key)[0]))
    return np.asarray(some(jax.random.split(jax.random.key(0), 64)))


def different(values, num):
    """One of each kind, of values that differ by more than the spread of codes within a kind."""
    ordered = np.sort(values)
    kinds = np.split(ordered, np.sort(np.argsort(np.diff(ordered))[1 - num :]) + 1)
    assert max(np.ptp(kind) for kind in kinds) < 0.1 * np.diff(ordered).max()
    return np.array([kind.mean() for kind in kinds])


@pytest.mark.parametrize("law", LAWS)
def test_whole_groups_in_batches_have_the_bound_of_the_table_on_average(law):
    """Likelihood and divergence both count G/g times, and q(v) of a group is not widened: nothing of it is missing."""
    table, model = table_of(3, 2), model_of(LAWS[law])
    whole = losses(negative_bound, model, table, FullBatch())
    parts = different(losses(negative_bound, model, table, GroupBatch(1)), 3)
    assert parts.mean() == pytest.approx(whole.mean(), rel=5e-3)


def test_rows_in_batches_have_the_bound_of_independent_latents_on_average():
    table, model = table_of(1, 4), model_of(Independent())
    parts = different(losses(negative_bound, model, table, RowBatch(1)), 4)
    assert parts.mean() == pytest.approx(losses(negative_bound, model, table, FullBatch()).mean(), rel=5e-3)


def test_a_batch_of_rows_stands_for_the_table_in_a_sparse_law():
    """Half of the rows, counted twice in q(v), are a table in which they stand twice."""
    half, model = table_of(1, 4), model_of(LAWS["SGP-VAE"], jnp.asarray(2 * np.log(NOISE)))
    twice = Table(*(jnp.concatenate([a, a]) for a in half[:4]), jnp.arange(8)[None])
    a, b = (eqx.filter_jit(lambda m, t, w: m.bound(_batch(t, w), w, jax.random.key(0)))(model, t, w)
            for t, w in ((half, False), (twice, True)))  # fmt: skip
    np.testing.assert_allclose(a.divergence, b.divergence, rtol=1e-6)


def _batch(table, is_whole):
    """All rows, as a table or as a batch of one twice as long."""
    batch = FullBatch().batch(table, FullBatch().select(jax.random.key(0), table))
    return batch if is_whole else batch._replace(scale=jnp.asarray(2.0))


def test_rows_in_batches_have_the_bound_of_a_free_law_on_average():
    """Its divergence is that of parameters, and counts once."""
    law = FreeSparse((RBF(lengthscale=500.0),), INDUCING, jnp.ones((1, 1, 8)), -9 * jnp.eye(8)[None, None], True)
    table, model = table_of(1, 4), eqx.tree_at(lambda m: m.encoder, model_of(law), None)
    parts = different(losses(negative_bound, model, table, RowBatch(1)), 4)
    assert parts.mean() == pytest.approx(losses(negative_bound, model, table, FullBatch()).mean(), rel=5e-3)


def product_model(table):
    """GPPVAE's model and what its encoder says of the table."""
    law = LowRank(KERNELS, INDUCING, jnp.log(jnp.asarray(0.4)), True)
    return model_of(law), Memory(table.y, jnp.full(table.y.shape, jnp.exp(SMALLEST)))


def test_rows_in_batches_have_the_bound_of_a_product_process_on_average():
    table = table_of(1, 4)
    model, memory = product_model(table)
    parts = losses(remembered_bound, model, table, RowBatch(1), memory)  # rows are as remembered: all batches are alike
    np.testing.assert_allclose(parts, losses(remembered_bound, model, table, FullBatch(), memory).mean(), rtol=5e-3)


@pytest.mark.parametrize("law", [*LAWS, "GPPVAE"])
def test_a_row_without_an_observed_cell_is_no_row(law):
    """It has no likelihood, no pseudo-observation and no divergence."""
    table = table_of(1, 5)
    hidden = table._replace(mask=table.mask.at[2].set(False))
    left = Table(*(jnp.delete(a, 2, axis=0) for a in table[:4]), jnp.arange(4)[None])
    found = []
    for rows in (hidden, left):
        model, memory = product_model(rows)
        loss, model = (remembered_bound, model) if law == "GPPVAE" else (negative_bound, model_of(LAWS[law]))
        found.append(rows.x.shape[0] * losses(loss, model, rows, FullBatch(), memory).mean())
    assert found[0] == pytest.approx(found[1], rel=5e-3)


@pytest.mark.parametrize("learned", [True, False])
def test_what_is_learned_is_what_was_asked_for(learned):
    for law in (Exact(KERNELS, learned), Sparse(KERNELS, INDUCING, learned)):
        model = eqx.tree_at(lambda m: m.likelihood, model_of(law), Gaussian(NOISE, learn_noise=learned))
        marked = model.trained()
        assert set(jax.tree.leaves(marked.latents.kernels)) == {learned}
        assert marked.likelihood.log_noise == learned and marked.encoder.log_variance
