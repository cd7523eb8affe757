"""The suite is only as strict as its settings: each of them must really refuse something."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from gpbae.data.ball import render


def test_shapes_are_checked_inside_the_package():
    with pytest.raises(TypeCheckError):
        render(np.zeros((4, 3)))


def test_ranks_are_not_promoted():
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.zeros((2, 3)) + jnp.zeros(3)


def test_types_are_not_promoted():
    with pytest.raises(ValueError, match="dtype promotion"):  # jax keeps the exception's class to itself
        jnp.zeros(3, jnp.float32) + jnp.zeros(3, jnp.float64)


def test_double_precision_is_on():
    assert jnp.zeros(1).dtype == jnp.float64


def test_keys_are_not_used_twice():
    key = jax.random.key(0)
    jax.random.normal(key)
    with pytest.raises(jax.errors.KeyReuseError):
        jax.random.normal(key)


def test_warnings_are_errors():
    with pytest.raises(UserWarning):
        warnings.warn("look out", stacklevel=1)
