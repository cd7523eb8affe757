"""What can be asked of the draws: pure maps over them.  One draw is one pytree; nothing here touches a chain."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from gpbae import autoencoder, gp
from gpbae.answering import guessing
from gpbae.autoencoder import Autoencoder, Position
from gpbae.linalg import cholesky_with_level
from gpbae.priors import Batch, FullPrior, Memory, NormalPrior, Query, SparsePrior
from gpbae.sampling import hmc, redraw
from gpbae.sampling.batches import FullBatch, Table

NUM_BURN_IN = 60
NUM_LEAPFROG = 8


class Rows(NamedTuple):
    """Observations, arranged like the query they belong to."""

    y: Float[Array, "*rows P"]
    mask: Bool[Array, "*rows P"]


class LatentAnswer(NamedTuple):
    """Per draw: latent means given that draw, R draws of the latents, and the decoder's outputs for them."""

    latent_mean: Float[Array, "S G q C"]
    latents: Float[Array, "S R G q C"]
    eta: Float[Array, "S R G q H"]


def memory(model: Autoencoder, draw: Position, table: Table) -> Memory | None:
    """The training latents an exact GP conditions on; other priors remember through their values."""
    if not model.prior.couples_rows:
        return None
    batch = _full(table)
    z = model.prior.law(draw.shared["prior"], batch).latents(draw.local)
    blocks = table.group_rows
    return Memory(gp.gather(table.x, blocks), gp.gather(batch.valid, blocks), gp.gather(z, blocks))


def _full(table: Table) -> Batch:
    batching = FullBatch()
    return batching.batch(table, batching.select(jax.random.key(0), table))


def _block_values(key: Key[Array, ""], values: Any, query: Query) -> Any:
    """The values of each query block's group; a group never seen gets a draw from the prior."""
    if values is None:
        return None
    fitted = values[query.slot]
    fresh = jax.random.normal(key, fitted.shape, fitted.dtype)
    return jnp.where(query.known[:, None, None], fitted, fresh)


def _decode(model: Autoencoder, shared: dict[str, Any], z: Float[Array, "*lead C"]) -> Float[Array, "*lead H"]:
    return model.decode(shared, z.reshape(-1, z.shape[-1])).reshape(*z.shape[:-1], -1)


def _expose(model: Autoencoder, shared: dict[str, Any], eta: Float[Array, "*lead H"], rows: Any):
    """η of rows some of whose cells are known."""
    return model.observe(shared).expose(eta, rows.y.astype(eta.dtype), rows.mask)


@eqx.filter_jit
def predict(
    model: Autoencoder, draws: Position, table: Table, query: Query, key: Key[Array, ""], num_latents: int
) -> LatentAnswer:
    """Draws of z and η at new inputs, `num_latents` for every draw of the model."""

    def one(item):
        draw, k = item
        key_values, key_component, key_latents = jax.random.split(k, 3)
        values = _block_values(key_values, draw.values, query)
        law = model.prior.marginals(draw.shared["prior"], values, memory(model, draw, table), query)
        component = _components(key_component, law.mean.shape[0], num_latents)
        mean, sd = law.mean[component], jnp.sqrt(law.variance[component])
        z = mean + sd * jax.random.normal(key_latents, mean.shape, mean.dtype)
        return LatentAnswer(jnp.mean(law.mean, axis=0), z, _decode(model, draw.shared, z))

    return jax.lax.map(one, (draws, _keys(key, draws)))


@eqx.filter_jit
def warped(
    model: Autoencoder, draws: Position, x: Float[Array, "N D"], rows: Float[Array, "R D"]
) -> Float[Array, "S Q N D"]:
    """What hidden layers make of inputs, once for every draw and seed of theirs, with the location, the spread and the
    direction that some rows have among themselves."""
    centre, width = jnp.mean(rows, axis=0)[None, None], jnp.std(rows, axis=0)[None, None]

    def one(draw):
        h, at_rows = (model.prior.propagate(draw.shared["prior"], a) for a in (x, rows))
        middle = jnp.mean(at_rows, axis=1, keepdims=True)
        spread = jnp.std(at_rows, axis=1, keepdims=True)
        along = jnp.sum((at_rows - middle) * (rows[None] - centre), axis=1, keepdims=True)
        ratio = jnp.where(spread > 0, width / jnp.where(spread > 0, spread, 1.0), 1.0)
        return centre + jnp.where(along < 0, -ratio, ratio) * (h - middle)

    return jax.lax.map(one, draws)


