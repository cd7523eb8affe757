"""DSGP-BAE: sparse GP layers that warp the inputs, and a sparse GP on the warped inputs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int

from gpbae import gp
from gpbae.priors.base import AbstractLatentPrior, AbstractLaw, Marginals
from gpbae.priors.sparse import SparseLaw, SparsePrior


class DeepLaw(AbstractLaw):
    """One component per seed; `last` is the sparse law that is left where there are no hidden layers."""

    projections: gp.Projection
    variance: Float[Array, "Q B C"]
    valid: Bool[Array, " B"]
    slot: Int[Array, " B"]
    last: SparseLaw | None

    def log_latents(self, values, local):
        return jnp.sum(jnp.where(self.valid, self.log_rows(values, local), 0.0))

    def log_rows(self, values, local):
        return _log_mixture(local, _means(self.projections, values, self.slot), self.variance)

    def log_components(self, values, local) -> Float[Array, "Q B"]:
        """log N(zₙ; the q-th component): which of them a row is of."""
        return _log_components(local, _means(self.projections, values, self.slot), self.variance)

    def spread(self, values):
        mean, variance = _matched(Marginals(_means(self.projections, values, self.slot), self.variance))
        return mean, jnp.sqrt(variance)

    def latents(self, local):
        return local

    def coordinates(self, latents):
        return latents

    def _sparse(self) -> SparseLaw:
        assert self.last is not None, "a mixture is not conjugate"
        return self.last

    def log_collapsed(self, local, temperature):
        return self._sparse().log_collapsed(local, temperature)

    def redraw_values(self, key, values, local, temperature):
        return self._sparse().redraw_values(key, values, local, temperature)

    def seeds(self, values, local):
        return self._sparse().seeds(values, local)

    def placed(self, values, seeds):
        return self._sparse().placed(values, seeds)


class DeepPrior(AbstractLatentPrior):
    """h⁽⁰⁾ = x,  h⁽ˡ⁾ = h⁽ˡ⁻¹⁾ + width · f⁽ˡ⁾(h⁽ˡ⁻¹⁾),  z | h⁽ᴸ⁻¹⁾ as in a sparse prior.

    Hidden layers are marginalised by reparameterised Monte Carlo: Q seeds, fixed once, are pushed through the
    layers' conditional moments, and zₙ is the equal mixture of the Q normals (log-mean-exp, never a mean of logs).
    With the seeds fixed the density is deterministic, so the sampler's target is exact for that Q.  All groups
    share the warp; each has its own values in the last layer.  Chains begin at `hyper_start`, else without a warp.
    """

    hidden: tuple[SparsePrior, ...]
    last: SparsePrior
    seeds: Float[Array, "Q hidden E"]
    width: Float[Array, " E"]
    hyper_start: Any = None

    @property
    def latent_dim(self):  # type: ignore[override]
        return self.last.latent_dim

    @property
    def couples_rows(self):
        return False

    def init(self, key, num_groups):
        hyper, values = self.last.init(key, num_groups)
        hyper["hidden"] = tuple({"hyper": h, "values": v} for h, v in (layer.init(key, 1) for layer in self.hidden))
        return hyper if self.hyper_start is None else self.hyper_start, values

    def log_hyper(self, hyper):
        terms = self.last.log_hyper(hyper)
        for i, (layer, h) in enumerate(zip(self.hidden, hyper["hidden"], strict=True)):
            terms |= {f"layer {i + 1} {name}": t for name, t in layer.log_hyper(h["hyper"]).items()}
            terms[f"layer {i + 1} values"] = layer.log_values(h["values"])
        return terms

    def log_values(self, values):
        return self.last.log_values(values)

    def propagate(self, hyper, x: Float[Array, "B D"]) -> Float[Array, "Q B D"]:
        """Inputs of the last layer, one copy per seed."""
        return jax.vmap(lambda seeds: self.warped(hyper, x, seeds[:, None]))(self.seeds)

    def warped(self, hyper, x: Float[Array, "B D"], seeds: Float[Array, "hidden #B D"]) -> Float[Array, "B D"]:
        """Inputs of the last layer where the hidden ones have these seeds, the same for all rows or one for each."""
        h = x
        for layer, p, seed in zip(self.hidden, hyper["hidden"], seeds, strict=True):
            projection, variance = layer.project(p["hyper"], h)
            mean = gp.sparse_mean(projection, p["values"], jnp.zeros(h.shape[0], jnp.int32))
            h = h + self.width[None] * (mean + jnp.sqrt(variance) * seed)
        return h

    def _components(self, hyper, x) -> tuple[gp.Projection, Float[Array, "Q B C"]]:
        """What the last layer needs of its inputs, for every seed."""
        return jax.vmap(lambda h: self.last.project(hyper, h))(self.propagate(hyper, x))

    def law(self, hyper, batch):
        projections, variance = self._components(hyper, batch.x)
        last = None if self.hidden else self.last.law(hyper, batch)
        return DeepLaw(projections, variance, batch.valid, batch.slot, last)

    @property
    def collapses(self):
        """A mixture is not conjugate, but without hidden layers this is the sparse prior."""
        return not self.hidden

    @property
    def conjugates(self):
        return True

    def conjugate(self, key, hyper, values, batch, local, temperature):
        """Given of which component every row is, drawn from its law given all else, the mixture is gone."""
        if self.collapses:
            return self
        law = self.law(hyper, batch)
        component = jax.random.categorical(key, law.log_components(values, local) / temperature, axis=0)
        return self.given(jnp.swapaxes(self.seeds[component], 0, 1))

    def given(self, seeds: Float[Array, "hidden B D"]) -> "GivenComponents":
        """This prior where every row's seeds are known."""
        return GivenComponents(self, seeds)

    def marginals(self, hyper, values, memory, query):
        G, q, D = query.x.shape
        slot = jnp.repeat(jnp.arange(G), q)
        projections, variance = self._components(hyper, query.x.reshape(G * q, D))
        mean = _means(projections, values, slot)
        shape = (mean.shape[0], G, q, self.latent_dim)
        return Marginals(mean.reshape(shape), variance.reshape(shape))

    def path(self, key, hyper, values, memory, query):
        *keys_warp, key_last = jax.random.split(key, len(self.hidden) + 1)
        h = query.x
        for k, layer, p in zip(keys_warp, self.hidden, hyper["hidden"], strict=True):
            values_per_block = jnp.broadcast_to(p["values"], (h.shape[0], *p["values"].shape[1:]))
            f = layer.path(k, p["hyper"], values_per_block, memory, query._replace(x=h))
            h = h + self.width[None, None] * f
        return self.last.path(key_last, hyper, values, memory, query._replace(x=h))

    def whitened(self, hyper, values, memory, query, seed):
        mixture = self.marginals(hyper, values, memory, query)
        mean, variance = _matched(mixture)
        z = mean + jnp.sqrt(variance) * seed
        log_density = _log_mixture(z, mixture.mean, mixture.variance) + 0.5 * jnp.sum(jnp.log(variance), axis=-1)
        return z, jnp.sum(log_density, axis=1)

    def standardised(self, hyper, memory, query, z):
        G, q, D = query.x.shape
        warped = jnp.mean(self.propagate(hyper, query.x.reshape(G * q, D)), axis=0).reshape(G, q, -1)
        values, _ = self.last.standardised(hyper, memory, query._replace(x=warped), z)
        mean, variance = _matched(self.marginals(hyper, values, memory, query))
        return values, jnp.clip((z - mean) / jnp.sqrt(variance), -3.0, 3.0)

    def covariances(self, hyper, batch):
        layers = zip(self.hidden, hyper["hidden"], strict=True)
        hidden = [layer.covariances(p["hyper"], batch) for layer, p in layers]
        return sum(hidden, self.last.covariances(hyper, batch))

    def describe(self, hyper):
        named = self.last.describe(hyper)
        for i, (layer, p) in enumerate(zip(self.hidden, hyper["hidden"], strict=True)):
            named |= {f"layer{i + 1}.{name}": value for name, value in layer.describe(p["hyper"]).items()}
        return named


