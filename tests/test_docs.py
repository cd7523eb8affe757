"""What is printed in the documentation runs: every block of Python, and every example, with tiny chains."""

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


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_page_is_in_the_contents():
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert pages and all(page in contents for page in pages)
