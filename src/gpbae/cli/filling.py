"""A table with types and its gaps filled: cells that are there stay, and so do the types of columns as far as what was
found has a place in them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbae.cli import files, reading, roles

TRUTH, WHOLE, NUMBER, TEXT, CATEGORY, NOTHING, OTHER = range(7)
INFERRED = {"boolean": TRUTH, "integer": WHOLE, "floating": NUMBER, "mixed-integer-float": NUMBER, "decimal": NUMBER,
            "empty": NOTHING}  # fmt: skip


def typed(table: reading.Table, values: Any, kinds: Mapping[str, str], with_types: bool, called: roles.Called) -> Any:
    """The rows of a table with these values in the gaps of its outputs.  The text of a file without types becomes what
    the fitted table held: numbers, yes and no, or words."""
    gaps = roles.gaps(table.rows, table.columns)
    words = roles.fill(table.rows, files.readable(values), table.columns, called)
    are_words = roles.names_of_words(table.columns)
    done = {}
    for name in table.columns.outputs:
        cells, answer, gap = table.rows[name], values[name], gaps[name].to_numpy()
        held = _held(cells)
        if held == NOTHING or (held == TEXT and not with_types):
            done[name] = words[name] if name in are_words else _decimal(answer, table.is_piece, kinds[name])
        elif held != OTHER and (gap.any() or table.is_piece):
            done[name] = _filled(cells, answer, gap, held, words[name], table.is_piece and kinds[name] == "real")
    return table.rows.assign(**done)


def _held(cells: Any) -> int:
    """What a column of a table with types holds."""
    import pandas as pd

    if isinstance(cells.dtype, pd.CategoricalDtype):
        return CATEGORY
    if cells.dtype == object:
        return INFERRED.get(pd.api.types.infer_dtype(cells, skipna=True), TEXT)
    return {"b": TRUTH, "i": WHOLE, "u": WHOLE, "f": NUMBER, "M": OTHER, "m": OTHER}.get(cells.dtype.kind, TEXT)


def _decimal(answer: Any, is_piece: bool, kind: str) -> Any:
    """Real numbers have decimals in every piece of a table, or in none."""
    return answer.astype(float) if is_piece and kind == "real" and answer.dtype.kind in "iu" else answer


def _filled(cells: Any, answer: Any, gap: np.ndarray, held: int, words: Any, with_decimals: bool) -> Any:
    import pandas as pd

    if held == CATEGORY:
        return _with_labels(cells, words, gap)
    if held == TEXT or answer.dtype.kind not in "biuf":
        return pd.Series([str(cell) for cell in words], cells.index, dtype=object)
    found = np.where(gap, answer.to_numpy(float, na_value=np.nan), cells.to_numpy(float, na_value=np.nan))
    if held == TRUTH and np.isin(found, [0.0, 1.0]).all():
        return pd.Series(found == 1.0, cells.index, dtype="boolean")
    if held == WHOLE and not with_decimals and (answer.dtype.kind != "f" or not gap.any()):
        exact = [int(new) if here else old for new, old, here in zip(found, cells, gap, strict=True)]
        return pd.Series(pd.array(exact, dtype="UInt64" if cells.dtype.kind == "u" else "Int64"), cells.index)
    return pd.Series(found, cells.index, dtype=cells.dtype if cells.dtype.kind == "f" else float)


def _with_labels(cells: Any, words: Any, gap: np.ndarray) -> Any:
    """A column of categories, with those of the filled cells if they are new."""
    import pandas as pd

    known = {str(label): label for label in cells.cat.categories}
    found = [known.get(str(cell), str(cell)) if here else cell for cell, here in zip(words, gap, strict=True)]
    new = [label for label in dict.fromkeys(found) if label not in known.values()]
    if new and any(not isinstance(label, str) for label in known.values()):
        return pd.Series([str(cell) for cell in found], cells.index, dtype=object)
    return pd.Series(pd.Categorical(found, [*cells.cat.categories, *new], cells.cat.ordered), cells.index)
