"""One HTML page that needs nothing else: text, tables, pictures and charts, with every byte inside the file."""

import base64
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbae import __version__, charts
from gpbae.plots import COLOURS

if TYPE_CHECKING:
    from gpbae.experiments.ball import Outcome

NUM_TRACES = 6
ABOUT_TEMPERATURE = (
    "A sampler of the posterior keeps every block of variables at kinetic temperature 1. Colder is optimisation, "
    "hotter is too large a step; then the spread of the draws says nothing."
)


@dataclasses.dataclass(frozen=True)
class Table:
    """Cells as they are to be read."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Picture:
    """An image file, in words for those who cannot see it, and what to look for."""

    path: Path
    alt: str
    caption: str
    least_width: int = 0  # in pixels; a narrower screen scrolls

    @property
    def uri(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.path.read_bytes()).decode()


@dataclasses.dataclass(frozen=True)
class Chart:
    """An Altair chart; `name` is unique on its page."""

    name: str
    chart: Any
    caption: str

    @property
    def spec(self) -> dict[str, Any]:
        spec = self.chart.to_dict()
        spec.pop("$schema", None)
        return spec


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `notes` are warnings."""

    title: str
    texts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    charts: Sequence[Chart] = ()


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The HTML text; whatever a user's table put into it is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(loader=PackageLoader("gpbae"), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    specs = {chart.name: chart.spec for section in sections for chart in section.charts}
    bundle = Markup(_javascript()) if specs else ""
    return environment.get_template("page.html").render(
        title=title, lead=lead, sections=sections, specs=specs, bundle=bundle, footer=f"Made by gpbae {__version__}."
    )


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


def ball_page(outcome: "Outcome", pictures: Mapping[str, Path]) -> str:
    """The demo's page: the result first, then the pictures, then whether to believe them."""
    best, *others = outcome.answers
    versus = "".join(f", {a.model} of {a.metrics['rmse']:.2f}" for a in others)
    lead = (
        f"After watching {outcome.settings.num_videos} videos of a ball, {best.model} locates the ball in "
        f"{outcome.settings.num_test_videos} videos it has never seen with a root-mean-square error of "
        f"{best.metrics['rmse']:.2f} per coordinate{versus}. Positions have standard deviation 1, and nobody told the "
        "models what a position is."
    )
    sections = [_ball_scores(outcome), _ball_paths(outcome, pictures), _ball_lengthscale(outcome, pictures),
                _ball_trust(outcome), _ball_settings(outcome)]  # fmt: skip
    return page("The moving ball", lead, [s for s in sections if s is not None])


def _ball_scores(outcome) -> Section:
    rows = [(a.model, f"{a.metrics['rmse']:.3f}", f"{a.metrics['rmse_frame']:.3f}", a.lengthscale_text(),
             f"{a.seconds:.0f}") for a in outcome.answers]  # fmt: skip
    text = (
        "Latents are identified only up to an affine map, so one such map is fitted to all frames of all unseen videos "
        "before the distance to the truth is taken. BAE looks at each frame alone. SGP-BAE also knows that the frames "
        "of a video follow each other, which places the ball where it is off the picture."
    )
    header = ("model", "RMSE per coordinate", "RMSE per frame", "lengthscale (truth 2)", "seconds")
    return Section("Where is the ball?", [text], [Table(header, rows, "Unseen videos; lower RMSE is better.")])


def _ball_paths(outcome, pictures) -> Section:
    picture = Picture(
        pictures["trajectories.png"],
        "True and inferred paths of the ball in some unseen videos, with posterior draws and 90% bands",
        "Unseen videos. Upper rows: paths in the plane, thin lines are posterior draws. Lower rows: the two "
        "coordinates in time with 90% bands. A frame whose path lies beyond the dotted edge shows no ball.",
        least_width=720,
    )
    chart = charts.paths(outcome.truth, {a.model: a.paths for a in outcome.answers})
    caption = "Choose a video and a coordinate; bands hold 90% of the posterior."
    return Section("Paths, with their uncertainty", pictures=[picture], charts=[Chart("paths", chart, caption)])


