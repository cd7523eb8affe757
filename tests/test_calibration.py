"""Simulation-based calibration: where truth comes from the prior, its rank among posterior draws is uniform."""

import dataclasses

import numpy as np
import pytest

from gpbae import verify

OPTIMISED = True


def test_a_chi_square_sees_ranks_that_are_not_uniform():
    rng = np.random.default_rng(0)
    fair, narrow = rng.integers(16, size=200), rng.binomial(15, 0.5, size=200)
    p = verify.p_values({"fair": fair, "narrow": narrow})
    assert p["fair"] > 1e-4 and p["narrow"] < 1e-6


def test_ranks_are_uniform_over_a_few_replicates():
    ranks = verify.calibration_ranks(40, budget=dataclasses.replace(verify.CALIBRATION, thinning=16))
    p = verify.p_values({"all": np.concatenate(list(ranks.values())), **ranks})
    assert min(p.values()) > 1e-4, p


@pytest.mark.slow
def test_ranks_are_uniform():
    p = verify.p_values(verify.calibration_ranks(208))
    assert min(p.values()) > 0.01, p
