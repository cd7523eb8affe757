"""Twelve planted bugs, each of which a check that the sound code passes must catch."""

import jax
import jax.numpy as jnp
import pytest

import checks
from gpbae import autoencoder, gp, likelihoods, linalg
from gpbae.autoencoder import Autoencoder, Position
from gpbae.priors import deep
from gpbae.sampling import batches, inference, sghmc

OPTIMISED = True


def double_n(patch):
    """The energy is scaled by N/B already, and its gradient by N once more."""
    sound = Autoencoder.gradient

    def gradient(self, position, batch):
        g, terms = sound(self, position, batch)
        return g._replace(shared=jax.tree.map(lambda a: a * batch.x.shape[0], g.shared)), terms

    patch.setattr(Autoencoder, "gradient", gradient)


def missing_factor(patch):
    """Minibatch sums stand for the whole table without N/B."""
    sound = batches.RowBatch.batch
    patch.setattr(batches.RowBatch, "batch", lambda *args: sound(*args)._replace(scale=jnp.ones(())))


def scaled_local_gradients(patch):
    """The factor N/B stays on the gradients of latents."""

    def gradient(self, position, batch):
        raw, terms = jax.grad(self.energy, has_aux=True)(position, batch)
        return Position(*raw), terms

    patch.setattr(Autoencoder, "gradient", gradient)


def silent_clamp(patch):
    """Negative noise variance becomes zero and nobody is told."""
    sound = sghmc._momentum_update
    patch.setattr(sghmc, "_momentum_update", lambda *args: (sound(*args)[0], jnp.zeros(())))


def adapting_step(patch):
    """The preconditioner goes on moving after warm-up."""
    sound = sghmc.step
    patch.setattr(
        sghmc, "step", lambda key, s, g, settings: sound(key, sghmc.adapt(s, g, settings.temperature), g, settings)
    )


def adapting_sweep(patch):
    """The sweep adapts whatever it is told."""
    sound = inference.sampler_step
    patch.setattr(inference, "sampler_step", lambda *args: sound(*args[:4], jnp.asarray(True), *args[5:]))


def reused_key(patch):
    """One key for every leaf of a tree; cloned, so that only the numbers can tell."""

    def normal_like(key, tree):
        return jax.tree.map(lambda a: jax.random.normal(jax.random.clone(key), a.shape, a.dtype), tree)

    patch.setattr(sghmc, "normal_like", normal_like)


def inverted_mask(patch):
    """Hidden cells are scored and observed ones ignored."""
    sound = likelihoods.Gaussian.log_prob
    patch.setattr(likelihoods.Gaussian, "log_prob", lambda self, y, mask, eta: sound(self, y, ~mask, eta))


def swapped_friction(patch):
    """α is what is kept of the momentum, not what is lost."""
    sound = sghmc._momentum_update

    def update(xi, gradient, momentum, preconditioner, noise, settings):
        alpha = settings.friction
        return sound(xi, gradient, momentum * (alpha / (1 - alpha)), preconditioner, noise, settings)

    patch.setattr(sghmc, "_momentum_update", update)


def missing_log_determinant(patch):
    patch.setattr(linalg, "log_determinant", lambda factor: jnp.zeros(factor.shape[:-2]))


def missing_collapsed_determinant(patch):
    exact = gp.given_latents

    def forgetful(*arguments):
        law = exact(*arguments)
        return law._replace(log_marginal=law.log_marginal + 0.5 * law.log_determinant)

    patch.setattr(gp, "given_latents", forgetful)


def large_jitter(patch):
    patch.setattr(linalg, "JITTER", 1000 * linalg.JITTER)


def stale_momentum(patch):
    """Latents are born from the encoder with the momentum of the rows that stood there before."""

    def born(model, plan, table, chain, encoder, settings, selection, key):
        batch, state = plan.batching.batch(table, selection), chain.sampler
        z = autoencoder.encode(encoder, batch.y, batch.mask, key)
        local = model.prior.law(state.position.shared["prior"], batch).coordinates(z)
        return state._replace(position=state.position._replace(local=local))

    patch.setattr(inference, "_reborn", born)


def mean_of_logs(patch):
    """E[log] in place of log E."""

    def log_mixture(z, mean, variance):
        return jnp.mean(jnp.sum(jax.scipy.stats.norm.logpdf(z[None], mean, jnp.sqrt(variance)), axis=-1), axis=0)

    patch.setattr(deep, "_log_mixture", log_mixture)


MUTANTS = {
    "double N": (double_n, lambda: checks.check_gradient_is_the_derivative_of_the_energy("normal")),
    "missing N/B": (missing_factor, lambda: checks.check_minibatches("normal")),
    "scaled local gradients": (scaled_local_gradients, lambda: checks.check_minibatches("normal")),
    "silent clamp": (silent_clamp, checks.check_clamping_is_reported),
    "preconditioner not frozen": (adapting_step, checks.check_step_freezes_the_preconditioner),
    "preconditioner not frozen in a sweep": (adapting_sweep, checks.check_sampling_sweeps_freeze_the_preconditioner),
    "key reuse": (reused_key, checks.check_every_leaf_has_its_own_noise),
    "inverted mask": (inverted_mask, checks.check_masked_gaussian_counts_observed_cells_only),
    "swapped friction": (swapped_friction, checks.check_one_dimensional_gaussian_law),
    "missing log-determinant": (missing_log_determinant, checks.check_exact_density_is_multivariate_normal),
    "missing log-determinant of the values": (
        missing_collapsed_determinant,
        checks.check_fitc_at_the_data_is_the_exact_process,
    ),
    "jitter × 1000": (large_jitter, checks.check_fitc_at_the_data_is_the_exact_process),
    "stale momentum": (stale_momentum, checks.check_newborn_latents_inherit_no_momentum),
    "E[log] in the deep GP": (mean_of_logs, checks.check_deep_density_is_the_log_of_a_mean),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_is_caught(name, monkeypatch):
    plant, check = MUTANTS[name]
    check()
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check()
