"""Likelihoods: SciPy's densities, hidden cells without a say, moments of their own draws; one row per likelihood."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import checks
from gpbae import likelihoods
from gpbae.errors import InputError
from gpbae.likelihoods import (
    Bernoulli,
    Blocks,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
    classes,
)

RNG = np.random.default_rng(0)
ETA = RNG.normal(size=(6, 4))
COLUMN_NOISE = np.array([0.1, 0.5, 1.0, 3.0])
LEVELS = np.array([0.4, 3.0, 30.0, 2000.0])
ODDS = np.array([0.2, 1.0, 3.0, 0.5])
SHARES = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [1, 1, 1], [0.01, 0.98, 0.01]])
DISPERSION = np.array([0.2, 1.0, 3.0, 0.05])


def per_column():
    gaussian = Gaussian(noise=1.0, per_column=True).initialise(np.zeros((2, 4)), np.ones((2, 4), bool))
    return jax.tree.map(lambda _: jnp.log(jnp.asarray(COLUMN_NOISE)), gaussian)


def with_offset(likelihood, offset):
    sized = likelihood.initialise(np.ones((2, 4)), np.ones((2, 4), bool))
    return eqx.tree_at(lambda n: n.offset, sized, jnp.asarray(np.log(offset)))


def negative_binomial():
    return eqx.tree_at(
        lambda n: n.log_dispersion, with_offset(NegativeBinomial(), LEVELS), jnp.asarray(np.log(DISPERSION))
    )


def negative_binomial_law(eta):
    mean, r = LEVELS * np.exp(eta), 1 / DISPERSION
    return scipy.stats.nbinom(r, r / (r + mean))


class ClassesLaw:
    """SciPy has no array of categorical laws."""

    def __init__(self, eta):
        p = SHARES * np.exp(eta.reshape(6, 4, 3))
        self.p = p / p.sum(axis=-1, keepdims=True)

    def rvs(self, random_state):
        u = np.random.default_rng(random_state).random((6, 4, 1))
        return (u > np.cumsum(self.p, axis=-1)).sum(axis=-1)

    def logpmf(self, y):
        return np.log(np.take_along_axis(self.p, np.asarray(y, int)[..., None], axis=-1)[..., 0])

    def cdf(self, y):
        return np.take_along_axis(np.cumsum(self.p, axis=-1), np.asarray(y, int)[..., None], axis=-1)[..., 0]

    def mean(self):
        return self.p @ np.arange(3.0)

    def var(self):
        return self.p @ np.arange(3.0) ** 2 - self.mean() ** 2


class BlocksLaw:
    """Columns 0 and 3 heteroscedastic, 1 Poisson, 2 Bernoulli; outputs in the order of the columns."""

    def __init__(self, eta):
        self.laws = [
            _heteroscedastic(eta[:, :2]),
            scipy.stats.poisson(LEVELS[1] * np.exp(eta[:, 2:3])),
            scipy.stats.bernoulli(scipy.special.expit(eta[:, 3:4] + np.log(5))),  # 2.5 of 3: two rows, both yes
            _heteroscedastic(eta[:, 4:]),
        ]

    def _all(self, each):
        return np.concatenate([each(law, slice(i, i + 1)) for i, law in enumerate(self.laws)], axis=1)

    def rvs(self, random_state):
        return self._all(lambda law, _: law.rvs(random_state=random_state))

    def logpmf(self, y):
        return self._all(
            lambda law, i: law.logpdf(y[:, i]) if hasattr(law.dist, "pdf") else law.logpmf(np.asarray(y[:, i]))
        )

    def cdf(self, y):
        return self._all(lambda law, i: law.cdf(np.asarray(y[:, i])))

    def mean(self):
        return self._all(lambda law, _: law.mean())

    def var(self):
        return self._all(lambda law, _: law.var())


def _heteroscedastic(eta):
    return scipy.stats.norm(eta[:, 0::2], np.sqrt(0.05**2 + 0.3**2 * np.exp(2 * eta[:, 1::2])))


def blocks():
    members = (HeteroscedasticGaussian(), Poisson(), Bernoulli())
    sized = Blocks(members, ((0, 3), (1,), (2,))).initialise(np.ones((2, 4)), np.ones((2, 4), bool))
    return eqx.tree_at(lambda b: b.members[1].offset, sized, jnp.asarray(np.log(LEVELS[1:2])))


FAMILIES = {
    "gaussian": (Gaussian(noise=0.3), lambda eta: scipy.stats.norm(eta, 0.3)),
    "gaussian, fixed": (Gaussian(noise=2.0, learn_noise=False), lambda eta: scipy.stats.norm(eta, 2.0)),
    "gaussian, per column": (per_column(), lambda eta: scipy.stats.norm(eta, COLUMN_NOISE)),
    "gaussian, with a floor": (Gaussian(noise=0.5, floor=0.4), lambda eta: scipy.stats.norm(eta, 0.5)),
    "student-t": (StudentT(scale=0.5, freedom=7.0), lambda eta: scipy.stats.t(7.0, eta, 0.5)),
    "student-t, per column, with a floor": (
        eqx.tree_at(
            lambda s: s.log_scale,
            StudentT(freedom=7.0, per_column=True, floor=0.05),
            0.5 * jnp.log(COLUMN_NOISE**2 - 0.05**2),
        ),
        lambda eta: scipy.stats.t(7.0, eta, COLUMN_NOISE),
    ),
    "heteroscedastic": (HeteroscedasticGaussian(), _heteroscedastic),
    "bernoulli": (
        with_offset(Bernoulli(), ODDS),
        lambda eta: scipy.stats.bernoulli(scipy.special.expit(eta + np.log(ODDS))),
    ),
    "categorical": (with_offset(Categorical(3), SHARES / SHARES.sum(axis=1, keepdims=True)), ClassesLaw),
    "poisson": (with_offset(Poisson(), LEVELS), lambda eta: scipy.stats.poisson(LEVELS * np.exp(eta))),
    "negative binomial": (negative_binomial(), negative_binomial_law),
    "blocks": (blocks(), BlocksLaw),
}


def outputs_of(likelihood, dtype=jnp.float64):
    num = len(likelihood.owners(4))
    return jnp.asarray(ETA if num == 4 else np.random.default_rng(num).normal(size=(6, num)), dtype)


def draw(name):
    likelihood, law = FAMILIES[name]
    eta = outputs_of(likelihood)
    law = law(np.asarray(eta))
    return likelihood, eta, law, jnp.asarray(law.rvs(random_state=1), jnp.float64)


@pytest.mark.parametrize("name", FAMILIES)
def test_log_prob_is_that_of_scipy(name):
    likelihood, eta, law, y = draw(name)
    expected = law.logpdf(y) if hasattr(getattr(law, "dist", None), "pdf") else law.logpmf(np.asarray(y))
    np.testing.assert_allclose(likelihood.log_prob(y, jnp.ones(y.shape, bool), eta), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_single_precision_decoder_costs_no_more_than_its_rounding(name):
    """Counts in the thousands have log-densities that cancel: they must not be computed in float32."""
    likelihood, eta, _, y = draw(name)
    exact = likelihood.log_prob(y, jnp.ones(y.shape, bool), eta.astype(jnp.float32).astype(jnp.float64))
    single = likelihood.log_prob(y.astype(jnp.float32), jnp.ones(y.shape, bool), eta.astype(jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("hidden_value", [np.nan, np.inf, 1e300])
def test_hidden_cells_have_no_say_in_value_or_gradient(name, hidden_value):
    likelihood, eta, _, y = draw(name)
    mask = jnp.asarray(RNG.random(y.shape) < 0.5)

    def total(likelihood, eta, y):
        return jnp.sum(likelihood.log_prob(y, mask, eta))

    clean = jax.value_and_grad(total, argnums=1)(likelihood, eta, jnp.where(mask, y, 0.0))
    dirty = jax.value_and_grad(total, argnums=1)(likelihood, eta, jnp.where(mask, y, hidden_value))
    for a, b in zip(clean, dirty, strict=True):
        assert np.all(np.isfinite(b))
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(dirty[1][~mask[:, likelihood.owners(4)]], 0.0)
    for leaf in jax.tree.leaves(jax.grad(total)(likelihood, eta, jnp.where(mask, y, hidden_value))):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("name", FAMILIES)
def test_observed_cells_count_as_if_nothing_were_hidden(name):
    """A mask selects: with a full mask it is the plain likelihood, with any mask the observed part of it."""
    likelihood, eta, _, y = draw(name)
    mask = jnp.asarray(RNG.random(y.shape) < 0.5)
    everything = likelihood.log_prob(y, jnp.ones(y.shape, bool), eta)
    np.testing.assert_array_equal(likelihood.log_prob(y, mask, eta), jnp.where(mask, everything, 0.0))


def test_masked_gaussian_counts_observed_cells_only():
    checks.check_masked_gaussian_counts_observed_cells_only()


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_are_those_of_finite_differences(name):
    """By the outputs and by what is sampled."""
    likelihood, eta, _, y = draw(name)
    mask = jnp.ones(y.shape, bool)
    sampled, rest = eqx.partition(likelihood, likelihood.sampled())

    def total(sampled, eta):
        return jnp.sum(eqx.combine(sampled, rest).log_prob(y, mask, eta))

    point, step = (sampled, eta), 1e-5
    gradient = jax.grad(total, argnums=(0, 1))(*point)
    rng = np.random.default_rng(3)
    for _ in range(3):
        direction = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), point)
        ends = [total(*jax.tree.map(lambda a, d: a + s * step * d, point, direction)) for s in (1, -1)]  # noqa: B023
        slope = sum(jax.tree.leaves(jax.tree.map(lambda g, d: jnp.sum(g * d), gradient, direction)))
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), slope, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_mean_and_variance_are_those_of_the_draws(name):
    likelihood, eta, law, _ = draw(name)
    np.testing.assert_allclose(likelihood.mean(eta), law.mean(), rtol=1e-10)
    np.testing.assert_allclose(likelihood.variance(eta), law.var(), rtol=1e-10)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(3000))
    draws = jax.jit(jax.vmap(lambda k: likelihood.sample(k, eta)))(keys)
    checks.assert_within_errors(draws, likelihood.mean(eta))
    residual = np.asarray(draws) - np.asarray(likelihood.mean(eta))
    checks.assert_within_errors(residual**2, likelihood.variance(eta))


@pytest.mark.parametrize("name", FAMILIES)
def test_cdf_is_that_of_scipy(name):
    likelihood, eta, law, y = draw(name)
    np.testing.assert_allclose(likelihood.cdf(y, eta), law.cdf(np.asarray(y)), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "poisson", "negative binomial"])
def test_probabilities_of_whole_numbers_add_up_to_one(name):
    likelihood, eta, _, _ = draw(name)
    most = {"bernoulli": 2, "categorical": 3}.get(name, 400)
    columns = slice(None) if most < 400 else slice(0, 2)  # the others have long tails
    total = sum(
        np.exp(likelihood.log_prob(jnp.full((6, 4), float(k)), jnp.ones((6, 4), bool), eta)) for k in range(most)
    )
    np.testing.assert_allclose(total[:, columns], 1.0, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_link_finds_an_output_whose_mean_is_near_y(name):
    likelihood, _, _, y = draw(name)
    error = np.asarray(likelihood.mean(likelihood.link(y)) - y)
    assert np.max(np.abs(error)) < 0.2


@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_stand_in_the_order_of_their_columns(name):
    """Moving one column's outputs moves the mean or variance of that column and of no other."""
    likelihood, eta, _, _ = draw(name)
    owners = likelihood.owners(4)
    assert np.all(np.diff(owners) >= 0)
    moments = lambda e: np.stack([likelihood.mean(e), likelihood.variance(e)])  # noqa: E731
    for column in range(4):
        moved = eta + jnp.broadcast_to(jnp.asarray((owners == column) * np.arange(len(owners)) * 0.1), eta.shape)
        changed = np.any(moments(moved) != moments(eta), axis=(0, 1))
        assert not changed[np.arange(4) != column].any()
        assert changed[column] or len(owners) == 4


