"""The density: the log joint of a Bayesian autoencoder in named terms, and what decodes and encodes.

Local variables (latents; a group's values when whole groups are batched) carry weight one, global variables the
full-data scale.  Every local variable appears only in terms that are multiplied by `batch.scale`, so the gradient of
the scaled energy divided by that scale is its weight-one gradient.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from gpbae import likelihoods
from gpbae.likelihoods import AbstractLikelihood
from gpbae.networks import network_dtype, over_rows, sum_over_rows
from gpbae.priors import AbstractLatentPrior, AbstractLaw, Batch
from gpbae.weights import AbstractWeightPrior


class Position(NamedTuple):
    """Everything that is sampled: `shared` by all rows, `values` per group (None where there are none or they are
    integrated out), `local` per row."""

    shared: dict[str, Any]
    values: Any
    local: Any


class Autoencoder(eqx.Module):
    """A latent prior, a decoder with a prior on its weights, and a likelihood."""

    prior: AbstractLatentPrior
    decoder: PyTree
    weight_prior: AbstractWeightPrior
    likelihood: AbstractLikelihood
    values_are_local: bool = eqx.field(static=True)

    def init(self, key: Key[Array, ""], decoder: PyTree, num_groups: int) -> tuple[dict[str, Any], Any]:
        """Starting shared variables and values, with the given decoder's weights."""
        hyper, values = self.prior.init(key, num_groups)
        weights = eqx.filter(decoder, eqx.is_inexact_array)
        noise = eqx.filter(self.likelihood, self.likelihood.sampled())
        return {"decoder": self.weight_prior.init(weights), "likelihood": noise, "prior": hyper}, values

    def observe(self, shared: dict[str, Any]) -> AbstractLikelihood:
        """The likelihood with its sampled leaves in place."""
        return eqx.combine(shared["likelihood"], self.likelihood)

    def presented(self, rows: Any) -> Any:
        """A batch or a table as the encoder sees it."""
        y, mask = self.likelihood.features(rows.y, rows.mask)
        return rows._replace(y=y, mask=mask)

    def decode(self, shared: dict[str, Any], z: Float[Array, "B C"]) -> Float[Array, "B H"]:
        """η of every row."""
        decoder = self.network(shared)
        return over_rows(decoder, z.astype(network_dtype(decoder)))

    def network(self, shared: dict[str, Any]) -> PyTree:
        """The decoder with its sampled weights in place."""
        return eqx.combine(self.weight_prior.weights(shared["decoder"]), self.decoder)

    def log_likelihood(self, shared: dict[str, Any], z: Float[Array, "B C"], batch: Batch) -> Float[Array, " B"]:
        """log p(yₙ observed | zₙ, φ), row by row."""
        likelihood, eta = self.observe(shared), self.decode(shared, z)
        y = batch.y.astype(eta.dtype)
        cells = likelihood.log_prob(y, batch.mask, likelihood.expose(eta, y, batch.mask))
        return jnp.sum(cells, axis=-1).astype(jnp.float64)

    def total_log_likelihood(self, shared: dict[str, Any], z: Float[Array, "B C"], batch: Batch) -> Array:
        """Its sum over the valid rows of a batch."""

        def total(used, z, rows):
            own = batch._replace(**rows)
            return jnp.sum(jnp.where(own.valid, self.log_likelihood(used, z, own), 0.0))

        used = {name: shared[name] for name in ("decoder", "likelihood")}
        rows = {name: getattr(batch, name) for name in ("y", "mask", "valid")}
        return sum_over_rows(self.network(shared), total, used, z, rows)

    def log_global(self, position: Position) -> dict[str, Array]:
        """Terms of global variables, counted once."""
        shared = position.shared
        terms = {
            "decoder prior": self.weight_prior.log_prob(shared["decoder"]),
            "noise prior": likelihoods.hyper_log_prior(self.observe(shared), self.likelihood),
            **self.prior.log_hyper(shared["prior"]),
        }
        if self.values_are_local or position.values is None:
            return terms
        return {**terms, "values": self.prior.log_values(position.values)}

    def log_local(
        self, position: Position, batch: Batch, temperature: Array, law: AbstractLaw | None = None
    ) -> dict[str, Array]:
        """Terms of the batch's own variables, summed over the batch."""
        law = self.prior.law(position.shared["prior"], batch) if law is None else law
        terms = {
            "latents": self._log_latents(law, position, temperature),
            "likelihood": self.total_log_likelihood(position.shared, law.latents(position.local), batch),
        }
        if not self.values_are_local or position.values is None:
            return terms
        return {**terms, "values": self.prior.log_values(position.values)}

    def _log_latents(self, law, position, temperature):
        """Without values, the prior of the latents has them integrated out, where it can: T log ∫ p^(1/T) dv."""
        if position.values is None and self.prior.collapses:
            return temperature * law.log_collapsed(position.local, temperature)
        return law.log_latents(position.values, position.local)

    def log_joint(
        self, position: Position, batch: Batch, temperature: Array | None = None, law: AbstractLaw | None = None
    ) -> dict[str, Array]:
        """Named terms on the full-data scale; their sum estimates log p(Ψ, Z, Y | X) without bias."""
        local = self.log_local(position, batch, jnp.ones(()) if temperature is None else temperature, law)
        return {**self.log_global(position), **{name: batch.scale * term for name, term in local.items()}}

    def energy(
        self, position: Position, batch: Batch, temperature: Array | None = None, law: AbstractLaw | None = None
    ) -> tuple[Array, dict[str, Array]]:
        """U = −Σ of the terms, and the terms; the temperature matters only where values are integrated out."""
        terms = self.log_joint(position, batch, temperature, law)
        return -sum(terms.values(), jnp.zeros(())), terms

    def gradient(
        self, position: Position, batch: Batch, temperature: Array | None = None, law: AbstractLaw | None = None,
        held: tuple[str, ...] = (),
    ) -> tuple[Position, dict[str, Array]]:  # fmt: skip
        """∇U on the full-data scale for global variables and with weight one for local ones.

        Hyper-parameters of the prior that are held have a gradient of zero, which costs nothing; given the law of the
        latents at the position's hyper-parameters all of them are.
        """

        def energy(position):
            hyper = position.shared["prior"]
            fixed = {name: value for name, value in hyper.items() if law is not None or name in held}
            hyper = {**hyper, **jax.lax.stop_gradient(fixed)}
            return self.energy(position._replace(shared={**position.shared, "prior": hyper}), batch, temperature, law)

        raw, terms = jax.grad(energy, has_aux=True)(position)
        unscaled = lambda tree: jax.tree.map(lambda g: g / batch.scale.astype(g.dtype), tree)  # noqa: E731
        values = unscaled(raw.values) if self.values_are_local else raw.values
        return Position(raw.shared, values, unscaled(raw.local)), terms