def _components(key: Key[Array, ""], num_components: int, num: int) -> Int[Array, " R"]:
    """Components of an equal mixture to draw from: each as likely as any, none twice before all came once."""
    order = jax.random.permutation(key, num_components)
    return order[jnp.arange(num) % num_components]


@eqx.filter_jit
def sample_paths(
    model: Autoencoder, draws: Position, table: Table, query: Query, key: Key[Array, ""]
) -> tuple[Float[Array, "S G q C"], Float[Array, "S G q H"]]:
    """Joint draws of z, and η, along each block of the query: one path for every draw."""

    def one(item):
        draw, k = item
        key_values, key_path = jax.random.split(k)
        values = _block_values(key_values, draw.values, query)
        z = model.prior.path(key_path, draw.shared["prior"], values, memory(model, draw, table), query)
        return z, _decode(model, draw.shared, z)

    return jax.lax.map(one, (draws, _keys(key, draws)))


@eqx.filter_jit
def decode_training(
    model: Autoencoder, draws: Position, table: Table, rows: Int[Array, " n"] | None = None,
    key: Key[Array, ""] | None = None,
) -> tuple[Float[Array, "S n C"], Float[Array, "S n H"]]:  # fmt: skip
    """Latents and η of the training rows themselves, or of some of them, whose latents the chain sampled.

    With a key, and where rows are independent given a draw, latents are drawn anew given the draw (`redraw`).
    """
    seen = Rows(table.y, table.mask) if rows is None else Rows(table.y[rows], table.mask[rows])
    N, P = table.y.shape
    anew = key is not None and _independent_rows(model) and redraw.is_possible(N, P, model.prior.latent_dim)

    def one(item):
        draw, k = item
        z = model.prior.law(draw.shared["prior"], _full(table)).latents(draw.local)
        z = _redrawn(k, model, draw, table, z) if anew else z
        z = z if rows is None else z[rows]
        return z, _expose(model, draw.shared, model.decode(draw.shared, z), seen)

    return jax.lax.map(one, (draws, _keys(jax.random.key(0) if key is None else key, draws)))


@eqx.filter_jit
def explained_by_inputs(
    model: Autoencoder, draws: Position, table: Table, rows: Int[Array, " n"]
) -> Float[Array, " S"]:
    """Of the variance of η over some training rows, averaged over its columns, the share that stays when latents are
    put where the GP values of their group say; draw by draw, for a sparse prior."""
    prior = model.prior
    assert isinstance(prior, SparsePrior)

    def one(draw):
        hyper = draw.shared["prior"]
        z = prior.law(hyper, _full(table)).latents(draw.local)[rows]
        projection, _ = prior.project(hyper, table.x[rows])
        mean = gp.sparse_mean(projection, draw.values, table.group[rows])
        eta, said = (model.decode(draw.shared, a).astype(jnp.float64) for a in (z, mean))
        spread = jnp.var(eta, axis=0)
        lost = jnp.where(spread > 0, jnp.var(eta - said, axis=0) / jnp.where(spread > 0, spread, 1.0), 0.0)
        return 1.0 - jnp.mean(jnp.minimum(lost, 1.0))

    return jax.lax.map(one, draws)


def _independent_rows(model: Autoencoder) -> bool:
    """Whether rows are independent given a draw, with one normal law each."""
    return isinstance(model.prior, SparsePrior | NormalPrior)


def _redrawn(key, model, draw, table, z):
    """Each row with the values of its own group."""
    return redraw.redraw(key, z, *_row_laws(model, draw, table))


