"""Moves between the steps: what refreshes hyper-parameters and values leaves the posterior as it is."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import checks
from gpbae import gp, networks
from gpbae.kernels import RBF, Embed
from gpbae.sampling import batches, inference, refreshing, sghmc

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


def moves_given_latents(model, table, p, refresh, key):
    """Hyper-parameters, then the values that they leave behind."""
    key_hyper, key_values = jax.random.split(key)
    q, _, info = refreshing.given_latents(model.prior, table, p, refresh, jnp.ones(()), jnp.asarray(False), key_hyper)
    return q._replace(values=refreshing.redraw(model.prior, table, q, jnp.ones(()), key_values)[0]), info


def moves_given_seeds(model, table, p, refresh, key):
    key_seeds, key_values = jax.random.split(key)
    q, _, info = refreshing.given_seeds(
        model, model.prior, table, p, refresh, jnp.ones(()), jnp.asarray(False), key_seeds
    )
    return q._replace(values=refreshing.redraw(model.prior, table, q, jnp.ones(()), key_values)[0]), info


@pytest.mark.parametrize("name", ["sparse", "full"])
@pytest.mark.parametrize("move", [moves_given_latents, moves_given_seeds])
def test_refreshing_leaves_the_joint_law_as_it_is(name, move):
    """Geweke's joint test: draw everything from the model, the data too, move hyper-parameters a few times (given the
    latents, or along with them), and moments of hyper-parameters, values and latents, and of their products, are what
    they were."""
    model, table, position = checks.make_model(name)
    batch = checks.full_batch(table)

    def moments(hyper, values, z):
        kernel, noise = model.prior.hyper_reference.resolve(hyper)
        theta = jnp.concatenate([kernel[0].log_lengthscale, kernel[0].log_variance[None], jnp.log(noise)[None]])
        summary = jnp.log(jnp.mean(z**2, axis=0))
        parts = [theta, theta**2, (theta[:, None] * summary[None]).ravel()]
        if move is moves_given_seeds:
            parts += [summary, z[0] * z[1]]
        if values is not None:
            parts += [values[0, 0], values[0, 0] ** 2, values[0, 0] * z[0, 0]]
        return jnp.concatenate(parts)

    def one(index):
        key_prior, key_data, key_moves = jax.random.split(jax.random.fold_in(jax.random.key(7), index), 3)
        hyper, values, z = prior_draw(model.prior, key_prior, batch)
        here = position._replace(shared={**position.shared, "prior": hyper}, values=values, local=z)
        sd = jnp.exp(here.shared["likelihood"].log_noise)
        y = model.decode(here.shared, z) + sd * jax.random.normal(key_data, table.y.shape, table.y.dtype)
        known = table._replace(y=y.astype(table.y.dtype))
        refresh = refreshing.init(jax.tree.map(jnp.ones_like, hyper), 0.12)

        def body(p, i):
            q, info = move(model, known, p, refresh, jax.random.fold_in(key_moves, i))
            return q, info.acceptance

        q, acceptance = jax.lax.scan(body, here, jnp.arange(3))
        moved = jnp.abs(q.shared["prior"]["log_latent_noise"] - hyper["log_latent_noise"])
        return moments(hyper, values, z), moments(q.shared["prior"], q.values, q.local), jnp.mean(acceptance), moved

    before, after, acceptance, moved = jax.jit(jax.vmap(one))(jnp.arange(3000))
    checks.assert_within_errors(np.asarray(after) - np.asarray(before), 0.0)
    assert 0.3 < np.mean(acceptance) < 0.999
    assert np.mean(moved) > 0.1, "a move that stands still is stationary too"


class DeepWorld:
    """A deep model whose components differ, draws from its prior, and moments that moves must leave as they are."""

    def __init__(self, values_are_local=False):
        model, self.table, self.position = checks.make_model("deep", values_are_local=values_are_local)
        self.prior = dataclasses.replace(model.prior, width=jnp.asarray([2.5]))
        self.model, self.batch = dataclasses.replace(model, prior=self.prior), checks.full_batch(self.table)

    def drawn(self, key):
        """Of every row first the component, then the latents."""
        key_hyper, key_values, key_component, key_latents = jax.random.split(key, 4)
        centre, values = self.prior.init(key_values, len(checks.SIZES))
        leaves, treedef = jax.tree_util.tree_flatten_with_path(centre)
        keys = jax.random.split(key_hyper, len(leaves))
        hyper = jax.tree.unflatten(treedef, [_from_prior(k, *leaf) for k, leaf in zip(keys, leaves, strict=True)])
        values = jax.random.normal(key_values, values.shape)
        law = self.prior.law(hyper, self.batch)
        mean = jax.vmap(lambda p: gp.sparse_mean(p, values, self.batch.slot))(law.projections)
        q = jax.random.randint(key_component, (sum(checks.SIZES),), 0, len(self.prior.seeds))
        rows = jnp.arange(len(q))
        xi = jax.random.normal(key_latents, (len(q), self.prior.latent_dim))
        return hyper, values, mean[q, rows] + jnp.sqrt(law.variance[q, rows]) * xi

    def moments(self, hyper, values, z, y):
        hidden, kernel = hyper["hidden"][0], hyper["kernel"][0]
        u = hidden["values"][0, 0]
        theta = jnp.concatenate([hidden["hyper"]["kernel"][0].log_lengthscale, kernel.log_lengthscale, u,
                                 hyper["log_latent_noise"][None], hyper["inducing"][:, 0]])  # fmt: skip
        summary = jnp.concatenate([jnp.log(jnp.mean(a**2, axis=0)) for a in (z, y)])
        pairs = (u[:, None] * (z[:4] * z[1:5])[None, :, 0]).ravel()
        parts = [theta, theta**2, (theta[:, None] * summary[None]).ravel(), values[0, 0], values[0, 0] ** 2,
                 values[0, 0] * z[0, 0], z.mean(axis=0), pairs]  # fmt: skip
        return jnp.concatenate(parts)


BATCHINGS = {"all rows": batches.FullBatch(), "some rows": batches.RowBatch(4), "whole groups": batches.GroupBatch(1)}


@pytest.mark.parametrize("name", BATCHINGS)
def test_sweeps_of_a_deep_prior_leave_the_joint_law_as_it_is(name):
    """Geweke's joint test of whole sweeps, of which the sampler's own steps are too small to be seen: what is left are
    components of rows, hidden layers, kernels, inducing inputs, values, and latents that follow their seeds."""
    batching = BATCHINGS[name]
    world = DeepWorld(batching.values_are_local)
    plan = inference.Plan(batching, 1, 0, False, refresh=True, collapsed=batching.is_exact)
    encoder = networks.build_encoder("linear", jax.random.key(2), (world.table.y.shape[1],), world.prior.latent_dim)
    weights, static = eqx.partition(encoder, eqx.is_inexact_array)

    def one(index):
        key_prior, key_data, key_chain = jax.random.split(jax.random.fold_in(jax.random.key(9), index), 3)
        hyper, values, z = world.drawn(key_prior)
        shared = {**world.position.shared, "prior": hyper}
        sd = jnp.exp(shared["likelihood"].log_noise)
        y = world.model.decode(shared, z) + sd * jax.random.normal(key_data, world.table.y.shape, world.table.y.dtype)
        inside = plan.collapsed
        position = world.position._replace(shared=shared, values=None if inside else values, local=z)
        sampler = sghmc.init(position, jax.tree.map(jnp.ones_like, position))
        chain = inference.Chain(sampler, weights, inference.optimiser(plan).init(weights),
                                refreshing.init(sampler.scale.shared["prior"]), values if inside else None, key_chain,
                                jnp.zeros((), jnp.int64))  # fmt: skip
        noise = None if batching.is_exact else jax.tree.map(jnp.zeros_like, position)
        settings = sghmc.Settings(jnp.asarray(1e-9), jnp.asarray(0.05), jnp.ones(()), noise)

        def body(c, _):
            table = world.table._replace(y=y.astype(world.table.y.dtype))
            return inference._sweep(world.model, plan, table, static, settings, jnp.asarray(False), c)

        end, report = jax.lax.scan(body, chain, None, length=3)
        p, drawn = end.sampler.position, end.values if inside else end.sampler.position.values
        after = world.moments(p.shared["prior"], drawn, p.local, y)
        return world.moments(hyper, values, z, y), after, report.acceptance, jnp.abs(drawn - values)

    before, after, acceptance, moved = jax.jit(jax.vmap(one))(jnp.arange(1500))
    checks.assert_within_errors(np.asarray(after) - np.asarray(before), 0.0)
    assert 0.3 < np.mean(acceptance) < 0.999
    assert np.mean(moved) > 0.1, "values that are never drawn anew are stationary too"


def test_of_which_component_a_row_is_has_its_law_given_everything_else():
    """Of 4000 draws as many are of a component as Bayes' rule says, row by row."""
    model, table, position = checks.make_model("deep")
    hyper, batch = checks.perturbed(position.shared["prior"], size=0.5), checks.full_batch(table)
    prior = dataclasses.replace(model.prior, width=jnp.asarray([2.0]))
    law = prior.law(hyper, batch)
    mean = np.asarray(jax.vmap(lambda p: gp.sparse_mean(p, position.values, batch.slot))(law.projections))
    each = scipy.stats.norm.logpdf(position.local, mean, np.sqrt(law.variance)).sum(axis=-1)
    expected = scipy.special.softmax(each, axis=0)
    assert np.ptp(expected) > 0.3, "components that are all alike would prove nothing"
    one = jnp.ones(())
    draw = lambda k: prior.conjugate(k, hyper, position.values, batch, position.local, one).seeds[0, :, 0]  # noqa: E731
    drawn = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), 4000))
    hits = np.asarray(drawn)[:, None] == np.asarray(prior.seeds)[None, :, 0]
    error = np.sqrt(expected * (1 - expected) / 4000) + 1e-9
    assert np.all(np.abs(hits.mean(axis=0) - expected) < 4.5 * error + 1e-4)


