"""`gpbae demo`: the main job, start to finish, on data it makes itself."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gpbae.cli import options, runs, terminal

app = typer.Typer()


@app.command(epilog="Example: gpbae demo --out demo")
def demo(
    out: options.Out = Path("gpbae-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A few tiny videos: seconds, and a poor score.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and chains.")] = 0,
) -> None:
    """Locate a ball in videos never seen, start to finish: a table, pictures and a page.  Under three minutes."""
    from gpbae.experiments import ball
    from gpbae.saving import storage

    storage.make_folder(out)
    with runs.stoppable("Stopped. Nothing is kept of a demo that was not finished; the same command begins anew."):
        outcome = ball.run(ball.QUICK if quick else ball.DEMO, seed, progress=True, say=terminal.say)
    paths = ball.write(outcome, out)
    header = ("model", "RMSE per coordinate", "lengthscale (truth 2)", "seconds", "kinetic temperature")
    terminal.show("The moving ball, unseen videos", header, [_row(answer) for answer in outcome.answers])
    for path in paths:
        print(path)


def _row(answer: Any) -> tuple[str, ...]:
    low, high = min(answer.temperatures.values()), max(answer.temperatures.values())
    return (answer.model, f"{answer.metrics['rmse']:.3f}", answer.lengthscale_text(), f"{answer.seconds:.0f}",
            f"{low[0]:.2f} ± {low[1]:.2f} to {high[0]:.2f} ± {high[1]:.2f}")  # fmt: skip
