"""On a tiny SGP-BAE the draws agree with a long NUTS run of the same log joint, in function space."""

import pytest

from gpbae import verify


def check_agreement(numbers):
    assert numbers["errors"] <= 4 and numbers["low"] >= 0.9 and numbers["high"] <= 1.1, numbers


@pytest.mark.slow
def test_draws_agree_with_a_long_nuts_run():
    check_agreement(verify.against_nuts())
