"""Moves between the steps: what refreshes hyper-parameters and values leaves the posterior as it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import checks
from gpbae import gp, inference, networks
from gpbae.batches import FullBatch

OPTIMISED = True


def prior_draw(prior, key, batch):
    """Hyper-parameters, values and latents from the prior: log-normal kernels, logistic coordinates of S."""
    key_hyper, key_inducing, key_values, key_latents = jax.random.split(key, 4)
    centre, values = prior.init(key_values, len(checks.SIZES))
    sd = {"log_lengthscale": 1.0}
    leaves, treedef = jax.tree_util.tree_flatten_with_path(centre)
    keys = jax.random.split(key_hyper, len(leaves))
    drawn = [
        a + sd.get(getattr(path[-1], "name", ""), 0.5) * jax.random.normal(k, a.shape, a.dtype)
        for k, (path, a) in zip(keys, leaves, strict=True)
    ]
    hyper = jax.tree.unflatten(treedef, drawn)
    if "inducing" in hyper:
        hyper["inducing"] = jax.random.logistic(key_inducing, hyper["inducing"].shape, hyper["inducing"].dtype)
    xi = jax.random.normal(key_latents, (sum(checks.SIZES), prior.latent_dim))
    if values is None:
        return hyper, None, gp.scatter(jnp.einsum("gknm,gmc->gnc", prior.law(hyper, batch).factor,
                                                  gp.gather(xi, batch.blocks)), batch.blocks, len(xi))  # fmt: skip
    values = jax.random.normal(key_values, values.shape)
    projection, variance = prior.project(hyper, batch.x)
    return hyper, values, gp.sparse_mean(projection, values, batch.slot) + jnp.sqrt(variance) * xi


@pytest.mark.parametrize("name", ["sparse", "full"])
def test_refreshing_leaves_the_joint_prior_as_it_is(name):
    """Geweke's joint test: draw everything from the prior, refresh hyper-parameters and values given the latents a few
    times, and moments of all three, and of their products, are what they were."""
    model, table, position = checks.make_model(name)
    batch, plan = checks.full_batch(table), checks.make_plan(FullBatch())
    encoder = networks.build_encoder("linear", jax.random.key(2), (table.y.shape[1],), 2)
    chain = checks.make_chain(model, plan, table, position, encoder)

    def moments(hyper, values, z):
        kernel, noise = model.prior.hyper_reference.resolve(hyper)
        theta = jnp.concatenate([kernel[0].log_lengthscale, kernel[0].log_variance[None], jnp.log(noise)[None]])
        summary = jnp.log(jnp.mean(z**2, axis=0))
        parts = [theta, theta**2, (theta[:, None] * summary[None]).ravel()]
        if values is not None:
            parts += [values[0, 0], values[0, 0] ** 2, values[0, 0] * z[0, 0]]
        return jnp.concatenate(parts)

    def one(index):
        key_prior, key_moves = jax.random.split(jax.random.fold_in(jax.random.key(7), index))
        hyper, values, z = prior_draw(model.prior, key_prior, batch)
        p = chain.sampler.position
        here = p._replace(shared={**p.shared, "prior": hyper}, values=values, local=z)
        refresh = chain.refresh._replace(log_step=jnp.asarray(-1.4, jnp.float64))
        start = chain._replace(sampler=chain.sampler._replace(position=here), refresh=refresh)

        def move(c, i):
            key_hyper, key_values = jax.random.split(jax.random.fold_in(key_moves, i))
            c, info = inference._refresh(model, table, c, checks.settings(0.1), jnp.asarray(False), key_hyper)
            p = c.sampler.position
            values, _ = inference._redraw(model, table, p, jnp.ones(()), key_values)
            return c._replace(sampler=c.sampler._replace(position=p._replace(values=values))), info.acceptance

        end, acceptance = jax.lax.scan(move, start, jnp.arange(3))
        q = end.sampler.position
        moved = jnp.abs(q.shared["prior"]["log_latent_noise"] - hyper["log_latent_noise"])
        return moments(hyper, values, z), moments(q.shared["prior"], q.values, z), jnp.mean(acceptance), moved

    before, after, acceptance, moved = jax.jit(jax.vmap(one))(jnp.arange(3000))
    checks.assert_within_errors(np.asarray(after) - np.asarray(before), 0.0)
    assert 0.3 < np.mean(acceptance) < 0.999
    assert np.mean(moved) > 0.1, "a move that stands still is stationary too"
