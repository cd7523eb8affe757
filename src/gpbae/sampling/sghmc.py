"""Scale-adapted stochastic-gradient Hamiltonian Monte Carlo, on pytrees and gradients only.

With U the energy on the full-data scale, g an unbiased estimate of ∇U, V the preconditioner and m = V^{-1/2}:

    v ← (1 − α) v − η² m g + √(2 T η² α m − η⁴ m² Γ) ξ,     θ ← θ + v,

where Γ is the variance of g around ∇U (zero on a full batch, so the term vanishes) and T the temperature, the
only thing that tempers.  V, ḡ and τ move in `adapt` only, which the caller stops at the end of warm-up.

θ stands for standardised coordinates: position = scale · θ with a constant scale per coordinate (one, unless
`curvature_scale` measured it), because V^{-1/2} alone evens out only the square root of the curvatures.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

import gpbae.processes.runtime  # noqa: F401  (float64 before the first array)

Gradient = Callable[[Any], Any]
SMALLEST_WINDOW = 300.0
"""Steps.  Gradients of a slow chain are correlated, and the rule for τ alone would shrink the window to chase them."""


class State(NamedTuple):
    """One chain: position and momentum, and the running moments behind the preconditioner."""

    position: PyTree
    momentum: PyTree
    preconditioner: PyTree
    smoothed: PyTree
    window: PyTree
    scale: PyTree


class Settings(NamedTuple):
    """What a step needs besides the gradient; `noise` is Γ, or None when the gradient is exact."""

    step_size: Array
    friction: Array
    temperature: Array
    noise: PyTree | None = None


class Info(NamedTuple):
    """Per leaf: kinetic temperature; over all leaves: the share of coordinates whose noise had to be clamped."""

    kinetic_temperature: PyTree
    fraction_clamped: Array


def init(position: PyTree, scale: PyTree | None = None, window: float = SMALLEST_WINDOW) -> State:
    """Start at rest with a preconditioner of one, in the coordinates the scale defines."""
    if scale is None:
        scale = jax.tree.map(jnp.ones_like, position)
    ones, zeros = jax.tree.map(jnp.ones_like, scale), jax.tree.map(jnp.zeros_like, scale)
    windows = jax.tree.map(lambda v: jnp.full_like(v, window), scale)
    return State(position, jax.tree.map(jnp.zeros_like, position), ones, zeros, windows, scale)


def standardised(state: State, gradient: PyTree) -> PyTree:
    """The gradient with respect to the standardised coordinates."""
    return jax.tree.map(jnp.multiply, gradient, state.scale)


def warmup_step(key: Key[Array, ""], state: State, gradient: PyTree, settings: Settings) -> tuple[State, Info]:
    """A step that also learns the preconditioner."""
    return step(key, adapt(state, gradient, settings.temperature), gradient, settings)


def step(key: Key[Array, ""], state: State, gradient: PyTree, settings: Settings) -> tuple[State, Info]:
    """One SGHMC update; the preconditioner is read, never written."""
    gradient = standardised(state, gradient)
    draws = normal_like(key, gradient)
    exact = jax.tree.map(lambda _: None, gradient)
    noise = exact if settings.noise is None else jax.tree.map(lambda n, c: n * c**2, settings.noise, state.scale)
    moved = jax.tree.map(
        lambda *leaves: _momentum_update(*leaves, settings),
        draws, gradient, state.momentum, state.preconditioner, noise,
    )  # fmt: skip
    momentum, clamped = _unzip(moved, gradient)
    position = jax.tree.map(lambda p, c, v: p + c * v, state.position, state.scale, momentum)
    temperature = kinetic_temperature(momentum, state.preconditioner, settings)
    return state._replace(position=position, momentum=momentum), Info(temperature, _share(clamped, gradient))


def _momentum_update(xi, gradient, momentum, preconditioner, noise, settings):
    """New momentum of one leaf and the share of coordinates whose injected variance would be negative: none, and not
    worth a pass over them, where the gradient is exact."""
    dtype = gradient.dtype
    eta2, alpha, temperature = (
        a.astype(dtype) for a in (settings.step_size**2, settings.friction, settings.temperature)
    )
    m = jax.lax.rsqrt(preconditioner)
    variance, share = 2 * temperature * eta2 * alpha * m, jnp.zeros(())
    if noise is not None:
        variance = variance - (eta2 * m) ** 2 * noise
        share = jnp.mean((variance < 0).astype(jnp.float64))
    return (1 - alpha) * momentum - eta2 * m * gradient + jnp.sqrt(jnp.maximum(variance, 0)) * xi, share


def adapt(state: State, gradient: PyTree, temperature: Array) -> State:
    """τ ← τ − τ ḡ²/V + 1,  ḡ ← ḡ + (g − ḡ)/τ,  V ← V + (g² − V)/τ, with g measured in units of √T.

    At equilibrium E[g²] = T ∂²U/∂θ², so dividing by √T makes V the curvature whatever the temperature, and a
    ramp of the temperature does not drag the preconditioner along.
    """

    gradient = standardised(state, gradient)

    def moments(g, v, gbar, tau):
        root = jnp.sqrt(jnp.maximum(temperature, 1e-12)).astype(g.dtype)
        g1, g2 = _mean_to(g / root, v.shape), _mean_to((g / root) ** 2, v.shape)
        tau = jnp.maximum(tau - tau * jnp.clip(gbar**2 / v, 0, 1) + 1, SMALLEST_WINDOW)
        return v + (g2 - v) / tau, gbar + (g1 - gbar) / tau, tau

    out = jax.tree.map(moments, gradient, state.preconditioner, state.smoothed, state.window)
    preconditioner, smoothed, window = _unzip(out, gradient)
    floor = jax.tree.map(lambda v: jnp.maximum(v, jnp.finfo(v.dtype).tiny ** 0.5), preconditioner)
    return state._replace(preconditioner=floor, smoothed=smoothed, window=window)


def refresh_momentum(key: Key[Array, ""], momentum: Array, preconditioner: Array, settings: Settings) -> Array:
    """A draw from the momentum's stationary law, Var v = 2 T η² m / (2 − α)."""
    variance = 2 * settings.temperature * settings.step_size**2 / (2 - settings.friction)
    scale = jnp.sqrt(variance).astype(momentum.dtype) * preconditioner**-0.25
    return scale * jax.random.normal(key, momentum.shape, momentum.dtype)