@pytest.mark.parametrize("name", FAMILIES)
def test_features_are_finite_small_and_silent_about_hidden_cells(name):
    likelihood, _, _, y = draw(name)
    mask = jnp.asarray(RNG.random(y.shape) < 0.5)
    values, known = likelihood.features(jnp.where(mask, y, np.nan), mask)
    assert np.all(np.isfinite(values))
    assert np.all(np.abs(values) < 15)
    assert np.all(values[~known] == 0)
    assert known.shape == values.shape
    assert np.asarray(known).mean() == pytest.approx(np.asarray(mask).mean())


def test_sizes_of_rows_are_found_from_observed_counts_alone():
    """Rows that differ by a factor only have the same features, and rates that differ by that factor."""
    rng = np.random.default_rng(4)
    counts = rng.poisson(50 * np.ones((1, 40)))
    y = jnp.asarray(np.concatenate([counts, 8 * counts]), jnp.float64)
    mask = jnp.asarray(rng.random((1, 40)) < 0.7)
    mask = jnp.concatenate([mask, mask])
    likelihood = NegativeBinomial(exposure="rows").initialise(np.asarray(y), np.asarray(mask))
    eta = likelihood.expose(jnp.zeros((2, 40)), jnp.where(mask, y, np.nan), mask)
    np.testing.assert_allclose(np.exp(eta[1] - eta[0]), 8.0, rtol=1e-2)
    values, _ = likelihood.features(y, mask)
    np.testing.assert_allclose(values[0], values[1], atol=0.05)
    nothing = jnp.zeros(mask.shape, bool)
    np.testing.assert_array_equal(likelihood.expose(jnp.ones((2, 40)), y, nothing), 1.0)
    plain = NegativeBinomial().initialise(np.asarray(y), np.asarray(mask))
    np.testing.assert_array_equal(plain.expose(jnp.ones((2, 40)), y, mask), 1.0)


