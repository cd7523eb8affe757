"""Simulation-based calibration: where truth comes from the prior, its rank among posterior draws is uniform."""

import dataclasses

import numpy as np
import pytest

from gpbae import verify
from gpbae.verify import calibration

OPTIMISED = True


def test_a_chi_square_sees_ranks_that_are_not_uniform():
    rng = np.random.default_rng(0)
    fair, narrow = rng.integers(16, size=200), rng.binomial(15, 0.5, size=200)
    p = verify.p_values({"fair": fair, "narrow": narrow})
    assert p["fair"] > 1e-4 and p["narrow"] < 1e-6


def test_the_mean_rank_sees_a_shift():
    rng = np.random.default_rng(1)
    fair, shifted = rng.integers(16, size=200), rng.binomial(15, rng.beta(1.5, 1.0, size=200))
    errors = verify.rank_errors({"fair": fair, "shifted": shifted})
    assert abs(errors["fair"]) < 4 < errors["shifted"]


def test_ranks_are_uniform_over_a_few_replicates():
    ranks = verify.calibration_ranks(40, budget=dataclasses.replace(verify.CALIBRATION, thinning=8))
    assert min(verify.p_values(ranks).values()) > 1e-4
    assert max(map(abs, verify.rank_errors(ranks).values())) < 4.5


def test_doubtful_ranks_are_judged_by_fresh_tables(monkeypatch):
    fair, odd = np.arange(208) % 16, np.zeros(208, int)
    calls = []

    def ranks(num_replicates, seed=0):
        calls.append((num_replicates, seed))
        return {"a": fair, "b": odd if seed == 0 else np.arange(416) % 16}

    monkeypatch.setattr(calibration, "calibration_ranks", ranks)
    found = verify.retested_ranks(208)
    assert calls == [(208, 0), (416, 1)]
    assert found["a"] is fair and len(found["b"]) == 416


@pytest.mark.slow
def test_ranks_are_uniform():
    ranks = verify.retested_ranks(208)
    p, errors = verify.p_values(ranks), verify.rank_errors(ranks)
    assert min(p.values()) > 0.01, p
    assert max(map(abs, errors.values())) <= 4, errors


def test_a_page_has_a_line_for_every_check():
    checks = [
        verify.Check("K = I is the BAE", "1.0e-09", "≤ 1e-6", True, 1.2),
        verify.Check("b", "2", "≤ 1", False, 3.0),
    ]
    text = verify.page(checks, quick=False)
    assert "| K = I is the BAE | 1.0e-09 | ≤ 1e-6 | passed | 1 |" in text and "| FAILED | 3 |" in text
    assert "`gpbae verify --page FILE`" in text
