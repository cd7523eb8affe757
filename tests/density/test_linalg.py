"""One rule for jitter, derivatives through it, and no deadlock."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from threadpoolctl import threadpool_info

from gpbae import linalg
from gpbae.processes import runtime

OPTIMISED = True

RNG = np.random.default_rng(0)

cholesky = jax.jit(linalg.cholesky)
cholesky_with_level = jax.jit(linalg.cholesky_with_level)
solve_triangular = jax.jit(linalg.solve_triangular, static_argnums=2)
gradient_of_log_determinant = jax.jit(jax.grad(lambda K: jnp.sum(linalg.log_determinant(linalg.cholesky(K)))))


def covariance(size, smallest=0.1, scale=1.0, batch=()):
    """Symmetric, mean of the diagonal `scale`, smallest eigenvalue `smallest` times that."""
    Q = np.linalg.qr(RNG.normal(size=(*batch, size, size)))[0]
    eigenvalues = np.linspace(1.0, 2.0, size - 1)
    eigenvalues *= (size - smallest) / eigenvalues.sum()
    return jnp.asarray(scale * (Q * np.append(eigenvalues, smallest)) @ np.swapaxes(Q, -1, -2))


def with_uneven_diagonal(size):
    d = np.diag(np.linspace(0.5, 3.0, size))
    return jnp.asarray(d @ np.asarray(covariance(size)) @ d)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_jitter_is_one_millionth_of_the_mean_of_the_diagonal(scale):
    K = scale * with_uneven_diagonal(6)
    L = cholesky(K)
    np.testing.assert_allclose((L @ L.T - K) / jnp.mean(jnp.diagonal(K)), 1e-6 * np.eye(6), atol=1e-14)


@pytest.mark.parametrize(("smallest", "level"), [(0.1, 0), (0.0, 0), (-3e-6, 1), (-3e-5, 2), (-3e-4, 3)])
def test_jitter_grows_tenfold_until_the_factor_exists(smallest, level):
    K = covariance(6, smallest, scale=7.0)
    L, found = cholesky_with_level(K)
    assert found == level
    np.testing.assert_allclose(L @ L.T, K + 7.0 * 1e-6 * 10.0**level * np.eye(6), atol=1e-13)
    np.testing.assert_array_equal(L, jnp.tril(L))


def test_an_indefinite_matrix_gives_nan_and_a_sentence():
    L, level = cholesky_with_level(covariance(6, -0.01))
    assert np.all(np.isnan(L[np.tril_indices(6)])) and level == linalg.NUM_LEVELS - 1
    assert "smallest eigenvalue is -0.01" in linalg.explain_failure(covariance(6, -0.01))
    assert "1 entries that are not finite" in linalg.explain_failure(jnp.eye(6).at[0, 0].set(jnp.nan))


def test_a_zero_matrix_has_a_factor():
    np.testing.assert_allclose(cholesky(jnp.zeros((6, 6))), 1e-3 * np.eye(6), rtol=1e-12)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_a_batch_is_its_members(transform):
    K = jnp.stack([covariance(6, smallest) for smallest in (0.1, -3e-6, -0.01, -3e-4)])
    L, level = transform(cholesky_with_level)(K)
    one_by_one = [cholesky_with_level(k) for k in K]
    np.testing.assert_array_equal(level, [one[1] for one in one_by_one])
    np.testing.assert_allclose(L, jnp.stack([one[0] for one in one_by_one]), rtol=1e-9)


def test_leading_dimensions_are_free():
    K, B = covariance(4, batch=(2, 3)), jnp.asarray(RNG.normal(size=(2, 3, 4, 5)))
    L = cholesky(K)
    expected = np.linalg.solve(np.asarray(L @ jnp.swapaxes(L, -1, -2)), B)
    np.testing.assert_allclose(linalg.cholesky_solve(L, B), expected, rtol=1e-10)
    assert linalg.log_determinant(L).shape == linalg.gaussian_log_density(B[..., 0], L).shape == (2, 3)
    shared = linalg.solve_triangular(L[:1, :1], B)
    np.testing.assert_allclose(shared[1, 2], linalg.solve_triangular(L[0, 0], B[1, 2]), rtol=1e-12)


@pytest.mark.parametrize("num_right", [1, 3, 6, 20])
@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_solve_agrees_with_scipy(num_right, transpose):
    L = cholesky(covariance(6, 0.0))
    B = RNG.normal(size=(6, num_right))
    expected = scipy.linalg.solve_triangular(L, B, lower=True, trans=int(transpose))
    actual = solve_triangular(L, jnp.asarray(B), transpose)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_gaussian_log_density_agrees_with_scipy():
    K, r = covariance(6), RNG.normal(size=6)
    L = cholesky(K)
    expected = scipy.stats.multivariate_normal.logpdf(r, cov=np.asarray(L @ L.T))
    np.testing.assert_allclose(linalg.gaussian_log_density(jnp.asarray(r), L), expected, rtol=1e-12)
    np.testing.assert_allclose(linalg.log_determinant(L), np.linalg.slogdet(np.asarray(L @ L.T))[1], rtol=1e-12)


def energy(direction, num_right):
    """An energy along K(t) = K₀ ∘ exp(t H), that uses all there is to differentiate."""

    def value(t, K):
        L = linalg.cholesky(K * jnp.exp(t * direction))
        B = jnp.asarray(np.cos(np.arange(6.0 * num_right)).reshape(6, num_right))
        A = linalg.solve_triangular(L, B)
        return jnp.sum(A**3) + linalg.log_determinant(L) + jnp.sum(linalg.cholesky_solve(L, B) ** 2)

    return value


@pytest.mark.parametrize("num_right", [2, 8])
def test_gradient_and_hessian_product_are_those_of_central_differences(num_right):
    H = RNG.normal(size=(6, 6))
    f = jax.jit(energy(jnp.asarray(H + H.T), num_right))
    K, t, h = covariance(6), 0.01, 1e-5
    gradient = jax.jit(jax.grad(f))
    np.testing.assert_allclose(gradient(t, K), (f(t + h, K) - f(t - h, K)) / (2 * h), rtol=1e-6)
    _, product = jax.jvp(lambda s: gradient(s, K), (t,), (1.0,))
    np.testing.assert_allclose(product, (gradient(t + h, K) - gradient(t - h, K)) / (2 * h), rtol=1e-6)


@jax.jit
def log_determinant_of_scaled(K):
    """First and second derivative of log |e^t K| in t."""
    gradient = jax.grad(lambda t: linalg.log_determinant(linalg.cholesky(jnp.exp(t) * K)))
    return jax.jvp(gradient, (0.3,), (1.0,))


@pytest.mark.parametrize("smallest", [0.1, -3e-6, -3e-4])
def test_scaling_a_covariance_has_exact_derivatives_at_every_level_of_jitter(smallest):
    """log |e^t K| = M t + log |K| if and only if the jitter is relative, in the value and in the derivative."""
    first, second = log_determinant_of_scaled(covariance(6, smallest))
    np.testing.assert_allclose(first, 6.0, rtol=1e-8)
    np.testing.assert_allclose(second, 0.0, atol=1e-5)


def test_gradient_after_escalation_is_that_of_the_matrix_with_that_jitter():
    K = covariance(6, -3e-6)
    K_plus = K + 1e-5 * jnp.mean(jnp.diagonal(K)) * jnp.eye(6)
    L = jnp.linalg.cholesky(K_plus)
    W = jnp.linalg.inv(K_plus)
    expected = W + 1e-5 * jnp.trace(W) / 6.0 * jnp.eye(6)
    actual = gradient_of_log_determinant(K)
    np.testing.assert_allclose(cholesky(K), L, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_a_failed_member_leaves_the_gradients_of_the_others_alone():
    K = jnp.stack([covariance(6), covariance(6, -0.5), covariance(6, -3e-6)])

    together = gradient_of_log_determinant(K)
    assert np.all(np.isnan(together[1]))
    np.testing.assert_allclose(together[0], gradient_of_log_determinant(K[0]), rtol=1e-9)
    np.testing.assert_allclose(together[2], gradient_of_log_determinant(K[2]), rtol=1e-6)


def test_a_sound_matrix_is_factorised_once():
    """The retry sits in the body of a loop that is not entered; outside it there is one factorisation."""
    text = jax.jit(linalg.cholesky).lower(covariance(6, batch=(3,))).as_text()
    before_the_loop = text[: text.index("stablehlo.while")]
    assert before_the_loop.count("potrf") == 1


@pytest.mark.parametrize("version", ["0.10.0", "0.10.1", "0.10.2", "0.11.0", "0.10.1.dev20260301"])
def test_a_jaxlib_that_deadlocks_is_refused(version):
    with pytest.raises(ImportError, match=f"jaxlib {version}.*pip install"):
        runtime.check_jaxlib(version)


@pytest.mark.parametrize("version", ["0.9.2", "0.11.1", "0.11.2", "0.12.0", "0.12.0.1"])
def test_a_sound_jaxlib_is_accepted(version):
    runtime.check_jaxlib(version)


def test_only_scipys_blas_is_limited_to_one_thread():
    def numpys():
        return [info["num_threads"] for info in threadpool_info() if "numpy.libs" in info["filepath"]]

    before = numpys()
    if not runtime.limit_blas_threads.__wrapped__():
        pytest.skip("SciPy brings no OpenBLAS of its own here")
    assert {info["num_threads"] for info in threadpool_info() if "scipy.libs" in info["filepath"]} <= {1}
    assert numpys() == before


def run_python(script, timeout, **environment):
    """Run a script in a fresh process that is killed after `timeout` seconds."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    source = os.path.dirname(os.path.dirname(linalg.__file__))
    environment = {**os.environ, "PYTHONPATH": source, **environment}
    return subprocess.run(command, timeout=timeout, env=environment, capture_output=True, text=True)


