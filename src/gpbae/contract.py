"""scikit-learn's contract, without importing it: arguments are stored as given, and can be read and set by name."""

import difflib
import inspect
from typing import Any

from gpbae.errors import InputError


class Contract:
    """For dataclasses whose fields are the arguments of an estimator."""

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any):
        for name, value in params.items():
            if name not in self._names():
                near = difflib.get_close_matches(name, self._names(), 1)
                hint = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(self._names())}."
                raise InputError(f"{type(self).__name__} has no argument {name!r}. {hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {n: p.default for n, p in inspect.signature(type(self)).parameters.items()}
        given = [f"{n}={v!r}" for n, v in self.get_params().items() if not _same(v, defaults[n])]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self):
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))


def _same(a, b) -> bool:
    try:
        return bool(a is b or a == b)
    except (TypeError, ValueError):
        return False