def _row_laws(model, draw, table):
    """Mean and variance of every row's latents given a draw, and how they are decoded and observed."""
    N = len(table.y)
    query = Query(table.x[:, None], table.group, jnp.ones(N, bool), jnp.ones((N, 1), bool))
    values = None if draw.values is None else draw.values[table.group]
    law = model.prior.marginals(draw.shared["prior"], values, None, query)
    likelihood = model.observe(draw.shared)
    mean = law.mean[0, :, 0]
    variance = jnp.broadcast_to(law.variance[0, :, 0], mean.shape)

    def log_prob(eta):
        y = table.y.astype(eta.dtype)
        return likelihood.log_prob(y, table.mask, likelihood.expose(eta, y, table.mask))

    return mean, variance, lambda z: model.decode(draw.shared, z), log_prob


def can_place(model: Autoencoder) -> bool:
    """Whether `place` knows how: rows are independent given a draw."""
    return _independent_rows(model)


@eqx.filter_jit
def place(
    model: Autoencoder, draws: Position, table: Table, encoders: PyTree, key: Key[Array, ""]
) -> tuple[Float[Array, "c d n C"], Float[Array, "c d n H"]]:
    """Latents under p(z | y observed, x, draw) and η of rows never seen, given as a table of rows of known groups.

    For many rows: one normal law per row and draw, corrected by Metropolis moves (`redraw.place`), instead of the
    trajectories of `refine`.  Draws have axes (chain, draw).
    """
    seen = model.presented(table)

    def one_chain(item):
        chain_draws, encoder, k = item
        key_guess, key_rest = jax.random.split(k)
        guess = autoencoder.encode(encoder, seen.y, seen.mask, key_guess)

        def one(item):
            draw, k = item
            z = redraw.place(k, guess, *_row_laws(model, draw, table))
            return z, _expose(model, draw.shared, model.decode(draw.shared, z), table)

        return jax.lax.map(one, (chain_draws, _keys(key_rest, chain_draws)))

    return jax.lax.map(one_chain, (draws, encoders, _keys(key, draws)))


@eqx.filter_jit
def training_latents(
    model: Autoencoder, draws: Position, table: Table, rows: Int[Array, " n"]
) -> Float[Array, "S n C"]:
    """Latents of some training rows."""
    return jax.lax.map(lambda d: model.prior.law(d.shared["prior"], _full(table)).latents(d.local)[rows], draws)


@eqx.filter_jit
def jitter_levels(model: Autoencoder, draws: Position, table: Table) -> Int[Array, " S"]:
    """Draw by draw, how often the jitter of the prior's worst covariance had to be raised tenfold."""

    def one(draw):
        found = model.prior.covariances(draw.shared["prior"], _full(table))
        levels = [jnp.max(cholesky_with_level(K)[1]) for K in found]
        return functools.reduce(jnp.maximum, levels, jnp.zeros((), int))

    return jax.lax.map(one, draws)


@eqx.filter_jit
def refine(
    model: Autoencoder, draws: Position, table: Table, encoders: PyTree, query: Query, rows: Rows,
    key: Key[Array, ""], num_steps: int,
) -> tuple[Float[Array, "c d G q C"], Float[Array, "c d G q H"], Float[Array, "c G"]]:  # fmt: skip
    """Latents of given rows under p(z | y observed, x, draw), and η: MCMC that starts from the encoder.

    Along each chain's draws one HMC chain follows, `num_steps` trajectories per draw after a burn-in on the first.
    Draws have axes (chain, draw); returns also the mean acceptance of each chain and group.
    """

    def one_chain(item):
        chain_draws, encoder, k = item
        key_start, key_burn, key_rest = jax.random.split(k, 3)
        first = jax.tree.map(lambda a: a[0], chain_draws)
        state = _start(model, first, table, encoder, query, rows, key_start)
        state = _burn_in(_target(model, first, table, query, rows), state, key_burn)

        def follow(state, item):
            draw, k = item
            log_density = _target(model, draw, table, query, rows)

            def move(s, index):
                s, info = hmc.step(jax.random.fold_in(k, index), s, log_density, NUM_LEAPFROG)
                return s, info.acceptance

            state, acceptance = jax.lax.scan(move, state, jnp.arange(num_steps))
            z = _latents(model, draw, table, query, state.position)
            eta = _expose(model, draw.shared, _decode(model, draw.shared, z), rows)
            return state, (z, eta, jnp.mean(acceptance, axis=0))

        _, (z, eta, acceptance) = jax.lax.scan(follow, state, (chain_draws, _keys(key_rest, chain_draws)))
        return z, eta, jnp.mean(acceptance, axis=0)

    return jax.lax.map(one_chain, (draws, encoders, _keys(key, draws)))


