"""End to end, through the public surface: what `gpbae verify` shows, and what a chain must never do."""

import hashlib

import jax
import numpy as np
import pytest

from gpbae import networks, verify
from gpbae.estimators import GPBAE
from gpbae.kernels import RBF
from gpbae.likelihoods import Gaussian
from gpbae.sampling import inference, run

OPTIMISED = True

REGRESSION = [(1, False, False), (1, True, False), (2, False, True), (2, True, True)]
MORE_REGRESSION = [(1, False, True), (1, True, True), (2, False, False), (2, True, False)]


def check_regression(case):
    n = verify.gp_regression(*case)
    assert n["mean"] <= 0.1 and n["low"] >= 0.93 and n["high"] <= 1.07, n


@pytest.mark.parametrize("case", REGRESSION)
def test_identity_decoder_is_gaussian_process_regression(case):
    check_regression(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE_REGRESSION)
def test_identity_decoder_is_gaussian_process_regression_in_the_other_cases(case):
    check_regression(case)


def test_some_fitted_rows_are_imputed_as_the_whole_table_is():
    """Latent noise makes a row's latent more than the function there: rows that were fitted keep the latents that the
    chain sampled, whoever else is asked for, and are regression on the noisy covariance K + σ²I.  A row never seen that
    brings no cells is a prediction."""
    rng = np.random.default_rng(3)
    x, y, noise = np.linspace(0, 1, 9)[:, None], rng.standard_normal((9, 1)), 0.5
    model = GPBAE(decoder="identity", sample_hyperparameters=False, standardise=False, kernel=RBF(lengthscale=0.3),
                  likelihood=Gaussian(noise=noise, learn_noise=False), latent_noise=noise, progress=False, num_chains=2,
                  num_warmup=40, num_samples=300, thinning=4, encoder_steps=1, num_map_steps=0).fit(x, y)  # fmt: skip
    K = np.exp(-0.5 * ((x - x.T) / 0.3) ** 2) + noise**2 * np.eye(9)
    gain = K @ np.linalg.inv(K + noise**2 * np.eye(9))
    sd = np.sqrt(np.diag(K - gain @ K))
    asked, picked = [0.55, *x[[6, 2, 3], 0]], [6, 2, 3]
    some = model.impute(np.array(asked)[:, None], np.array([np.nan, *y[picked, 0]])[:, None])
    whole = model.impute(x, y)
    np.testing.assert_array_equal(some.mean[1:], whole.mean[picked])
    np.testing.assert_allclose((whole.mean - gain @ y)[:, 0] / sd, 0, atol=0.25)
    found = np.sqrt(whole.sd**2 - noise**2)[:, 0]
    np.testing.assert_allclose(found / sd, 1, atol=0.15)
    k = np.exp(-0.5 * ((x[:, 0] - 0.55) / 0.3) ** 2)
    expected = k @ np.linalg.inv(K + noise**2 * np.eye(9)) @ y
    np.testing.assert_allclose(some.mean[0], expected, atol=0.25)


@pytest.mark.parametrize(
    "identity",
    [
        verify.sparse_is_exact,
        verify.one_layer_is_sparse,
        verify.white_kernel_is_independent,
        verify.minibatches_average,
    ],
)
def test_densities_agree(identity):
    assert identity()["difference"] <= 1e-6


def test_half_the_inducing_inputs_are_not_enough():
    assert verify.sparse_is_exact(every=2)["difference"] > 1e-4


def test_sampler_follows_its_exact_law():
    n = verify.gaussian_law()
    assert max(n.values()) <= 4.5, n


def test_cold_chain_rests_at_the_map():
    n = verify.cold_is_map()
    assert 0.9 <= n["ratio"] <= 1.1, n


# What a fitted model does


def fingerprint(tree):
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def small_fit(**arguments):
    settings = {"num_warmup": 200, "num_samples": 100, "thinning": 20}
    linear = networks.Linear().decoder(jax.random.key(3), 1, (3,))
    return verify.small_model(linear, **(settings | arguments)).fit(*verify.small_table())


@pytest.fixture(scope="module")
def fitted():
    return small_fit()


def test_every_block_has_kinetic_temperature_one(fitted):
    found = {name: float(np.ravel(t)[0]) for name, t in fitted.kinetic_temperatures_().items()}
    sampled = {"decoder", "GP values", "inducing inputs", "hyper-parameters", "observation noise", "latents"}
    assert set(found) == sampled
    assert all(abs(t - 1) <= 0.05 for t in found.values()), found
    shown = fitted.diagnostics()["kinetic_temperature"].dropna()
    assert len(shown) == len(found)
    assert not any("optimisation" in sentence for sentence in fitted.diagnostics().attrs["warnings"])


