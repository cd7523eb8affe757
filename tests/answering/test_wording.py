"""What was sampled is shown in words."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpbae import likelihoods
from gpbae.answering import inspection, wording
from gpbae.kernels import RBF, Matern32, Periodic, RationalQuadratic, describe

WORDS = {
    "noise": "noise",
    "noise[CO]": "noise of CO",
    "scale[a[0].b]": "noise scale of a[0].b",  # names with brackets are names
    "excess[a, b, …]": "degrees of freedom beyond 2 (large: nearly Gaussian) of a, b, …",
    "output[3,0]": "output of column 0, row 3",
    "output[zinc, row 3, time=0.5]": "output of zinc, row 3, time=0.5",
    "RBF.lengthscale[time] (hours)": "RBF lengthscale along time (hours)",
    "RBF[0].variance": "RBF[0] variance",
    "latent1.Matern32.lengthscale": "Matern32 lengthscale, latent 1",
    "layer1.latent0.RBF.lengthscale[x]": "RBF lengthscale along x, latent 0, layer 1",
    "latent_noise": "noise of the latents",
    "layer2.latent_noise": "noise of the latents, layer 2",
}


@pytest.mark.parametrize("name", WORDS)
def test_names_in_words(name):
    assert wording.in_words(name) == WORDS[name]


def test_words_stay_as_they_are_and_differ_where_names_do():
    said = [wording.in_words(name) for name in WORDS]
    assert [wording.in_words(words) for words in said] == said and len(set(said)) == len(WORDS)


@pytest.mark.parametrize("name", ["Gaussian", "StudentT", "NegativeBinomial"])
def test_no_field_of_a_likelihood_is_shown_raw(name):
    """Whatever is sampled of it: a field that has no word here is a name of the code's."""
    made = getattr(likelihoods, name)(per_column=True)
    draws = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (2, 3)), made)
    found = [leaf_name for leaf_name, _, _ in inspection._noises(draws, ["a", "b", "c"])]
    assert found and {name.split("[")[0] for name in found} <= set(wording.OF_CELLS)


def test_no_parameter_of_a_kernel_is_shown_raw():
    kernel = RBF() + Matern32() * Periodic(period=1.0) + RationalQuadratic()
    said = [wording.in_words(name) for name in describe(kernel)]
    assert said and not any(re.search(r"[._]", words) for words in said)
    assert all(np.ndim(value) <= 1 for value in describe(kernel).values())