def _start(model, draw, table, encoder, query, rows, key):
    seen = model.presented(rows)
    G, q, F = seen.y.shape
    z = autoencoder.encode(encoder, seen.y.reshape(G * q, F), seen.mask.reshape(G * q, F), key).reshape(G, q, -1)
    recalled = memory(model, draw, table)
    if isinstance(model.prior, SparsePrior | FullPrior):
        kernels, _ = model.prior.hyper_reference.resolve(draw.shared["prior"])
        told = query._replace(valid=query.valid & jnp.any(rows.mask, axis=-1))
        z = guessing.follow_paths(kernels, told, z, lambda z: _log_cells(model, draw, query, rows, z))
    values, seed = model.prior.standardised(draw.shared["prior"], recalled, query, z)
    if values is not None:
        z_known = _known_seed(model, draw, recalled, query, z)
        seed = jnp.where(query.known[:, None, None], z_known, seed)
    return hmc.init({"values": values, "seed": seed}, G)


def _known_seed(model, draw, recalled, query, z):
    """Standardised coordinates of z under the values of a group that was fitted."""
    law = model.prior.marginals(draw.shared["prior"], draw.values[query.slot], recalled, query)
    mean = jnp.mean(law.mean, axis=0)
    sd = jnp.sqrt(jnp.mean(law.variance, axis=0) + jnp.var(law.mean, axis=0))
    return jnp.clip((z - mean) / sd, -3.0, 3.0)


def _whitened(model, draw, table, query, position):
    values = position["values"]
    if values is not None:
        values = jnp.where(query.known[:, None, None], draw.values[query.slot], values)
    recalled = memory(model, draw, table)
    return model.prior.whitened(draw.shared["prior"], values, recalled, query, position["seed"])


def _latents(model, draw, table, query, position):
    return _whitened(model, draw, table, query, position)[0]


def _target(model, draw, table, query, rows):
    """log p(v) + log p(z | v) + log p(y observed | z) of every block, in standardised coordinates."""

    def log_density(position):
        z, log_prior = _whitened(model, draw, table, query, position)
        total = log_prior + jnp.sum(_log_cells(model, draw, query, rows, z), axis=1)
        if position["values"] is None:
            return total
        return total + jnp.sum(norm.logpdf(position["values"]), axis=(1, 2))

    return log_density


def _log_cells(model, draw, query, rows, z) -> Float[Array, "G q"]:
    """log p(y observed | z) of every row, zero where padded."""
    G, q, P = rows.y.shape
    flat = Batch(
        query.x.reshape(G * q, -1), rows.y.reshape(G * q, P), rows.mask.reshape(G * q, P),
        query.valid.reshape(-1), jnp.repeat(query.slot, q), jnp.arange(G * q).reshape(G, q), jnp.ones(()),
    )  # fmt: skip
    cells = model.log_likelihood(draw.shared, z.reshape(G * q, -1), flat)
    return jnp.where(flat.valid, cells, 0.0).reshape(G, q)


def _burn_in(log_density, state, key):
    def move(s, item):
        index, rate = item
        s, info = hmc.step(jax.random.fold_in(key, index), s, log_density, NUM_LEAPFROG)
        return hmc.adapt(s, info.acceptance, rate), None

    rates = 1.0 / jnp.sqrt(1.0 + jnp.arange(NUM_BURN_IN, dtype=jnp.float64))
    return jax.lax.scan(move, state, (jnp.arange(NUM_BURN_IN), rates))[0]


def _keys(key: Key[Array, ""], draws: PyTree) -> Key[Array, " S"]:
    return jax.random.split(key, jax.tree.leaves(draws)[0].shape[0])
