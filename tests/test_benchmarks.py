"""Benchmarks are run by hand, months apart: what they use of the package is there all the same."""

import ast
import importlib
import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).resolve().parents[1] / "benchmarks").glob("*.py"))


def fetched(home, name):
    """What `from home import name` gives."""
    found = importlib.import_module(home)
    return getattr(found, name) if hasattr(found, name) else importlib.import_module(f"{home}.{name}")


def taken(tree):
    """Names of a script that stand for something of the package, wherever they are imported."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gpbae":
            found |= {alias.asname or alias.name: fetched(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import) and any(alias.name == "gpbae" for alias in node.names):
            found["gpbae"] = importlib.import_module("gpbae")
    return found


def lacking(tree):
    """Every `name.attribute` of what is taken from the package that is not there."""
    known = taken(tree)
    used = [
        (n.value.id, n.attr) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    ]
    return [f"{name}.{attribute}" for name, attribute in used if name in known and not hasattr(known[name], attribute)]


def test_what_moved_is_found_lacking():
    """As `evaluation.ALL` was, for as long as nobody ran the script."""
    assert lacking(ast.parse("from gpbae.scoring import evaluation\nevaluation.ALL")) == ["evaluation.ALL"]
    assert lacking(ast.parse("def f():\n  from gpbae.scoring import scoreboard as s\n  s.ALL")) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_scripts_can_be_imported_and_find_all_they_use(script):
    assert lacking(ast.parse(script.read_text(encoding="utf-8"))) == []
    assert runpy.run_path(str(script))["__doc__"]
