"""The theorems, on this machine: every check computes a few numbers, `run` holds them against their bars.

identity decoder = Gaussian-process regression      sparse with S = X = exact      one deep layer = sparse
minibatch energies average to the full energy       the chain follows its exact law       T → 0 is the MAP
draws agree with NUTS (where BlackJAX is installed)  ranks of simulation-based calibration are uniform
"""

import dataclasses
import importlib.util
import time
from collections.abc import Callable

import numpy as np

from gpbae.estimators import BAE, DSGPBAE, GPBAE, SGPBAE
from gpbae.verify.calibration import (
    CALIBRATION,
    Replicates,
    calibration_ranks,
    draw_from_prior,
    p_values,
    rank_errors,
    retested_ranks,
)
from gpbae.verify.coverage import interval_coverage
from gpbae.verify.identities import (
    minibatches_average,
    one_layer_is_sparse,
    sparse_is_exact,
    white_kernel_is_independent,
)
from gpbae.verify.laws import cold_is_map, gaussian_law, kinetic_temperatures, minimum
from gpbae.verify.oracle import against_nuts, agreement, functionals, nuts
from gpbae.verify.regression import gp_regression, regression_table
from gpbae.verify.worlds import Numbers, in_double, small_model, small_table

__all__ = [
    "CALIBRATION",
    "Check",
    "Numbers",
    "Replicates",
    "against_nuts",
    "agreement",
    "calibration_ranks",
    "cold_is_map",
    "draw_from_prior",
    "functionals",
    "gaussian_law",
    "gp_regression",
    "in_double",
    "interval_coverage",
    "kinetic_temperatures",
    "minibatches_average",
    "minimum",
    "nuts",
    "one_layer_is_sparse",
    "p_values",
    "page",
    "rank_errors",
    "regression_table",
    "retested_ranks",
    "run",
    "small_model",
    "small_table",
    "sparse_is_exact",
    "white_kernel_is_independent",
]


@dataclasses.dataclass(frozen=True)
class Check:
    """One theorem: the figure measured, the bar it must clear, and whether it did."""

    name: str
    figure: str
    bar: str
    passed: bool
    seconds: float


def run(quick: bool = False, listener: Callable[[str], None] | None = None) -> list[Check]:
    """All checks; `quick` takes shorter chains and fewer replicates, with the same bars."""
    table = _checks(quick)
    done = []
    for name, (compute, bar, passes, show) in table.items():
        if listener is not None:
            listener(name)
        begun = time.monotonic()
        numbers = compute()
        done.append(Check(name, show(numbers), bar, bool(passes(numbers)), round(time.monotonic() - begun, 1)))
    return done


def page(checks: list[Check], quick: bool) -> str:
    """What was found, as a page of Markdown."""
    command = f"gpbae verify{' --quick' * quick}"
    rows = [
        f"| {c.name} | {c.figure} | {c.bar} | {'passed' if c.passed else 'FAILED'} | {c.seconds:.0f} |" for c in checks
    ]
    return "\n".join([
        "# The theory, checked on a machine", "",
        f"Written by `{command} --page FILE`, which repeats it on yours. Each line computes a few numbers and holds",
        "them against a bar that follows from theory or from Monte-Carlo error; `gpbae.verify` is the code.", "",
        "| check | figure | bar | | seconds |", "|---|---|---|---|---|", *rows, "",
    ])  # fmt: skip


def _checks(quick: bool) -> dict[str, tuple[Callable, str, Callable, Callable]]:
    """name: (compute, bar, passes, show)."""
    exact = (lambda n: n["difference"] <= 1e-6, lambda n: f"{n['difference']:.1e}")
    checks: dict[str, tuple[Callable, str, Callable, Callable]] = {
        "sparse GP with S = X is the exact GP": (sparse_is_exact, "relative difference ≤ 1e-6", *exact),
        "one deep layer is the sparse GP": (one_layer_is_sparse, "relative difference ≤ 1e-6", *exact),
        "K = I is the BAE": (white_kernel_is_independent, "relative difference ≤ 1e-6", *exact),
        "minibatch energies average to the energy": (minibatches_average, "relative difference ≤ 1e-6", *exact),
        "the chain follows its exact law": (
            gaussian_law, "every variance within 4.5 Monte-Carlo errors",
            lambda n: n["position"] <= 4.5 and n["momentum"] <= 4.5,
            lambda n: f"{max(n['position'], n['momentum']):.1f} errors",
        ),
    }  # fmt: skip
    cases = [(1, False, False), (2, True, True)] if quick else [
        (d, gaps, grouped) for d in (1, 2) for gaps in (False, True) for grouped in (False, True)]  # fmt: skip
    for num_inputs, gaps, grouped in cases:
        name = f"GP regression, {num_inputs}-D{', 30 % missing' * gaps}{', two groups' * grouped}"
        checks[name] = (
            lambda c=(num_inputs, gaps, grouped): gp_regression(*c),
            "mean within 0.1 sd, sd ratio 0.93 to 1.07",
            lambda n: n["mean"] <= 0.1 and n["low"] >= 0.93 and n["high"] <= 1.07,
            lambda n: f"{n['mean']:.3f} sd; {n['low']:.3f} to {n['high']:.3f}",
        )
    checks["kinetic temperature of every block"] = (
        kinetic_temperatures, "within 5 % of 1", lambda n: max(abs(t - 1) for t in n.values()) <= 0.05,
        lambda n: f"{min(n.values()):.3f} to {max(n.values()):.3f}",
    )  # fmt: skip
    checks["T → 0 is the MAP"] = (
        cold_is_map, "excess energy 0.9 to 1.1 times d T/2", lambda n: 0.9 <= n["ratio"] <= 1.1,
        lambda n: f"{n['ratio']:.3f} times",
    )  # fmt: skip
    if importlib.util.find_spec("blackjax") and not quick:
        checks["agreement with NUTS"] = (
            against_nuts, "means within 4 Monte-Carlo errors, sd ratios 0.9 to 1.1",
            lambda n: n["errors"] <= 4 and n["low"] >= 0.9 and n["high"] <= 1.1,
            lambda n: f"{n['errors']:.1f} errors; {n['low']:.3f} to {n['high']:.3f}",
        )  # fmt: skip
    checks["simulation-based calibration"] = (
        lambda: _uniformity(retested_ranks(48 if quick else 208)),
        "χ² p > 0.01 and mean rank within 4 errors for every quantity",
        lambda n: min(n["p"].values()) > 0.01 and max(map(abs, n["errors"].values())) <= 4,
        lambda n: ", ".join(f"{k} p {p:.2f}, {n['errors'][k]:+.1f} errors" for k, p in n["p"].items()),
    )  # fmt: skip
    for kind in (SGPBAE,) if quick else (BAE, GPBAE, SGPBAE, DSGPBAE):
        checks[f"intervals of hidden cells, {kind.__name__}"] = (
            lambda kind=kind: interval_coverage(32 if quick else 100, kind=kind),
            "every level within 3 standard errors, every tenth of the PIT within 4",
            lambda n: n["errors"] <= 3 and n["PIT"] <= 4,
            lambda n: ", ".join(f"{k} {v:.3f}" for k, v in n.items()),
        )  # fmt: skip
    return checks


def _uniformity(ranks: dict[str, np.ndarray]) -> dict[str, Numbers]:
    return {"p": p_values(ranks), "errors": rank_errors(ranks)}
