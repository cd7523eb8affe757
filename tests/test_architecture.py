"""Imports point down: a module knows only what stands above it in this list.  Names on one line are strangers."""

import ast
import graphlib
from pathlib import Path

import gpbae

LAYERS = (
    "errors",
    "processes contract data",
    "linalg likelihoods networks weights",
    "kernels tabular",
    "gp scoring",
    "priors",
    "autoencoder",
    "sampling",
    "answering",
    "estimators",
    "baselines",
    "overview",
    "saving plots",
    "report",
    "experiments verify speed",
    "cli",
    "__main__",
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
CONVENIENCES = {(home, name) for home in ("estimators", "baselines") for name in ("saving", "report")}  # when called
SOURCE = Path(gpbae.__file__).parent


def imports(path):
    """Where a file imports from, and what, wherever in the file, but for types only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    for_types = {id(n) for guard in guards for n in ast.walk(guard)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
            yield node.module.split("."), [alias.name for alias in node.names]


def imported(path):
    """Modules of the package that a file imports."""
    for home, names in imports(path):
        if home[0] == "gpbae":
            yield from home[1:2] or (name for name in names if name in LEVEL)


def test_imports_point_down():
    for path in SOURCE.rglob("*.py"):
        importer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if importer == "__init__":
            continue
        for name in imported(path):
            if importer != name and (importer, name) not in CONVENIENCES:
                assert LEVEL[name] < LEVEL[importer], f"{path.name} imports {name}, which is not below {importer}"


def neighbours(path):
    """Modules of its own folder that a file imports."""
    folder = ["gpbae", *path.relative_to(SOURCE).parent.parts]
    for home, names in imports(path):
        if home[: len(folder)] == folder:
            yield from (n for n in home[len(folder) :][:1] or names if (path.parent / f"{n}.py").is_file())


def test_modules_of_a_folder_import_each_other_in_one_direction():
    for folder in {path.parent for path in SOURCE.rglob("*.py")} - {SOURCE}:
        imports = {path.stem: set(neighbours(path)) for path in folder.glob("*.py") if path.stem != "__init__"}
        tuple(graphlib.TopologicalSorter(imports).static_order())  # a circle is an error that names its members
