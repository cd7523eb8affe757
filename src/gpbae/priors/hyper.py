"""Kernel hyper-parameters and latent noise: which leaves are sampled, and their priors on the sampled scale."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array

from gpbae import kernels as kernel_module
from gpbae.gp import Kernels

NOISE_SPREAD = 0.5


class Hyper(eqx.Module):
    """Reference kernels and latent noise; priors are log-normal around these values."""

    kernels: Kernels
    noise: Array
    scale: Array
    sample_kernel: bool = eqx.field(static=True)
    sample_noise: bool = eqx.field(static=True)

    def init(self) -> dict[str, Any]:
        """The sampled leaves: a kernel pytree with None where nothing is sampled, and the log of the noise."""
        spec = tuple(kernel_module.sampled(k) for k in self.kernels) if self.sample_kernel else False
        hyper: dict[str, Any] = {"kernel": eqx.filter(self.kernels, spec)}
        return {**hyper, "log_latent_noise": jnp.log(self.noise)} if self.sample_noise else hyper

    def resolve(self, hyper: dict[str, Any]) -> tuple[Kernels, Array]:
        """The kernels and latent noise that sampled leaves stand for."""
        noise = jnp.exp(hyper["log_latent_noise"]) if self.sample_noise else self.noise
        return eqx.combine(hyper["kernel"], self.kernels), noise

    def log_prior(self, hyper: dict[str, Any]) -> dict[str, Array]:
        terms = {}
        if self.sample_kernel:
            current, _ = self.resolve(hyper)
            pairs = zip(current, self.kernels, strict=True)
            terms["kernel prior"] = sum(
                (kernel_module.hyper_log_prior(k, r, self.scale) for k, r in pairs), jnp.zeros(())
            )
        if self.sample_noise:
            log_noise = hyper["log_latent_noise"]
            terms["latent noise prior"] = norm.logpdf(log_noise, jnp.log(self.noise), NOISE_SPREAD)
        return terms

    def describe(self, hyper: dict[str, Any]) -> dict[str, Array]:
        """Natural-scale values by name; several kernels are numbered by the latent they belong to."""
        kernels, noise = self.resolve(hyper)
        named = {}
        for i, kernel in enumerate(kernels):
            prefix = f"latent{i}." if len(kernels) > 1 else ""
            named |= {prefix + name: value for name, value in kernel_module.describe(kernel).items()}
        return {**named, "latent_noise": noise}
