"""Values written as text, `RBF() + Periodic(period=24)`: read from a list of names, never executed."""

import ast
import difflib
import operator
from typing import Any

from gpbae.errors import InputError

OPERATORS = {ast.Add: operator.add, ast.Mult: operator.mul}


def names() -> dict[str, Any]:
    """What may be called: kernels, likelihoods, networks, priors on weights."""
    from gpbae import kernels, likelihoods, networks, weights

    found = {}
    for home in (kernels, likelihoods, networks, weights):
        found |= {name: thing for name, thing in vars(home).items() if name[:1].isupper() and isinstance(thing, type)}
    return {name: thing for name, thing in found.items() if thing.__module__.startswith("gpbae.")}


def looks_like_one(text: Any) -> bool:
    return isinstance(text, str) and "(" in text


def read(text: str) -> Any:
    """The value that an expression stands for."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise InputError(f"Expected a value such as RBF() + Periodic(period=24); got {text!r}.") from None
    return _value(tree, names(), text)


def _value(node: ast.expr, known: dict[str, Any], text: str) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | bool | None):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(item, known, text) for item in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -_value(node.operand, known, text)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left, known, text), _value(node.right, known, text))
    if isinstance(node, ast.Call):
        return _call(node, known, text)
    raise InputError(f"Expected names, numbers, calls, + and * in {text!r}; got {ast.unparse(node)!r}.")


def _call(node: ast.Call, known: dict[str, Any], text: str) -> Any:
    arguments = [_value(a, known, text) for a in node.args]
    named = {k.arg: _value(k.value, known, text) for k in node.keywords if k.arg}
    if isinstance(node.func, ast.Attribute) and node.func.attr == "on":
        return _value(node.func.value, known, text).on(*arguments)
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        raise InputError(f"There is no {name!r} to use in {text!r}." + (f" Did you mean {close[0]}?" if close else ""))
    try:
        return known[name](*arguments, **named)
    except TypeError as error:
        raise InputError(f"{name} does not take these arguments in {text!r}: {error}.") from None