def test_importing_kernels_starts_no_backend_and_loads_no_lapack():
    script = """
        import sys, gpbae.kernels
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
        assert "scipy.linalg" not in sys.modules
    """
    done = run_python(script, timeout=60)
    assert done.returncode == 0, done.stderr


CHAINS_WITH_A_KERNEL_PER_LATENT = """
    import os
    if os.environ["ONE_CORE"] == "yes":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import jax, jax.numpy as jnp
    import gpbae
    from gpbae.kernels import RBF, gram
    from gpbae.linalg import cholesky, gaussian_log_density, solve_triangular

    S, X = jnp.linspace(0.0, 1.0, 8)[:, None], jnp.linspace(0.0, 1.0, 12)[:, None]

    def energy(kernel, v):
        A = solve_triangular(cholesky(gram(kernel, S, S)), gram(kernel, S, X))
        exact = cholesky(gram(kernel, X, X) + 0.1 * jnp.eye(12))
        return gaussian_log_density(jnp.sin(X[:, 0]), exact) - jnp.sum((A.T @ v) ** 2) - v @ v

    gradient = jax.vmap(jax.vmap(jax.grad(energy, argnums=(0, 1))))

    @jax.jit
    def run(state):
        def step(state, _):
            return jax.tree.map(lambda a, g: a + 1e-6 * jnp.tanh(g), state, gradient(*state)), None
        return jax.lax.scan(step, state, None, length=1000)[0]

    chains = jax.tree.map(lambda a: jnp.broadcast_to(a, (4, 3, *a.shape)), (RBF(0.3), jnp.ones(8)))
    in_flight = [run(chains) for _ in range(3)]
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(jax.block_until_ready(in_flight)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pinning to a core is Linux only")
@pytest.mark.parametrize("one_core", ["no", "yes"])
def test_batched_factorisations_do_not_deadlock(one_core):
    """A watchdog: thousands of steps, several runs in flight, a pool of two threads, on two cores and on one."""
    done = run_python(CHAINS_WITH_A_KERNEL_PER_LATENT, timeout=120, ONE_CORE=one_core, NPROC="2")
    assert done.returncode == 0, done.stderr
