"""Groups never seen: all that is known of them is in the rows they bring, and a GP says what follows."""

import numpy as np
import pytest
from scipy import special, stats

from gpbae import SGPBAE
from gpbae.answering import newcomers, questions
from gpbae.kernels import RBF, Constant, Matern32
from gpbae.likelihoods import Bernoulli, Gaussian, StudentT

OPTIMISED = True
LENGTH, LATENT_NOISE = 40, 0.05
KERNELS = {
    "rough": (Matern32(lengthscale=0.3), lambda r: (1 + np.sqrt(3) * r / 0.3) * np.exp(-np.sqrt(3) * r / 0.3)),
    "with a level": (
        Constant(variance=1.0) + RBF(lengthscale=0.1, variance=0.3),
        lambda r: 1 + 0.3 * np.exp(-0.5 * (r / 0.1) ** 2),
    ),
}


def series(covariance, noise, num_groups=4):
    """Inputs, labels, and two columns of so many draws of the process, their noise included."""
    rng = np.random.default_rng(0)
    x = np.tile(np.linspace(0, 1, LENGTH), num_groups)
    K = covariance(np.abs(x[:LENGTH, None] - x[None, :LENGTH])) + (LATENT_NOISE**2 + noise**2) * np.eye(LENGTH)
    y = np.linalg.cholesky(K) @ rng.standard_normal((num_groups, LENGTH, 2))
    return x[:, None], np.repeat(np.arange(num_groups), LENGTH), y.reshape(-1, 2)


def second_halves(name, noise, num_new):
    """What is said of the second half of new groups given the first, less regression, and its sd, in units of sd."""
    kernel, covariance = KERNELS[name]
    x, groups, y = series(covariance, noise, 3 + num_new)
    fitted = groups < 3
    model = SGPBAE(decoder="identity", sample_hyperparameters=False, sample_inducing=False, standardise=False,
                   kernel=kernel, num_inducing=LENGTH, latent_noise=LATENT_NOISE, num_chains=1, num_warmup=2,
                   num_samples=400, thinning=1, sampler_steps=1, encoder_steps=1, num_map_steps=0, progress=False,
                   likelihood=Gaussian(noise=noise, learn_noise=False))  # fmt: skip
    model.fit(x[fitted], y[fitted], groups[fitted])
    x, y = x[~fitted], y[~fitted].reshape(num_new, LENGTH, 2)
    known = np.arange(LENGTH) < LENGTH // 2
    asked = np.where(known[:, None], y, np.nan).reshape(-1, 2)
    answer = model.impute(x, asked, np.char.add("new ", groups[~fitted].astype(str)))

    K = covariance(np.abs(x[:LENGTH] - x[:LENGTH].T))
    given = K[np.ix_(known, known)] + (LATENT_NOISE**2 + noise**2) * np.eye(known.sum())
    gain = np.linalg.solve(given, K[known][:, ~known]).T
    sd = np.sqrt(np.diag(K)[~known] - np.sum(gain * K[~known][:, known], axis=1) + LATENT_NOISE**2 + noise**2)
    mean, found = (a.reshape(num_new, LENGTH, 2)[:, ~known] for a in (answer.mean, answer.sd))
    return (mean - gain @ y[:, known]) / sd[:, None], found / sd[:, None]


@pytest.mark.parametrize("noise", [0.3, 0.03])
@pytest.mark.parametrize("name", KERNELS)
def test_the_second_half_of_a_new_group_is_regression_on_its_first(name, noise):
    off, ratio = second_halves(name, noise, 1)
    np.testing.assert_allclose(off, 0, atol=0.25)
    np.testing.assert_allclose(ratio, 1, atol=0.15)


def test_so_it_is_where_new_groups_are_too_many_to_be_refined_together(monkeypatch):
    monkeypatch.setattr(newcomers, "LARGEST_MATRICES", 1)
    off, ratio = second_halves("rough", 0.3, 2)
    np.testing.assert_allclose(off, 0, atol=0.25)
    np.testing.assert_allclose(ratio, 1, atol=0.15)


LIKELIHOODS = {
    "yes or no": (Bernoulli(), 1.0, lambda z: np.log(special.expit(z + special.logit(0.7)))),  # 3.5 of 5
    "an outlier": (StudentT(scale=0.2, freedom=3.0, learn_scale=False, learn_freedom=False), 2.5,
                   lambda z: stats.t(3.0, z, 0.2).logpdf(2.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_one_row_of_a_new_group_has_the_posterior_that_quadrature_finds(name):
    """Not normal, and for the Student-t not even concave: trajectories must correct the normal law."""
    likelihood, cell, log_density = LIKELIHOODS[name]
    x, groups = np.repeat([[0.0], [1.0]], 2, axis=0), np.array([0, 0, 1, 1])
    y = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    model = SGPBAE(decoder="identity", sample_hyperparameters=False, sample_inducing=False, standardise=False,
                   kernel=RBF(lengthscale=1.0), num_inducing=2, latent_noise=0.5, num_chains=2, num_warmup=2,
                   num_samples=2000, thinning=1, sampler_steps=1, encoder_steps=1, num_map_steps=0, progress=False,
                   likelihood=likelihood).fit(x, y, groups)  # fmt: skip
    found = model.encode(x[:1], np.array([[cell, np.nan]]), np.array(["new"]))
    z = np.linspace(-8, 8, 4001)
    weight = stats.norm(0, np.sqrt(1 + 0.5**2)).pdf(z) * np.exp(log_density(z))
    weight /= weight.sum()
    mean, sd = weight @ z, np.sqrt(weight @ z**2 - (weight @ z) ** 2)
    assert abs(found.mean[0, 0] - mean) < 5 * sd / np.sqrt(4000)
    assert abs(found.sd[0, 0] / sd - 1) < 0.08


def test_groups_that_hardly_move_are_counted():
    with pytest.warns(UserWarning, match="2 of 3 new groups hardly moved"):
        questions.warn_of_stuck(np.array([[0.8, 0.01, 0.9], [0.9, 0.8, 0.0]]), "groups")


def test_groups_that_move_are_not(recwarn):
    questions.warn_of_stuck(np.full((2, 3), 0.8), "groups")
    assert not recwarn


def test_an_answer_says_that_its_groups_hardly_moved(monkeypatch):
    refine = newcomers.refine

    def stuck(*arguments):
        z, eta, acceptance = refine(*arguments)
        assert acceptance.shape == (1, 1) and acceptance.min() > 0.5
        return z, eta, 0.01 * acceptance

    monkeypatch.setattr(newcomers, "refine", stuck)
    with pytest.warns(UserWarning, match="1 of 1 new groups hardly moved"):
        second_halves("rough", 0.3, 1)


def test_how_a_new_group_is_refined_does_not_depend_on_gaps_of_another():
    rows, slots = np.array([[0, 1], [2, 3], [4, 6], [5, 6]]), np.array([-1, 0, -1, -1])
    whole = np.array([True, False, True, True, True, True])
    model = SGPBAE(num_chains=1, num_warmup=1, num_samples=1, sampler_steps=1, encoder_steps=1, num_map_steps=0,
                   progress=False).fit(np.arange(4.0)[:, None], np.arange(4.0)[:, None], [0, 0, 1, 1])  # fmt: skip
    parts = model._parts(rows, slots, np.ones(6, bool), whole)
    found = [(sorted(r[r < 6].tolist()), s.tolist()) for r, s in parts]
    assert found == [([2, 3], [0, 0]), ([0, 1], [-1]), ([4, 5], [-1, -1])]
