"""What is printed in the documentation runs: every block of Python, and every example, with tiny chains."""

import ast
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import pytest

from gpbae import BAE

ROOT = Path(__file__).resolve().parents[1]
TINY = dict(num_chains=1, num_warmup=2, num_samples=4, thinning=1, sampler_steps=2, encoder_steps=1, num_map_steps=2,
            progress=False)  # fmt: skip
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
EVERY_PAGE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FULL_NAME = re.compile(r"\b(gpbae(?:\.[A-Za-z_]\w*)+)(?![\w./-])")
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r'^--8<-- "(.*)"$', flags=re.MULTILINE)


@pytest.fixture(autouse=True)
def tiny_chains(monkeypatch, tmp_path):
    """Whatever budget a page gives, a fit takes a moment; files are written elsewhere."""
    fit = BAE.fit
    monkeypatch.setattr(BAE, "fit", lambda self, *args, **kwargs: fit(self.set_params(**TINY), *args, **kwargs))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_of_a_page_run_from_top_to_bottom(page):
    names = {"__name__": page.stem}
    for code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if not INCLUDED.search(code):  # an example, which has its own test
            exec(compile(code, str(page), "exec"), names)


def imports_in(code):
    """The import lines of a block, which may hold names that only a reader has."""
    return ast.unparse([node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)])


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.stem)
def test_what_a_page_imports_is_there(page):
    for code in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(imports_in(code) if not INCLUDED.search(code) else "", {})


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.stem)
def test_what_a_page_names_in_full_is_there(page):
    """Such as gpbae.processes.distributed, after the imports that it takes."""
    for name in FULL_NAME.findall(page.read_text(encoding="utf-8")):
        pkgutil.resolve_name(name)


@pytest.mark.parametrize("name", ["table", "groups", "own_network"])
def test_examples_run(name, capsys):
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out


def test_images_example_runs_on_coarse_maps(monkeypatch, data_dir, capsys):
    monkeypatch.setattr(sys, "argv", ["images.py", "4"])
    runpy.run_path(str(ROOT / "examples" / "images.py"), run_name="__main__")
    assert "linear in time" in capsys.readouterr().out


def test_examples_are_short_and_included_ones_exist():
    examples = list((ROOT / "examples").glob("*.py"))
    assert len(examples) >= 4
    assert all(len(example.read_text(encoding="utf-8").splitlines()) < 40 for example in examples)
    included = [path for page in PAGES for path in INCLUDED.findall(page.read_text(encoding="utf-8"))]
    assert included and all((ROOT / path).is_file() for path in included)


def commands_in(text):
    """Every `gpbae …` of a page, in the lines of its blocks and between backticks, as words."""
    text = text.replace("\\\n", " ")
    spans = [
        line for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S) for line in re.split(r"\n|&&", block)
    ]
    spans += re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return [span.split("#")[0].split() for span in spans if re.match(r"\s*gpbae [a-z-]", span)]


def test_every_command_on_a_page_exists():
    import typer.main

    from gpbae.cli.app import app

    root = typer.main.get_command(app)
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("benchmarks/*.md")]
    found = [(page.name, words) for page in pages for words in commands_in(page.read_text(encoding="utf-8"))]
    assert len(found) > 40
    for page, (_, *words) in found:
        command, rest = root, list(words)
        while rest and not rest[0].startswith("-") and hasattr(command, "commands"):
            assert rest[0] in command.commands, f"{page}: there is no command {' '.join(words)!r}"
            command = command.commands[rest.pop(0)]
        known = {flag for option in (*command.params, *root.params) for flag in option.opts} | {"--help"}
        flags = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert flags <= known, f"{page}: {' '.join(words)!r} has {sorted(flags - known)}"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_page_is_in_the_contents():
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert pages and all(page in contents for page in pages)
