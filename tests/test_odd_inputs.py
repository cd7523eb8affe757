"""Whatever is handed to fit is prepared to finite numbers or refused in a sentence, before anything is compiled."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import odd
from gpbae import BAE, GPBAE, SGPBAE
from gpbae.errors import InputError

FIRST = np.arange(14).reshape(7, 2) == 0
ODD = {
    "gaps": lambda a: np.where(a > 0, np.nan, a),
    "one cell": lambda a: np.where(FIRST[: len(a)], a, np.nan),
    "infinity": lambda a: np.where(FIRST[: len(a)], np.inf, a),
    "constant": lambda a: np.full(a.shape, 3.0),
    "equal rows": lambda a: np.repeat(a[:1], len(a), axis=0),
    "far from zero": lambda a: 1e15 + a,
    "huge": lambda a: a * 1e299,
    "tiny": lambda a: a * 1e-300,
    "subnormal": lambda a: a * 1e-320,
    "largest": lambda a: np.sign(a) * np.finfo(float).max,
    "scales apart": lambda a: a * np.array([1e-299, 1e299]),
    "whole numbers": lambda a: (10 * a).astype(int),
    "unsigned": lambda a: (np.abs(a) * 1e18).astype(np.uint64),
    "yes and no": lambda a: a > 0,
    "half precision": lambda a: a.astype(np.float16),
    "long double": lambda a: a.astype(np.longdouble),
    "complex": lambda a: a + 1j,
    "dates": lambda a: np.full(a.shape, np.datetime64("2020-01-01")),
    "numbers as text": lambda a: a.astype(str),
    "text": lambda a: np.full(a.shape, "x"),
    "objects": lambda a: np.where(a > 0, None, a),
    "masked": lambda a: np.ma.array(a, mask=a > 0),
    "fortran": np.asfortranarray,
    "list": lambda a: a.tolist(),
    "ragged": lambda a: [[1.0] * (1 + i % 2) for i in range(len(a))],
    "frame": pd.DataFrame,
    "equal names": lambda a: pd.DataFrame(a, columns=["a", "a"]),
    "frame of text": lambda a: pd.DataFrame({"a": ["x"] * len(a)}),
    "nullable": lambda a: pd.DataFrame({"a": pd.array([None] + [1] * (len(a) - 1), dtype="Int64")}),
    "categories": lambda a: pd.DataFrame({"a": pd.Categorical(["u"] * len(a))}),
    "series": lambda a: pd.Series(a[:, 0]),
    "images": lambda a: a[:, None, :] * np.ones((1, 2, 1)),
    "scalar": lambda a: 3.0,
    "nothing": lambda a: None,
    "dictionary": lambda a: {"a": 1},
    "no rows": lambda a: a[:0],
    "no columns": lambda a: a[:, :0],
}
MODELS = {"BAE": BAE, "GPBAE": GPBAE, "SGPBAE": SGPBAE}


@pytest.mark.parametrize("num_rows", [1, 7])
@pytest.mark.parametrize("name", MODELS)
def test_odd_inputs_are_prepared_or_refused(name, num_rows):
    plain = np.random.default_rng(0).standard_normal((num_rows, 2))
    for what, make in ODD.items():
        for x, y in ((make(plain), plain), (plain, make(plain))):
            for groups in (None, np.arange(num_rows)):
                try:
                    prepared = MODELS[name](progress=False)._prepare(x, y, groups)
                except InputError as error:
                    assert str(error).endswith((".", "?")), what
                    continue
                table, latents = prepared[2], prepared[5]
                assert all(np.isfinite(np.asarray(a)).all() for a in (table.x, table.y, latents)), what


WRONG = (
    dict(friction=None), dict(friction=[0.1]), dict(temperature="hot"), dict(temperature=np.inf),
    dict(step_size=np.nan), dict(step_size=np.inf), dict(step_size=True), dict(step_size="small"),
    dict(step_size=np.ones(2)),
    dict(standardise="yes"), dict(seed=2**62), dict(seed=-1), dict(num_chains=2.0), dict(sample_inducing=None),
    dict(latent_noise=None), dict(latent_noise="small"), dict(latent_noise=np.nan), dict(latent_noise=np.inf),
)  # fmt: skip


@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_arguments_of_another_kind_are_refused_by_name(arguments):
    model, ((name, value),) = SGPBAE(), arguments.items()
    setattr(model, name, value)  # types are checked by the tests' own typechecker when a model is made
    with pytest.raises(InputError, match=f"^{name} must"):
        model._check_arguments()


@pytest.mark.parametrize(
    ("count", "worlds"), [(40, odd.WORLDS[:1]), pytest.param(2000, odd.WORLDS, marks=pytest.mark.slow)]
)
def test_generated_tables_are_answered_or_refused(count, worlds):
    """Through fit and one of predict, impute, encode, evaluate and score: finite numbers or a sentence, no traceback
    from inside, no hang."""
    counts, bad = Counter(), []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(odd.cases(worlds))
    def run(case):
        if not odd.is_good(found := odd.tried(case, counts)):
            bad.append((found, case))

    run()
    print(*(f"{number:5d} {what}" for what, number in counts.most_common()), sep="\n")
    assert not bad, f"{len(bad)} of {count}, first {bad[0]}"
    assert counts.total() >= count
    assert {f"answered by {question}" for question in odd.QUESTIONS} <= set(counts)