@pytest.mark.parametrize(("learn", "count"), [(True, 1), (False, 0)])
def test_noise_has_a_log_normal_prior_only_when_learned(learn, count):
    """Normal on the log scale on which it is sampled, centred at the value given."""
    reference = Gaussian(noise=0.3, learn_noise=learn)
    assert sum(jax.tree.leaves(reference.sampled())) == count
    moved = jax.tree.map(lambda a: a + 0.7, reference)
    expected = scipy.stats.norm.logpdf(0.7) if learn else 0.0
    np.testing.assert_allclose(likelihoods.hyper_log_prior(moved, reference), expected, rtol=1e-10)


SAMPLED = {
    "student-t": (StudentT(), 2),
    "student-t, fixed freedom": (StudentT(learn_freedom=False), 1),
    "heteroscedastic": (HeteroscedasticGaussian(), 0),
    "categorical": (with_offset(Categorical(3), SHARES), 0),
    "poisson": (with_offset(Poisson(), LEVELS), 0),
    "negative binomial": (negative_binomial(), 4),
    "negative binomial, fixed": (with_offset(NegativeBinomial(learn_dispersion=False), LEVELS), 0),
    "negative binomial, shared": (with_offset(NegativeBinomial(per_column=False), LEVELS), 1),
    "shared in blocks": (likelihoods.join([Gaussian(), Bernoulli(), Gaussian(), Gaussian()]), 1),
    "not shared in blocks": (likelihoods.join([Gaussian(), Bernoulli(), Gaussian(noise=0.2), Gaussian()]), 2),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_only_what_is_learned_is_sampled(name):
    """Constants taken from the table have no prior, and equal likelihoods share their parameters."""
    reference, count = SAMPLED[name]
    moved = jax.tree.map(lambda a: a + 0.7, reference)
    expected = count * scipy.stats.norm.logpdf(0.7)
    np.testing.assert_allclose(likelihoods.hyper_log_prior(moved, reference), expected, rtol=1e-10)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan])
