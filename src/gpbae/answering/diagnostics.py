"""Has the chain mixed, and is it a sampler at all?  Numbers by name, then plain words."""

from typing import Any

import numpy as np
import pandas as pd

from gpbae.answering import advice, wording
from gpbae.answering.advice import SMALLEST_ESS, Trouble

BLOCKS = ("decoder", "values", "inducing", "hyper-parameters", "latents")
COLUMNS = ("mean", "sd", "r_hat", "ess", "kinetic_temperature", "temperature_error")
LARGEST_RHAT = 1.1  # of the median quantity
LARGEST_SINGLE_RHAT = 1.2  # of the worst: the largest of many is larger by chance
TEMPERATURE_TOLERANCE = 0.05
NUM_ERRORS = 3
SMALLEST_ACCEPTANCE = 0.2
SMALLEST_SHARE_OF_INPUTS = 0.6


def convergence(chains: np.ndarray) -> tuple[float, float]:
    """Split R-hat and bulk ESS of one scalar, (chain, draw); NaN where they are not defined."""
    from arviz_stats.base import array_stats

    if chains.shape[1] < 4 or not np.isfinite(chains).all() or np.ptp(chains) == 0:
        return float("nan"), float("nan")
    rhat = array_stats.rhat(chains, chain_axis=0, draw_axis=1, method="rank") if chains.shape[0] > 1 else np.nan
    return float(rhat), float(array_stats.ess(chains, chain_axis=0, draw_axis=1, method="bulk"))


def table(scalars: dict[str, np.ndarray], temperatures: dict[str, tuple[float, float]]) -> pd.DataFrame:
    """One row per quantity, named in words: mean, sd, R-hat, ESS of function-space scalars; temperature of blocks."""
    nan = float("nan")
    rows = [(wording.in_words(name), c.mean(), c.std(), *convergence(c), nan, nan) for name, c in scalars.items()]
    rows += [(f"block: {name}", nan, nan, nan, nan, *measured) for name, measured in temperatures.items()]
    return pd.DataFrame(rows, columns=["quantity", *COLUMNS]).set_index("quantity").astype(float)


def warnings(frame: pd.DataFrame, facts: dict[str, Any], manner: advice.Manner = advice.CALLS) -> list[str]:
    """What a user should know and do, in sentences; empty when all is well.  The fact `now` is what `advice` takes: how
    the model was fitted; `manner` whether arguments are passed or commands typed."""
    now = facts["now"]
    return advice.in_sentences([
        *_temperature_words(frame, facts["temperature"], now),
        *_clamp_words(facts["fraction_clamped"], now),
        *_mixing_words(frame, facts["num_chains"] + len(facts["dead"]), now),
        *_acceptance_words(facts.get("acceptance"), now),
        *_latents_words(facts.get("latents_acceptance"), now),
        *_dead_words(facts["dead"], facts.get("because", {}), now),
        *_jitter_words(np.asarray(facts.get("jitter", 0)), now),
        *_unseen_words(facts.get("unseen", ()), facts.get("of_images", False)),
        *_input_words(facts.get("by_inputs", 1.0), now),
    ], manner)  # fmt: skip


def _temperature_words(frame, temperature, now):
    said = []
    if temperature < 0.1:
        words = (
            f"This run was optimisation, not sampling: at temperature {temperature:g} the draws huddle around a mode "
            "and their spread says nothing about uncertainty."
        )
        said.append((words, advice.on(Trouble.NOT_SAMPLED, now)))
    elif temperature != 1:
        words = f"At temperature {temperature:g} the spread of the draws is not that of the posterior, as it is at 1."
        said.append((words, advice.on(Trouble.NOT_SAMPLED, now)))
    kinetic, error = frame["kinetic_temperature"].dropna(), frame["temperature_error"].fillna(0.0)
    excess = (kinetic - temperature).abs() - TEMPERATURE_TOLERANCE * temperature
    off = kinetic[excess > NUM_ERRORS * error.reindex(kinetic.index)]
    for name, value in off.items():
        what = "hotter" if value > temperature else "colder"
        words = (
            f"{name} runs at kinetic temperature {value:.3f}, {what} than {temperature:g} by more than "
            f"{TEMPERATURE_TOLERANCE:.0%}: its spread is not to be trusted."
        )
        said.append((words, advice.on(Trouble.LARGE_STEPS, now)))
    return said