def kinetic_temperature(momentum: PyTree, preconditioner: PyTree, settings: Settings) -> PyTree:
    """T̂ = mean of v² (2 − α) / (2 η² m), which has expectation T as η → 0, leaf by leaf."""
    unit = (2 - settings.friction) / (2 * settings.step_size**2)
    return jax.tree.map(
        lambda v, p: unit * jnp.mean((v**2 * jnp.sqrt(p)).astype(jnp.float64)), momentum, preconditioner
    )


def gaussian_stationary_variance(precision: Array, preconditioner: Array, step_size: float, friction: float) -> Array:
    """Exact Var θ of the discretised chain on N(0, 1/k):  (1/k) / (1 − s/(2(2−α))),  s = η² V^{-1/2} k."""
    s = step_size**2 * precision / jnp.sqrt(preconditioner)
    return 1 / precision / (1 - s / (2 * (2 - friction)))


def curvature_scale(
    key: Key[Array, ""], hessian_product: Gradient, position: PyTree, like: PyTree, num_probes: int = 8
) -> PyTree:
    """Scales cᵢ = (Σⱼ Hᵢⱼ²)^{-1/4}, from products of the Hessian with random signs: coordinates of unit curvature.

    A row's norm is at least its diagonal entry, so correlated coordinates get the shorter scale they need.  No scale is
    above one, the scale of priors: where the energy is flat now it need not be flat a step further.
    """

    def probe(total, index):
        product = hessian_product(_signs(jax.random.fold_in(key, index), position))
        return jax.tree.map(lambda t, h: t + _mean_to(h**2, t.shape), total, product), None

    zeros = jax.tree.map(jnp.zeros_like, like)
    total, _ = jax.lax.scan(probe, zeros, jnp.arange(num_probes))
    return jax.tree.map(lambda t: jnp.clip(t / num_probes, 1.0, None) ** -0.25, total)