def test_noise_must_be_positive(noise):
    with pytest.raises(ValueError, match="standard deviation above 0"):
        Gaussian(noise=noise)


REFUSED = {
    "few degrees of freedom": (lambda: StudentT(freedom=2.0), "above 2"),
    "no floor": (lambda: HeteroscedasticGaussian(floor=0.0), "above 0"),
    "no dispersion": (lambda: NegativeBinomial(dispersion=0.0), "Use Poisson"),
    "odd exposure": (lambda: Poisson(exposure="columns"), '"rows"'),
    "one class": (lambda: Categorical(1), "at least 2 classes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_impossible_parameters_are_refused(what):
    call, words = REFUSED[what]
    with pytest.raises(ValueError, match=words):
        call()


def test_heteroscedastic_noise_has_a_floor():
    """However sure the decoder claims to be, no cell can be copied."""
    likelihood = HeteroscedasticGaussian(floor=0.1)
    assert likelihood.variance(jnp.asarray([[0.0, -50.0]])) == pytest.approx(0.01)


def test_a_cell_nothing_is_known_of_is_as_likely_as_its_column():
    rng = np.random.default_rng(0)
    values = (rng.random((400, 3)) < [0.02, 0.5, 0.9]).astype(float)
    mask = rng.random(values.shape) < 0.8
    likelihood = Bernoulli().initialise(np.where(mask, values, np.nan), mask)
    share = np.where(mask, values, 0).sum(axis=0) / mask.sum(axis=0)
    np.testing.assert_allclose(likelihood.mean(jnp.zeros((1, 3)))[0], share, atol=0.5 / mask.sum(axis=0).min())


def test_noise_never_falls_below_its_floor_and_is_shown_as_it_is():
    gaussian = Gaussian(noise=0.3, per_column=True, floor=0.1).initialise(np.zeros((2, 4)), np.ones((2, 4), bool))
    np.testing.assert_allclose(gaussian.natural().log_noise, 0.3)
    quiet = eqx.tree_at(lambda g: g.log_noise, gaussian, jnp.full(4, -20.0))
    np.testing.assert_allclose(quiet.variance(jnp.asarray(ETA)), 0.01)
    np.testing.assert_allclose(
        Blocks((quiet, StudentT(scale=0.2)), ((0, 1, 2, 3), (4,))).natural().members[1].log_scale, 0.2
    )
    student = StudentT(scale=0.3, per_column=True, floor=0.1).initialise(np.zeros((2, 4)), np.ones((2, 4), bool))
    np.testing.assert_allclose(student.natural().log_scale, np.full(4, 0.3))
    np.testing.assert_allclose(student.natural().log_excess, 2.0)
    assert eqx.filter(student, student.sampled()).natural().log_excess is not None
    held = StudentT(scale=0.3, learn_freedom=False)
    assert eqx.filter(held, held.sampled()).natural().log_excess is None
    for family in (Gaussian, StudentT):
        with pytest.raises(InputError, match="floor must be at least 0 and below its noise"):
            family(0.3, floor=0.3)


@pytest.mark.parametrize(("dtype", "rounding"), [(jnp.float32, 3e-7), (jnp.float64, 1e-15)])
def test_softplus_has_the_sigmoid_as_slope_and_its_slope_as_curvature(dtype, rounding):
    """Also at zero, where it is made of two pieces, and where an exponential would overflow."""
    x = np.concatenate([np.linspace(-30.0, 30.0, 601), [0.0, 1e4, -1e4]])
    p = scipy.special.expit(x)
    slope = jax.grad(classes.softplus)
    curvature = jax.vmap(jax.grad(slope))(jnp.asarray(x, dtype))
    x = jnp.asarray(x, dtype)
    np.testing.assert_allclose(classes.softplus(x), np.logaddexp(0, np.asarray(x, float)), rtol=rounding, atol=rounding)
    np.testing.assert_allclose(jax.vmap(slope)(x), p, rtol=20 * rounding)
    np.testing.assert_allclose(curvature, p * (1 - p), rtol=0, atol=rounding)