def _clamp_words(fraction, now):
    if fraction == 0:
        return []
    words = f"Minibatch noise exceeded the noise the sampler injects in {fraction:.1%} of its coordinates: too hot."
    return [(words, advice.on(Trouble.NOISY_BATCHES, now))]


def _mixing_words(frame, num_chains, now):
    said = []
    if num_chains < 2:
        words = "R-hat is not available from one chain, which has none to agree with."
        said.append((words, advice.on(Trouble.ONE_CHAIN, now)))
    rhat = frame["r_hat"].dropna()
    if len(rhat) and rhat.median() > LARGEST_RHAT:
        words = f"Chains disagree: the median R-hat is {rhat.median():.2f} (below {LARGEST_RHAT} is good)."
        said.append((words, advice.on(Trouble.DISAGREEMENT, now)))
    elif len(rhat) and rhat.max() > LARGEST_SINGLE_RHAT:
        words = (
            f"Chains disagree about {rhat.idxmax()}: its R-hat is {rhat.max():.2f} (below {LARGEST_SINGLE_RHAT} is "
            "good for each quantity), so do not trust its spread."
        )
        said.append((words, advice.on(Trouble.DISAGREEMENT, now)))
    ess = frame["ess"].dropna()
    if len(ess) and ess.median() < SMALLEST_ESS:
        words = f"Few independent draws: the median effective sample size is {ess.median():.0f}."
        said.append((words, advice.on(Trouble.FEW_DRAWS, {**now, "ess": float(ess.median())})))
    return said


def _acceptance_words(acceptance, now):
    if acceptance is None or acceptance >= SMALLEST_ACCEPTANCE:
        return []
    words = f"Moves of the kernel and the inducing inputs are accepted {acceptance:.0%} of the time: they hardly move."
    return [(words, advice.on(Trouble.STUCK_KERNEL, now))]


def _latents_words(acceptance, now):
    if acceptance is None or acceptance >= SMALLEST_ACCEPTANCE:
        return []
    words = (
        f"Moves of the latents that rows keep on disk are accepted {acceptance:.0%} of the time: they hardly move. "
        "Their temperature does not show it, for every visit gives them a new momentum."
    )
    return [(words, advice.on(Trouble.STUCK_LATENTS, now))]


def _unseen_words(columns, of_images):
    if not columns:
        return []
    what = f"{len(columns)} of the pixels" if of_images else f"column {wording.some(columns)}"
    words = (
        f"Nothing was observed of {what}: what is said of it comes from the prior alone, in units that mean nothing."
    )
    return [(words, advice.on_unseen(columns, of_images))]


def _input_words(share, now):
    if share >= SMALLEST_SHARE_OF_INPUTS:
        return []
    words = (
        f"Inputs alone say {share:.0%} of what the latents say of the fitted rows; the rest each row tells by its own "
        "cells. So impute knows much more than predict, whose intervals say so. If neighbours along the inputs should "
        "tell more, choose another kernel, such as one with Periodic in it, or raise num_inducing "
        f"({now['num_inducing']} now)."
    )
    return [(words, advice.on(Trouble.VAGUE_INPUTS, now))]


def _dead_words(dead, because, now):
    why = {i: f" (not finite: {because[i]})" for i in because}
    said = [f"Chain {i} diverged and was stopped{why.get(int(i), '')}; its draws are left out." for i in dead]
    return [*((words, None) for words in said[:-1]), (said[-1], advice.on(Trouble.LARGE_STEPS, now))] if said else []


def _jitter_words(levels, now):
    if not (levels > 0).any():
        return []
    words = (
        f"The covariance of the latent prior needed up to {10 ** levels.max():g} times the usual jitter, in "
        f"{np.mean(levels > 0):.0%} of the draws: inputs nearly coincide beside the lengthscale."
    )
    return [(words, advice.on(Trouble.CROWDED_INPUTS, now))]
