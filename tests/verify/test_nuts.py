"""On a tiny SGP-BAE the draws agree with a long NUTS run of the same log joint, in function space."""

import pytest

from gpbae import verify

OPTIMISED = True


def check_agreement(numbers):
    assert numbers["errors"] <= 4 and numbers["low"] >= 0.9 and numbers["high"] <= 1.1, numbers
    assert min(numbers["ess"], numbers["ess of NUTS"]) >= 400, numbers


def test_draws_agree_with_a_short_nuts_run():
    """Fewer draws know less, so means and spreads are held against their Monte-Carlo errors; S stays where it is."""
    numbers = verify.against_nuts(num_samples=150, nuts_samples=400, num_rows=15, sample_inducing=False)
    assert numbers["errors"] <= 4.5 and numbers["sd errors"] <= 4.5, numbers
    assert min(numbers["ess"], numbers["ess of NUTS"]) >= 50, numbers


@pytest.mark.slow
def test_draws_agree_with_a_long_nuts_run():
    check_agreement(verify.against_nuts())
