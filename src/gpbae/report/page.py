"""One HTML page that needs nothing else: text, tables, pictures and charts, with every byte inside the file."""

import base64
import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpbae import __version__
from gpbae.report.trust import Check, worst
from gpbae.scoring import glossary


@dataclasses.dataclass(frozen=True)
class Table:
    """Cells as they are to be read; a long one may be folded behind its caption."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    folded: bool = False

    @functools.cached_property
    def words(self) -> list[int]:
        """Columns without a number, which are read from the left."""
        columns = enumerate(zip(*self.rows, strict=True))
        return [i for i, cells in columns if not any(_begins_with_digit(str(cell)) for cell in cells)]

    @property
    def markdown(self) -> str:
        """To be pasted into a page of the documentation."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"**{self.caption}**\n\n{table}" if self.caption else table


def _begins_with_digit(cell: str) -> bool:
    return cell.lstrip("+-−.")[:1].isdigit()


@dataclasses.dataclass(frozen=True)
class Picture:
    """An image file or the bytes of a PNG, in words for those who cannot see it, and what to look for."""

    source: Path | bytes
    alt: str
    caption: str
    least_width: int = 0  # in pixels; a narrower screen scrolls

    @property
    def uri(self) -> str:
        content = self.source if isinstance(self.source, bytes) else self.source.read_bytes()
        return "data:image/png;base64," + base64.b64encode(content).decode()


@dataclasses.dataclass(frozen=True)
class Chart:
    """An Altair chart; `name` is unique on its page.  A wide one has the page's width to itself."""

    name: str
    chart: Any
    caption: str
    wide: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        spec = self.chart.to_dict()
        spec.pop("$schema", None)
        return spec


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `notes` are warnings, `command` is to be typed and follows the texts."""

    title: str
    texts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    charts: Sequence[Chart] = ()
    checks: Sequence[Check] = ()
    command: str = ""

    @property
    def glossary(self) -> dict[str, str]:
        """What the words of its tables, checks and charts mean."""
        words = [name for table in self.tables for name in (*table.header, *(str(row[0]) for row in table.rows if row))]
        words += [check.name for check in self.checks] + [chart.caption for chart in self.charts]
        return glossary.meanings("; ".join(words))


def html(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The HTML text; whatever a user's table put into it is escaped, and no script runs but ours, by its checksum."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(loader=PackageLoader("gpbae.report"), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    has_charts = any(section.charts for section in sections)
    scripts = [Markup(text) for text in ((_javascript(), LOADER) if has_charts else ())]
    found = [check for section in sections for check in section.checks]
    return environment.get_template("page.html").render(
        title=title, lead=lead, sections=sections, meaning=lambda name: "; ".join(glossary.meanings(name).values()),
        scripts=scripts, allowed=" ".join(map(_digest, scripts)),
        verdict=worst(found) if found else None, footer=f"Made by gpbae {__version__}.",
    )  # fmt: skip


LOADER = """
for (const box of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(document.getElementById("spec-" + box.dataset.spec).textContent);
  const options = {mode: "vega-lite", renderer: "svg", actions: false, tooltip: {disableDefaultStyle: true}};
  vegaEmbed(box, spec, options);
}
"""


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@functools.cache
def _javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed from vl-convert, without the addresses of pages this file never opens."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = version in vl_convert.get_vegalite_versions()
    text = vl_convert.javascript_bundle(vl_version=version if known else None)  # type: ignore[call-arg]
    for address in ("https://vega.github.io", "https://github.com"):
        text = text.replace(address, "")
    return text.replace("</script", "<\\/script")
