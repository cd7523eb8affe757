"""R-hat and ESS are ArviZ's; words say what a number means; nothing is called converged that was not measured."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

from gpbae import SGPBAE, likelihoods, weights
from gpbae.answering import advice, diagnostics, posterior
from gpbae.answering.advice import Trouble
from gpbae.autoencoder import Autoencoder, Position
from gpbae.kernels import RBF
from gpbae.priors import NormalPrior
from gpbae.sampling.batches import Table

OPTIMISED = True

NOW = {"num_warmup": 300, "thinning": 10, "num_samples": 50, "num_draws": 200, "step_size": 0.0123, "batch_size": 64,
       "num_inducing": 32, "latent_noise": 0.1}  # fmt: skip
FACTS = {"temperature": 1.0, "fraction_clamped": 0.0, "num_chains": 4, "dead": (), "now": NOW}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def autoregressive(rng, shape=(4, 200), rho=0.6):
    chains = rng.standard_normal(shape)
    for t in range(1, shape[1]):
        chains[:, t] += rho * chains[:, t - 1]
    return chains


def sentences(scalars, temperatures=None, manner=advice.COMMANDS, **facts):
    frame = diagnostics.table(scalars, temperatures or {"latents": (1.0, 0.01)})
    return diagnostics.warnings(frame, {**FACTS, **facts}, manner)


def test_r_hat_and_ess_are_those_of_arviz(rng):
    chains = autoregressive(rng)
    rhat, ess = diagnostics.convergence(chains)
    assert rhat == array_stats.rhat(chains, chain_axis=0, draw_axis=1, method="rank")
    assert ess == array_stats.ess(chains, chain_axis=0, draw_axis=1, method="bulk")
    assert rhat < 1.05
    assert ess < chains.size / 2


def test_chains_in_different_modes_are_flagged(rng):
    modes = np.array([-5.0, 5.0, -5.0, 5.0])[:, None]
    chains = modes + rng.standard_normal((4, 100))
    assert diagnostics.convergence(chains)[0] > 1.5
    assert any("Chains disagree" in s for s in sentences({"a": chains}))


def test_one_bad_quantity_among_many_is_named(rng):
    good = {f"output {i}": rng.standard_normal((4, 100)) for i in range(29)}
    bad = np.array([-5.0, 5.0, -5.0, 5.0])[:, None] + rng.standard_normal((4, 100))
    assert sentences(good) == []
    (said,) = sentences({**good, "lengthscale": bad})
    assert "Chains disagree about lengthscale" in said


def test_a_drifting_chain_is_flagged(rng):
    chains = np.linspace(0, 10, 100)[None] + rng.standard_normal((4, 100))
    assert diagnostics.convergence(chains)[0] > 1.5


def test_good_chains_get_no_words(rng):
    assert sentences({"a": rng.standard_normal((4, 200))}, {"latents": (1.01, 0.01)}) == []


def test_one_chain_has_no_r_hat(rng):
    rhat, ess = diagnostics.convergence(rng.standard_normal((1, 200)))
    assert np.isnan(rhat)
    assert 100 < ess < 400
    assert any("R-hat is not available from one chain" in s for s in sentences({}, num_chains=1))


@pytest.mark.parametrize(
    "chains",
    [np.full((4, 100), 3.0), np.full((4, 100), np.nan), np.ones((4, 3)), np.r_[np.inf, np.ones(99)][None].repeat(4, 0)],
    ids=["constant", "NaN", "short", "infinite"],
)
def test_what_cannot_be_measured_is_not_called_one(chains):
    rhat, ess = diagnostics.convergence(chains)
    assert np.isnan(rhat)
    assert np.isnan(ess)


def test_few_independent_draws_are_said(rng):
    said = sentences({"a": autoregressive(rng, (4, 100), 0.99)})
    assert any("Few independent draws" in s or "Chains disagree" in s for s in said)


@pytest.mark.parametrize(("value", "word"), [(1.2, "hotter"), (0.7, "colder")])
def test_a_wrong_kinetic_temperature_is_said(value, word):
    (said,) = sentences({}, {"decoder": (value, 0.01)})
    assert "decoder" in said
    assert word in said


def test_a_temperature_within_its_error_is_not_blamed():
    assert sentences({}, {"decoder": (1.2, 0.1)}) == []


def test_optimisation_is_called_optimisation():
    said = sentences({}, {"decoder": (1e-3, 1e-6)}, temperature=1e-3)
    assert any("optimisation, not sampling" in s for s in said)


def test_clamping_and_dead_chains_are_said():
    assert any("Minibatch noise exceeded" in s for s in sentences({}, fraction_clamped=0.02))
    assert any("Chain 2 diverged" in s for s in sentences({}, dead=(2,)))
    (said,) = sentences({}, dead=np.array([2]), because={2: "the terms likelihood"})
    assert said.startswith("Chain 2 diverged and was stopped (not finite: the terms likelihood)")


class Factorised(NormalPrior):
    """A prior with a matrix that is not quite a covariance."""

    def covariances(self, hyper, batch):
        return jnp.eye(5), jnp.diag(jnp.array([1.0, 1.0, 1.0, 1.0, 0.0])).at[4, 4].add(-hyper["deficit"])[None]


def test_jitter_that_was_raised_is_said():
    """10⁻⁵ below zero takes a hundred times 10⁻⁶ of the mean variance, zero takes no more than usual."""
    draws = Position({"prior": {"deficit": jnp.array([0.0, 1e-5])}}, None, None)
    table = Table(jnp.zeros((2, 1)), jnp.zeros((2, 1)), jnp.ones((2, 1), bool), jnp.zeros(2, jnp.int32),
                  jnp.arange(2, dtype=jnp.int32)[None])  # fmt: skip
    model = Autoencoder(Factorised(1), None, weights.FanIn(), likelihoods.Gaussian(), False)
    levels = posterior.jitter_levels(model, draws, table)
    np.testing.assert_array_equal(levels, [0, 2])
    (said,) = sentences({}, jitter=np.asarray(levels))
    assert "up to 100 times the usual jitter, in 50% of the draws" in said
    assert sentences({}, jitter=np.zeros(3, int)) == []


def test_the_table_has_a_row_per_quantity_and_block(rng):
    chains = rng.standard_normal((4, 50))
    frame = diagnostics.table({"lengthscale": chains}, {"latents": (1.02, 0.01)})
    assert list(frame.index) == ["lengthscale", "block: latents"]
    assert frame.loc["lengthscale", "mean"] == pytest.approx(chains.mean())
    assert frame.loc["block: latents", "kinetic_temperature"] == 1.02


def test_a_table_of_nothing_has_no_rows_but_its_columns(rng):
    empty, full = diagnostics.table({}, {}), diagnostics.table({"a": rng.standard_normal((4, 50))}, {})
    assert len(empty) == 0 and len(full) == 1
    assert list(empty.columns) == list(full.columns) and (empty.dtypes == full.dtypes).all()
    assert empty.index.name == full.index.name == "quantity"
    assert diagnostics.warnings(empty, FACTS) == []


def test_moves_that_are_hardly_ever_accepted_are_named(rng):
    good = {"a": rng.standard_normal((4, 200))}
    assert any("accepted 3% of the time" in s for s in sentences(good, acceptance=0.03))
    assert sentences(good, acceptance=0.8, latents_acceptance=0.8) == []
    assert any("latents that rows keep on disk are accepted 3%" in s for s in sentences(good, latents_acceptance=0.03))


def test_a_column_nobody_observed_is_named(rng):
    assert any("column zinc" in s for s in sentences({"a": rng.standard_normal((4, 200))}, unseen=["zinc"]))


@pytest.mark.parametrize("is_smooth", [True, False])
def test_what_inputs_alone_say_is_measured(rng, is_smooth):
    """A smooth curve is said by its inputs; of white noise they say next to nothing, and a sentence says that."""
    x = np.linspace(0, 1, 120)[:, None]
    y = np.sin(8 * x) if is_smooth else rng.standard_normal(x.shape)
    model = SGPBAE(decoder="identity", kernel=RBF(lengthscale=0.1, variance=1.0 if is_smooth else 0.05),
                   latent_noise=0.1 if is_smooth else 1.0, sample_hyperparameters=False, sample_inducing=False,
                   likelihood=likelihoods.Gaussian(noise=0.1, learn_noise=False), num_inducing=20, num_chains=1,
                   num_warmup=40, num_samples=8, thinning=1, num_map_steps=50, progress=False).fit(x, y)  # fmt: skip
    share = model._by_inputs()
    said = [words for words in model.diagnostics().attrs["warnings"] if "Inputs alone say" in words]
    assert (share > 0.9) == is_smooth == (not said)
    assert is_smooth or (share < 0.4 and "num_inducing (20 now)" in said[0])


def test_words_say_what_to_do_where_inputs_say_little():
    (said,) = sentences({}, by_inputs=0.41)
    assert "Inputs alone say 41%" in said and "raise num_inducing (32 now)" in said
    assert sentences({}, by_inputs=0.61) == []


TROUBLES = {
    "cold": (dict(temperature=1e-3), "--set temperature=1"),
    "hot": (dict(temperatures={"decoder": (1.2, 0.01)}), "--set step_size=0.0062"),
    "noisy": (dict(fraction_clamped=0.1), "--set batch_size=128"),
    "alone": (dict(num_chains=1), "--set num_chains=4"),
    "apart": (dict(scalars={"a": np.arange(4.0)[:, None] + np.linspace(0, 0.1, 50)}), "--set num_warmup=600"),
    "few": (dict(scalars={"a": np.sin(np.arange(200) / 30.0)[None].repeat(4, 0)}), "--set thinning=80"),
    "stuck": (dict(acceptance=0.1), "--set num_warmup=600"),
    "stuck latents": (dict(latents_acceptance=0.1), "--set num_warmup=600"),
    "dead": (dict(dead=(1, 2)), "--set step_size=0.0062"),
    "crowded": (dict(jitter=np.array([2])), "--set num_inducing=16"),
    "unseen": (dict(unseen=["a", "b c"]), "--exclude 'a,b c'"),
    "vague": (dict(by_inputs=0.3), "--set num_inducing=64"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_every_trouble_comes_with_the_command_that_mends_it(trouble):
    facts, option = TROUBLES[trouble]
    facts = {"temperatures": {}, "scalars": {}} | facts
    said = [words for words in sentences(**facts) if "in a new folder: gpbae fit … " in words]
    assert len(said) == 1 and f" {option} " in said[0] and said[0].rstrip(".").endswith("--out NEW")


@pytest.mark.parametrize("trouble", TROUBLES)
def test_who_calls_the_library_is_told_of_arguments_alone(trouble):
    facts, option = TROUBLES[trouble]
    facts = {"temperatures": {}, "scalars": {}, "manner": advice.CALLS} | facts
    said = " ".join(sentences(**facts))
    (call,) = re.findall(r": model\.set_params\((.*?)\)\.fit\(…\)", said) or [""]
    assert said and "gpbae fit" not in said and "--" not in said
    assert option.removeprefix("--set ") in call if option.startswith("--set") else said.endswith("Leave them out.")


def test_advice_moves_each_setting_where_it_helps():
    """Distance does not make eight draws fifty; warm-up shorter than a draw is rounded up anyway; noise is raised."""
    assert advice.on(Trouble.FEW_DRAWS, NOW | {"num_draws": 8, "num_samples": 4}).words == "Use num_samples=8"
    assert advice.on(Trouble.FEW_DRAWS, NOW | {"num_draws": 40, "num_samples": 20, "ess": 7.0}).words.endswith("=160")
    assert advice.on(Trouble.DISAGREEMENT, NOW | {"num_warmup": 3}).words == "Use num_warmup=20"
    assert advice.on(Trouble.CROWDED_INPUTS, NOW | {"num_inducing": 0}).words == "Use latent_noise=0.2"
    assert advice.in_sentences([("Empty.", advice.on_unseen(["y[0,3]"], False))], advice.COMMANDS) == [
        "Empty. Leave it out."
    ]
    assert advice.on_unseen(["y[0]"], of_images=True) is None


def test_chains_that_disagree_after_a_long_warm_up_are_not_told_to_be_longer_for_ever(rng):
    """The default is doubled twice, by whoever follows the advice."""
    asked, now = [], NOW | {"num_warmup": SGPBAE().num_warmup}
    while options := advice.on(Trouble.DISAGREEMENT, now).options:
        asked.append(options["num_warmup"])
        now = now | advice.REMEDIES[Trouble.DISAGREEMENT](now)
    assert asked == ["--set num_warmup=400", "--set num_warmup=800"]
    apart = np.array([-5.0, 5.0, -5.0, 5.0])[:, None] + rng.standard_normal((4, 100))
    said = " ".join(sentences({"a": apart}, now=now))
    assert "longer chains are hardly the way" in said and "num_warmup" not in said


def test_several_troubles_are_mended_by_one_command(rng):
    """Each setting once; of two values for one the first counts, and the other is not advised."""
    apart = np.array([-5.0, 5.0, -5.0, 5.0])[:, None] + rng.standard_normal((4, 100))
    hot = {"decoder": (1.3, 0.01), "latents": (1.2, 0.01)}
    *said, last = sentences({"a": apart}, hot, jitter=np.array([2]), by_inputs=0.3, unseen=["b"])
    assert last.startswith(advice.TOGETHER + "model.set_params(") and "gpbae fit … " in last
    assert last.endswith(" --out NEW")
    for option in ("--set step_size=0.0062", "--set num_warmup=600", "--set num_inducing=16", "--exclude b"):
        assert last.count(option) == 1
    assert not any("gpbae fit" in words or "num_inducing=64" in words for words in said)


def test_one_chain_left_of_several_is_not_one_chain_asked_for():
    said = sentences({}, num_chains=1, dead=(1, 2, 3))
    assert not any("num_chains=4" in words for words in said)
    assert any("diverged" in words for words in said)