class GivenComponents(eqx.Module):
    """A deep prior once every row's seeds are known: a sparse prior on warped inputs."""

    deep: DeepPrior
    seeds: Float[Array, "hidden B D"]

    @property
    def collapses(self):
        return True

    def law(self, hyper, batch) -> SparseLaw:
        return self.deep.last.law(hyper, batch._replace(x=self.deep.warped(hyper, batch.x, self.seeds)))

    def log_hyper(self, hyper):
        return self.deep.log_hyper(hyper)


def _means(projections, values, slot) -> Float[Array, "Q B C"]:
    return jax.vmap(lambda p: gp.sparse_mean(p, values, slot))(projections)


def _log_mixture(z, mean, variance):
    """log (1/Q) Σ_q Π_c N(z_c; mean_qc, variance_qc)."""
    return logsumexp(_log_components(z, mean, variance), axis=0) - jnp.log(mean.shape[0])


def _log_components(z, mean, variance):
    return jnp.sum(norm.logpdf(z[None], mean, jnp.sqrt(variance)), axis=-1)


def _matched(mixture: Marginals) -> tuple[Array, Array]:
    """Mean and variance of the mixture."""
    mean = jnp.mean(mixture.mean, axis=0)
    return mean, jnp.mean(mixture.variance + (mixture.mean - mean[None]) ** 2, axis=0)
