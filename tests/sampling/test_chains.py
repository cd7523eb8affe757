"""A chain is the same whether it runs alone or among others, with the compiler's optimisations on."""

import equinox as eqx
import jax
import numpy as np
import pytest

import runs

OPTIMISED = True
CHEAPEST = "full batch"
NAMES = [CHEAPEST, *(pytest.param(name, marks=pytest.mark.slow) for name in runs.RUNS if name != CHEAPEST)]


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_does_not_depend_on_how_many_run(name):
    """Alone and as the first of three: draws, encoder, and what was learned for it, bit for bit."""
    alone, three = (runs.fit(name, num_chains=number) for number in (1, 3))
    for attribute in ("draws_", "encoders_", "kinetic_temperature_", "step_size_", "noise_share_"):
        first = jax.tree.map(lambda a: np.asarray(a)[:1], getattr(three, attribute))
        assert eqx.tree_equal(jax.tree.map(np.asarray, getattr(alone, attribute)), first), attribute
