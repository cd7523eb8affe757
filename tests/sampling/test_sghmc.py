"""The sampler samples: exact laws of the discretised chain, the order of its bias, no noise unaccounted for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import checks
from gpbae.sampling import sghmc
from gpbae.sampling.run import Budget

OPTIMISED = True

FRICTION = 0.05


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_one_dimensional_chain_follows_its_exact_law(temperature):
    state = sghmc.init(jnp.zeros(1))._replace(preconditioner=jnp.asarray([2.0]))
    checks.check_gaussian_law(4.0 * jnp.eye(1), state, 0.4, temperature, num_chains=512, burn_in=400)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_ill_conditioned_correlated_chain_follows_its_exact_law(temperature):
    H, state = checks.ill_conditioned(dim=20, condition=1e3)
    checks.check_gaussian_law(H, state, checks.step_for(H, state, 0.5), temperature)


def test_stationary_variance_formula_is_the_lyapunov_solution():
    k, V = jnp.asarray([0.3, 1.0, 20.0]), jnp.asarray([1.0, 4.0, 0.5])
    state = sghmc.init(jnp.zeros(3))._replace(preconditioner=V)
    covariance, _ = checks.exact_law(jnp.diag(k), state, 0.2, FRICTION, 1.0)
    formula = sghmc.gaussian_stationary_variance(k, V, 0.2, FRICTION)
    np.testing.assert_allclose(formula, np.diag(covariance), rtol=1e-9)


def default_state_and_step(H, seed=0):
    """What a run does before sampling: measured scales, then the step size for the stiffest direction."""
    key_scale, key_power = jax.random.split(jax.random.key(seed))
    origin = jnp.zeros(len(H))
    scale = sghmc.curvature_scale(key_scale, lambda u: H @ u, origin, origin)
    state = sghmc.init(origin, scale)
    curvature = sghmc.largest_curvature(key_power, lambda u: H @ u, state)
    return state, float(sghmc.stable_step_size(curvature, Budget.stiffness))


@pytest.mark.parametrize("dim", [1, 20])
def test_variance_is_within_two_percent_of_the_target_at_the_default_setting(dim):
    H = 4.0 * jnp.eye(1) if dim == 1 else checks.ill_conditioned(dim)[0]
    state, step_size = default_state_and_step(H)
    covariance, _ = checks.exact_law(H, state, step_size, FRICTION, 1.0)
    bias = np.diag(covariance) / np.diag(np.linalg.inv(H)) - 1
    assert np.all(np.abs(bias) < 0.02), bias
    R = np.linalg.cholesky(H)  # every direction, not only the axes: the eigenvalues of Rᵀ Σ R are variance ratios
    assert np.all(np.abs(np.linalg.eigvalsh(R.T @ covariance @ R) - 1) < 0.02)


def test_default_setting_is_sampled_as_its_law_says():
    H, _ = checks.ill_conditioned()
    state, step_size = default_state_and_step(H)
    checks.check_gaussian_law(H, state, step_size, 1.0, num_chains=64, burn_in=2000, num_steps=2000)


def log_gamma_gradient(shape):
    """x = log of a Gamma(shape) variable: U = eˣ − shape · x, skewed to the left, E x = digamma(shape)."""
    return lambda key, x: jnp.exp(x) - shape


def test_mean_of_a_skewed_target():
    s = checks.settings(0.03)
    trace = checks.simulate(2, log_gamma_gradient(2.0), sghmc.init(jnp.zeros(1)), s, 512, 600, 4000, 20)
    checks.assert_within_errors(trace.position[..., 0].mean(axis=1), scipy.special.digamma(2.0), 4.0)
    second = np.mean((trace.position[..., 0] - scipy.special.digamma(2.0)) ** 2, axis=1)
    checks.assert_within_errors(second, scipy.special.polygamma(1, 2.0), 4.0)


def test_halving_the_step_quarters_the_bias():
    """Theory: bias s/(2(2−α) − s) with s ∝ η²; simulation: the same ratio within its Monte-Carlo error."""
    steps, found, errors = (0.6, 0.3), [], []
    exact = [float(sghmc.gaussian_stationary_variance(jnp.ones(()), jnp.ones(()), h, FRICTION)) - 1 for h in steps]
    assert 4 * 0.8 < exact[0] / exact[1] < 4 * 1.2
    for h in steps:
        start = sghmc.init(jnp.zeros(16))
        trace = checks.simulate(3, lambda key, x: x, start, checks.settings(h), 128, 300, 4000, 8)
        bias = np.mean(trace.position**2, axis=(1, 2)) - 1
        found.append(bias.mean())
        errors.append(bias.std(ddof=1) / np.sqrt(len(bias)))
    ratio = found[0] / found[1]
    error = abs(ratio) * np.hypot(errors[0] / found[0], errors[1] / found[1])
    assert found[1] > 5 * errors[1], "the smaller bias must be visible for its order to mean something"
    assert abs(ratio - exact[0] / exact[1]) < 4.5 * error


def test_minibatch_regression_has_the_posterior_sd():
    """N = 1000, B = 100: scales, noise estimate and step size as a run finds them; conjugate answer."""
    rng = np.random.default_rng(0)
    N, B, d = 1000, 100, 6
    X = rng.normal(size=(N, d)) * np.geomspace(0.3, 3.0, d)
    y = X @ rng.normal(size=d) + rng.normal(size=N)
    H = X.T @ X + np.eye(d)
    mode, sd = np.linalg.solve(H, X.T @ y), np.sqrt(np.diag(np.linalg.inv(H)))
    X, y = jnp.asarray(X), jnp.asarray(y)

    def gradient(key, w):
        rows = jax.random.randint(key, (B,), 0, N)
        return w + N / B * X[rows].T @ (X[rows] @ w - y[rows])

    around = jax.vmap(lambda i: gradient(jax.random.fold_in(jax.random.key(9), i), jnp.asarray(mode)))(jnp.arange(64))
    noise = jnp.var(around, axis=0, ddof=1)
    state, _ = default_state_and_step(jnp.asarray(H))
    state = state._replace(position=jnp.asarray(mode))
    curvature = sghmc.largest_curvature(jax.random.key(1), lambda u: jnp.asarray(H) @ u, state)
    ratio = sghmc.noise_ratio(noise, state.scale, state.preconditioner, checks.settings(1.0, FRICTION))
    step_size = sghmc.stable_step_size(curvature, Budget.stiffness, ratio)
    assert float(step_size**2 * ratio) <= 0.3 + 1e-9
    trace = checks.simulate(4, gradient, state, checks.settings(step_size, noise=noise), 32, 500, 2500, 10)
    assert np.all(trace.fraction_clamped == 0)
    found = np.sqrt(np.mean((trace.position - mode) ** 2, axis=(0, 1)))
    assert np.all((found / sd > 0.9) & (found / sd < 1.1)), found / sd


def test_full_batch_injects_exactly_the_thermostat_noise():
    """Without gradient noise the injected variance is 2 T η² α m, to the bit, whether Γ is None or zero."""
    V = jnp.asarray([0.25, 1.0, 16.0])
    state = sghmc.init(jnp.zeros(3))._replace(preconditioner=V)
    exact, _ = sghmc.step(jax.random.key(0), state, jnp.zeros(3), checks.settings(0.1, temperature=0.5))
    zero, info = sghmc.step(jax.random.key(0), state, jnp.zeros(3), checks.settings(0.1, 0.05, 0.5, jnp.zeros(3)))
    np.testing.assert_array_equal(exact.momentum, zero.momentum)
    xi = sghmc.normal_like(jax.random.key(0), jnp.zeros(3))
    np.testing.assert_allclose(exact.momentum, np.sqrt(2 * 0.5 * 0.1**2 * 0.05 / np.sqrt(V)) * xi, rtol=1e-12)
    assert info.fraction_clamped == 0


def test_gradient_noise_is_subtracted_from_the_injected_noise():
    """η⁴ m² Γ less variance is injected, in the units of the raw gradient."""
    state = sghmc.init(jnp.zeros(2), jnp.asarray([1.0, 3.0]))
    quiet, _ = sghmc.step(jax.random.key(0), state, jnp.zeros(2), checks.settings(0.1))
    noisy, _ = sghmc.step(jax.random.key(0), state, jnp.zeros(2), checks.settings(0.1, noise=jnp.ones(2)))
    share = 0.1**2 * np.array([1.0, 9.0]) / (2 * 0.05)
    np.testing.assert_allclose((noisy.momentum / quiet.momentum) ** 2, 1 - share, rtol=1e-10)


def test_clamping_is_never_silent():
    checks.check_clamping_is_reported()


def test_only_warmup_steps_adapt():
    checks.check_step_freezes_the_preconditioner()


def test_preconditioner_does_not_depend_on_the_temperature():
    """Gradients √T times as large at temperature T teach the same curvature."""
    state, g = sghmc.init(jnp.zeros(3)), jnp.asarray([1.0, -2.0, 30.0])
    cold = sghmc.adapt(state, 0.1 * g, jnp.asarray(0.01))
    warm = sghmc.adapt(state, g, jnp.asarray(1.0))
    for a, b in zip(jax.tree.leaves(cold), jax.tree.leaves(warm), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_cold_chain_goes_to_the_mode():
    start = sghmc.init(jnp.full(1, 3.0))
    trace = checks.simulate(5, log_gamma_gradient(2.0), start, checks.settings(0.1, temperature=0.0), 2, 2000, 10)
    np.testing.assert_allclose(trace.position, np.log(2.0), atol=1e-8)


def test_rescaled_coordinates_give_the_same_chain():
    """Position c·θ with scale c and energy U(position/c) is the chain of θ, seen through a ruler."""
    c = jnp.asarray([1e-3, 1.0, 50.0])
    H, _ = checks.ill_conditioned(3, 10.0)
    s = checks.settings(0.1)
    plain = checks.simulate(6, lambda key, x: H @ x, sghmc.init(jnp.ones(3)), s, 2, 0, 200)
    scaled = checks.simulate(6, lambda key, x: H @ (x / c) / c, sghmc.init(c, c), s, 2, 0, 200)
    np.testing.assert_allclose(scaled.position / np.asarray(c), plain.position, rtol=1e-9)
    np.testing.assert_allclose(scaled.kinetic_temperature, plain.kinetic_temperature, rtol=1e-9)


def test_normal_like_is_standard_normal_in_every_leaf():
    tree = {"a": jnp.zeros((100, 60)), "b": jnp.zeros((5000,), jnp.float32), "c": jnp.zeros(())}
    draws = sghmc.normal_like(jax.random.key(8), tree)
    for name in ("a", "b"):
        assert draws[name].shape == tree[name].shape and draws[name].dtype == tree[name].dtype
        assert scipy.stats.kstest(np.ravel(draws[name]), "norm").pvalue > 1e-4
    checks.check_every_leaf_has_its_own_noise()


def test_successive_steps_draw_fresh_noise():
    checks.check_every_step_has_its_own_noise()


def test_refreshed_momentum_has_the_stationary_temperature():
    V = jnp.asarray([0.5, 2.0, 8.0])
    s = checks.settings(0.1, temperature=0.7)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(4000))
    momentum = jax.vmap(lambda k: sghmc.refresh_momentum(k, jnp.zeros(3), V, s))(keys)
    kinetic = jax.vmap(lambda v: sghmc.kinetic_temperature(v, V, s))(momentum)
    checks.assert_within_errors(kinetic, 0.7)


def test_curvature_scale_makes_axes_of_a_diagonal_target_equal():
    """Down to curvature one, the least that a prior has."""
    k = jnp.asarray([1e-2, 1.0, 400.0])
    scale = sghmc.curvature_scale(jax.random.key(0), lambda u: k * u, jnp.zeros(3), jnp.zeros(3))
    np.testing.assert_allclose(scale, jnp.maximum(k, 1.0) ** -0.5, rtol=1e-10)


def test_largest_curvature_is_the_largest_eigenvalue():
    H, state = checks.ill_conditioned()
    largest = checks.step_for(H, state, 1.0) ** -2
    found = sghmc.largest_curvature(jax.random.key(0), lambda u: H @ u, state, 200)
    np.testing.assert_allclose(found, largest, rtol=1e-3)
    assert sghmc.largest_curvature(jax.random.key(0), lambda u: H @ u, state) <= largest * (1 + 1e-9)


def test_gradient_noise_is_compared_with_what_is_injected_at_the_temperature():
    """Cold chains inject less, so the same gradient noise is a larger share and the step must be shorter."""
    one = {"a": jnp.ones(3)}
    ratios = [sghmc.noise_ratio(one, one, one, checks.settings(1.0, 0.1, t)) for t in (1.0, 0.25)]
    np.testing.assert_allclose(ratios, [5.0, 20.0])
    warm, cold = (float(sghmc.stable_step_size(jnp.asarray(1e-6), 0.07, r)) for r in ratios)
    np.testing.assert_allclose(cold, warm / 2)


def test_a_leaf_with_too_much_noise_shows_in_its_kinetic_temperature(monkeypatch):
    """The other leaf follows its exact law, s = η²; 500 steps hold 25 independent momenta a coordinate or more."""
    sound, step_size = sghmc._momentum_update, 0.4

    def loud(xi, gradient, momentum, preconditioner, noise, settings):
        louder = 1.2 if xi.shape == (999,) else 1.0
        return sound(louder * xi, gradient, momentum, preconditioner, noise, settings)

    def body(state, index):
        key = jax.random.fold_in(jax.random.key(0), index)
        state, info = sghmc.step(key, state, state.position, checks.settings(step_size, 0.05))
        return state, info.kinetic_temperature

    monkeypatch.setattr(sghmc, "_momentum_update", loud)
    start = sghmc.init({"loud": jnp.zeros(999), "sound": jnp.zeros(1000)})
    _, found = jax.jit(lambda s: jax.lax.scan(body, s, jnp.arange(1000)))(start)
    kinetic = jax.tree.map(lambda a: float(jnp.mean(a[500:])), found)
    exact, error = 1 / (1 - step_size**2 / (2 * 1.95)), np.sqrt(2 / (1000 * 25))
    np.testing.assert_allclose(kinetic["sound"], exact, atol=4.5 * error)
    np.testing.assert_allclose(kinetic["loud"], 1.44 * exact, atol=4.5 * 1.44 * error)