def test_a_cold_run_is_called_optimisation():
    cold = small_fit(temperature=1e-3, num_samples=4)
    assert any("optimisation" in sentence for sentence in cold.diagnostics().attrs["warnings"])


def test_predicting_does_not_change_the_chain(fitted):
    x, y = verify.small_table()
    before = fingerprint((fitted.draws_, fitted.encoders_))
    first = fitted.predict(x[:5]).mean
    fitted.impute(x, y), fitted.encode(x[:5], y[:5]), fitted.sample(x[:5], 3), fitted.score(x, y)
    assert fingerprint((fitted.draws_, fitted.encoders_)) == before
    assert np.array_equal(fitted.predict(x[:5]).mean, first)


def test_same_seed_gives_the_same_draws(fitted):
    again = small_fit(num_samples=5)
    np.testing.assert_array_equal(again.draws_.local, fitted.draws_.local[:, :5])
    other = small_fit(num_samples=1, seed=1)
    assert not np.array_equal(other.draws_.local, fitted.draws_.local[:, :1])


def small_sampler(budget, num_chains=2):
    """The pieces of a run, before it starts."""
    estimator = GPBAE(decoder="identity", sample_hyperparameters=False, encoder_steps=1, num_chains=num_chains)
    model, plan, table, *rest = estimator._prepare(*verify.small_table(num_rows=7), None)
    chains, static = estimator._start(model, plan, table, *rest)
    return run.Sampler(model, plan, table, static, chains, budget, lambda event: None)


BUDGET = run.Budget(4, 6, 2, 0, 0.05, 1.0, "auto")


def test_chains_do_not_depend_on_how_many_there_are():
    """Bit for bit, step sizes included.  One chain alone is the same to rounding only: XLA then leaves the axis out."""
    two, four = (small_sampler(BUDGET, n).run() for n in (2, 4))
    assert len(set(four.step_sizes)) == 4
    np.testing.assert_array_equal(two.step_sizes, four.step_sizes[:2])
    for a, b in zip(jax.tree.leaves(two.draws), jax.tree.leaves(four.draws), strict=True):
        np.testing.assert_array_equal(a, b[:2])


def test_what_warm_up_learned_is_frozen_afterwards():
    sampler = small_sampler(BUDGET)
    sampler._climb()
    sampler._warm_up()
    names = ("preconditioner", "smoothed", "window", "scale")
    before = {name: fingerprint(getattr(sampler.chains.sampler, name)) for name in names}
    step_sizes = sampler.step_sizes.copy()
    sampler._sample()
    assert {name: fingerprint(getattr(sampler.chains.sampler, name)) for name in names} == before
    np.testing.assert_array_equal(sampler.step_sizes, step_sizes)
    start = jax.tree.leaves(sampler.chains.sampler.window)
    assert all(np.all(np.asarray(leaf) > 30.0) for leaf in start)  # it did learn, all through warm-up


def test_every_phase_compiles_once_and_traces_its_density_once(monkeypatch):
    """Warm-up and sampling share one program, whatever the temperature and the step size; nor does a second run of the
    same shape compile anything."""
    compiled, traced, sweep = [], [], inference._sweep
    monkeypatch.setattr(inference, "_sweep", lambda *args: traced.append(1) or sweep(*args))
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **facts: compiled.append(facts.get("fun_name")) if "backend_compile" in event else None
    )
    try:
        for num_warmup in (6, 8):
            verify.small_model(num_warmup=num_warmup, num_samples=5, thinning=2).fit(*verify.small_table(num_rows=11))
    finally:
        jax.monitoring.clear_event_listeners()
    assert [compiled.count(f"jit({name})") for name in ("climb", "measured", "run_block")] == [1, 1, 1]
    assert len(traced) == 1


def test_verify_reports_every_theorem(monkeypatch):
    passing = (lambda: {"x": 1.0}, "≤ 2", lambda n: n["x"] <= 2, lambda n: str(n["x"]))
    monkeypatch.setattr(verify, "_checks", lambda quick: {"one": passing, "two": (*passing[:2], lambda n: False, str)})
    heard = []
    first, second = verify.run(quick=True, listener=heard.append)
    assert heard == ["one", "two"] and first.passed and not second.passed and first.figure == "1.0"