def encode(encoder, y: Float[Array, "B P"], mask: Bool[Array, "B P"], key: Key[Array, ""]) -> Float[Array, "B C"]:
    """A draw of z = f(y, mask, ε) for every row."""
    return encode_with(encoder, y, mask, jax.random.normal(key, (y.shape[0], encoder.seed_size), jnp.float32))


def encode_with(encoder, y, mask, seeds: Float[Array, "B E"]) -> Float[Array, "B C"]:
    """z = f(y, mask, ε) for given ε; missing cells enter as zeros that the mask explains."""
    dtype = network_dtype(encoder)
    filled = jnp.where(mask, y, jnp.zeros_like(y)).astype(dtype)
    return over_rows(encoder, filled, mask.astype(dtype), seeds.astype(dtype)).astype(jnp.float64)


def amortisation_loss(encoder, batch: Batch, z: Float[Array, "B C"], seeds: Float[Array, "B E"]) -> Array:
    """Mean squared distance between the encoder's draws and the sampled latents."""
    error = jnp.sum((encode_with(encoder, batch.y, batch.mask, seeds) - z) ** 2, axis=-1)
    return jnp.sum(jnp.where(batch.valid, error, 0.0)) / jnp.maximum(jnp.sum(batch.valid, dtype=error.dtype), 1)