def _ball_lengthscale(outcome, pictures) -> Section | None:
    if "lengthscale.png" not in pictures:
        return None
    metrics = outcome.answers[0].metrics
    text = (
        "The paths were drawn with lengthscale 2. The posterior mean is "
        f"{metrics['lengthscale']:.2f}, the 90% interval {metrics['lengthscale_lower']:.2f} to "
        f"{metrics['lengthscale_upper']:.2f}: learned from pixels alone."
    )
    picture = Picture(pictures["lengthscale.png"], "Posterior density of the lengthscale with the true value 2",
                      "Posterior of the lengthscale of the latent paths, in frames.")  # fmt: skip
    return Section("How fast does the ball move?", [text], pictures=[picture])


def _ball_trust(outcome) -> Section:
    notes = [f"{a.model}: {words}" for a in outcome.answers for words in a.warnings]
    shown = [_temperatures({a.model: a.temperatures for a in outcome.answers})]
    shown += [_log_joint(a.model, a.log_joint, c) for c, a in zip(COLOURS, outcome.answers, strict=False)]
    return Section("Is it to be trusted?", [ABOUT_TEMPERATURE], notes=notes, charts=shown)


def _temperatures(blocks) -> Chart:
    caption = "Kinetic temperature of each block of variables ± 2 Monte-Carlo errors; shaded: within 5% of 1."
    return Chart("temperatures", charts.temperatures(blocks), caption)


def _log_joint(model, trace, colour) -> Chart:
    caption = f"{model}: log joint density, one line per chain. A sampler that has settled wanders without trend."
    return Chart(f"log-joint-{model}", charts.trace(trace, "log joint (nats)", colour), caption)


def _ball_settings(outcome) -> Section:
    rows = [(name, str(value)) for name, value in dataclasses.asdict(outcome.settings).items()]
    return Section("What was run", [f"Seed {outcome.seed}; {outcome.seconds:.0f} seconds in all."],
                   [Table(("setting", "value"), rows)])  # fmt: skip


def model_page(model: Any, columns: Any = None) -> str:
    """The page of any fitted model: what it is, whether to believe it, and what it has learned."""
    frame = model.diagnostics()
    num_rows, num_cells = np.asarray(model.table_.mask).shape
    share = 1 - float(np.asarray(model.table_.mask).mean())
    name = type(model).__name__
    sizes = [_count(model.latent_dim_, "latent"), _count(num_rows, "row"), _count(num_cells, "cell")]
    lead = (
        f"{name} with {sizes[0]}, fitted to {sizes[1]} of {sizes[2]}, {share:.1%} of them missing, in "
        f"{_count(len(model.groups_), 'group')}."
    )
    return page(f"{name}: a fitted model", lead, [_model_trust(model, frame), _model_scalars(model, frame),
                                                  _model_settings(model, columns)])  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _model_trust(model, frame) -> Section:
    notes = frame.attrs["warnings"]
    texts = [ABOUT_TEMPERATURE, *([] if notes else ["Nothing to complain of."])]
    shown = [_temperatures({type(model).__name__: model.kinetic_temperatures_()})]
    events = [e for e in model.history_ if e["phase"] in ("warm-up", "sampling")]
    if events:
        trace = np.array([np.atleast_1d(e["log_joint"]) for e in events], float)
        shown.append(_log_joint(type(model).__name__, trace, COLOURS[0]))
    return Section("Is it to be trusted?", texts, notes=notes, charts=shown)


def _model_scalars(model, frame) -> Section:
    rows = [(quantity, *(_cell(value) for value in values[:4])) for quantity, *values in frame.itertuples()
            if values[0] == values[0]]  # fmt: skip
    table = Table(("quantity", "mean", "sd", "R-hat", "effective draws"), rows, "R-hat below 1.1 is good.")
    scalars = list(model.scalars_().items())[:NUM_TRACES]
    shown = [Chart(f"trace-{i}", charts.trace(draws.T, name, step="draw"), f"{name}: draws, one line per chain.")
             for i, (name, draws) in enumerate(scalars)]  # fmt: skip
    text = "output[r, c] is the decoder's output at training row r, cell c, on the scale of the model."
    return Section("What has it learned?", [text], [table], charts=shown)


def _cell(value: float) -> str:
    return "" if value != value else f"{value:.4g}"


def _model_settings(model, columns) -> Section:
    rows = [(name, str(value)) for name, value in model.get_params().items()]
    if columns is not None:
        rows = [("inputs", ", ".join(columns.inputs)), ("outputs", ", ".join(columns.outputs)),
                ("groups", columns.groups or "none"), *rows]  # fmt: skip
    return Section("What was run", tables=[Table(("setting", "value"), rows)])
