"""Intervals on simulated tables: the quick variant always, a hundred tables with `-m slow`."""

import numpy as np
import pytest

from gpbae import BAE, DSGPBAE, GPBAE, SGPBAE, verify
from gpbae.sampling import run
from gpbae.verify import coverage

OPTIMISED = True


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BAE, GPBAE, SGPBAE, DSGPBAE])
def test_intervals_hold_the_truth_as_often_as_they_say(kind):
    found = verify.interval_coverage(100, kind=kind)
    print(kind.__name__, found)
    assert found["errors"] <= 3 and found["PIT"] <= 4, found


def test_intervals_of_few_tables_are_of_the_right_width():
    """Twelve tables, 150 or so dependent cells: an interval of half the width would hold a third less."""
    found = verify.interval_coverage(12, budget=run.Budget(60, 15, 8, 200, 0.05, 1.0, "auto"))
    assert found["errors"] <= 4.5, found
    assert abs(found["80%"] - 0.8) < 0.2


def test_a_sampler_that_is_too_sure_is_found_out(monkeypatch):
    """The check can fail: shrink the spread of the predictive and it does."""
    pit = np.random.default_rng(0).uniform(size=(50, 12))
    monkeypatch.setattr(coverage, "simulate", lambda *a: None)
    monkeypatch.setattr(coverage, "hidden_pit", lambda world: pit)
    found = verify.interval_coverage(50)
    assert found["errors"] <= 4 and found["PIT"] <= 4
    monkeypatch.setattr(coverage, "hidden_pit", lambda world: np.where(pit < 0.5, pit**2, 1 - (1 - pit) ** 2))
    assert verify.interval_coverage(50)["errors"] > 4
    monkeypatch.setattr(coverage, "hidden_pit", lambda world: pit**1.5)
    assert verify.interval_coverage(50)["PIT"] > 4