def largest_curvature(key: Key[Array, ""], hessian_product: Gradient, state: State, num_iterations: int = 16) -> Array:
    """Largest |eigenvalue| of M^{1/2} H M^{1/2}, M = c² V^{-1/2}, by power iteration: s = η² λ is the stiffest mode."""
    root = jax.tree.map(lambda c, p: c * p**-0.25, state.scale, state.preconditioner)

    def scaled(u):
        return jax.tree.map(jnp.multiply, hessian_product(jax.tree.map(jnp.multiply, u, root)), root)

    def iterate(u, _):
        w = scaled(u)
        norm = jnp.sqrt(_squared_norm(w))
        return jax.tree.map(lambda a: a / jnp.maximum(norm, 1e-30).astype(a.dtype), w), norm

    start = _signs(key, state.position)
    norm = jnp.sqrt(_squared_norm(start))
    start = jax.tree.map(lambda a: a / norm.astype(a.dtype), start)
    _, norms = jax.lax.scan(iterate, start, None, length=num_iterations)
    return norms[-1]


def stable_step_size(
    curvature: Array, target: float, noise_ratio: Array | None = None, largest_noise_share: float = 0.3
) -> Array:
    """η with η² λ_max = target, and on minibatches with gradient noise at most a given share of the injected noise.

    The relative bias of a variance is s/(2(2−α) − s), so target = 0.07 keeps the stiffest direction within 2 %.
    `noise_ratio` is max m Γ / (2 α T): the gradient's noise over the injected noise at η = 1.
    """
    eta2 = target / curvature
    if noise_ratio is not None:
        eta2 = jnp.minimum(eta2, largest_noise_share / jnp.maximum(noise_ratio, 1e-30))
    return jnp.sqrt(eta2)


def noise_ratio(noise: PyTree, scale: PyTree, preconditioner: PyTree, settings: Settings) -> Array:
    """max over coordinates of m c² Γ / (2 α T): multiply by η² for gradient noise over injected noise."""
    largest = jax.tree.map(
        lambda n, c, p: jnp.max(n * c**2 / jnp.sqrt(p), initial=0.0).astype(jnp.float64), noise, scale, preconditioner
    )
    injected = 2 * settings.friction * settings.temperature
    return jnp.max(jnp.stack([jnp.zeros(()), *jax.tree.leaves(largest)])) / injected


def _mean_to(a: Array, shape: tuple[int, ...]) -> Array:
    """Average the axes that the preconditioner keeps at length one (shared over rows)."""
    axes = tuple(i for i, (n, m) in enumerate(zip(a.shape, shape, strict=True)) if m == 1 and n != 1)
    return jnp.mean(a, axis=axes, keepdims=True) if axes else a


def normal_like(key: Key[Array, ""], tree: PyTree) -> PyTree:
    """Standard normal draws in the shape of a tree, from one call: every call costs half a second of compilation.

    Drawn in float32 whatever the leaf: 24 bits are plenty for injected noise.
    """
    leaves, treedef = jax.tree.flatten(tree)
    pool = jax.random.normal(key, (sum(a.size for a in leaves),), jnp.float32)
    ends = np.cumsum([a.size for a in leaves])
    draws = [pool[e - a.size : e].reshape(a.shape).astype(a.dtype) for a, e in zip(leaves, ends, strict=True)]
    return jax.tree.unflatten(treedef, draws)


def _signs(key, tree):
    return jax.tree.map(lambda a: jnp.where(a < 0, -1, 1).astype(a.dtype), normal_like(key, tree))


def _squared_norm(tree):
    return sum(jnp.sum(a.astype(jnp.float64) ** 2) for a in jax.tree.leaves(tree))


def _unzip(tree_of_tuples, like):
    """A pytree of tuples into a tuple of pytrees."""
    treedef = jax.tree.structure(like)
    leaves = treedef.flatten_up_to(tree_of_tuples)
    return tuple(jax.tree.unflatten(treedef, list(column)) for column in zip(*leaves, strict=True))


def _share(clamped, like):
    sizes = [a.size for a in jax.tree.leaves(like)]
    counts = [c * n for c, n in zip(jax.tree.leaves(clamped), sizes, strict=True)]
    return sum(counts, jnp.zeros(())) / max(sum(sizes), 1)