def _from_prior(key, path, a):
    """A leaf of the hyper-parameters: log-normal around where it starts, or logistic, or standard normal."""
    names = [getattr(k, "name", getattr(k, "key", "")) for k in path]
    if names[-1] == "inducing":
        return jax.random.logistic(key, a.shape, a.dtype)
    if names[-1] == "values":
        return jax.random.normal(key, a.shape, a.dtype)
    return a + (1.0 if names[-1] == "log_lengthscale" else 0.5) * jax.random.normal(key, a.shape, a.dtype)


def test_vectors_of_labels_stay_with_the_sampler():
    """They are latents of their own, so a kernel that has some is not held; inducing inputs always are."""
    plain, labelled = (RBF(lengthscale=1.0),), (Embed(RBF(lengthscale=1.0), 0, 3, 2),)
    hyper = {"kernel": plain, "log_latent_noise": jnp.zeros(()), "inducing": jnp.zeros((4, 2)), "other": jnp.zeros(2)}
    assert set(refreshing.held(hyper, woven=True)) == {"kernel", "log_latent_noise", "inducing"}
    assert set(refreshing.held({**hyper, "kernel": labelled}, woven=True)) == {"inducing"}
    assert set(refreshing.held(hyper, woven=False)) == {"inducing"}
    assert set(refreshing.refreshed({**hyper, "kernel": labelled})) == {"kernel", "log_latent_noise", "inducing"}
