"""What a run shows of itself: how far it is, in sweeps and draws, and how long it will take."""

import pytest

from gpbae.processes import progress
from gpbae.scoring import glossary

SHOWN = {
    "warming up, sweep 24 of 60": {"phase": "warm-up", "done": 12, "total": 30, "sweep": 24, "sweeps": 110},
    "sampling, draw 5 of 25": {"phase": "sampling", "done": 5, "total": 25, "sweep": 70, "sweeps": 110},
    "finding a place to start": {"phase": "map", "done": 1, "total": 1},
    "simple rival: column mean": {"phase": "rivals", "rival": "column mean"},
    "row 2000 of 9000": {"phase": "rows", "done": 2000, "total": 9000},
}


@pytest.mark.parametrize("words", SHOWN)
def test_progress_is_told_in_sweeps_and_draws(words):
    assert progress._words(SHOWN[words]) == words


def test_the_time_left_is_that_of_the_whole_run(monkeypatch):
    """Two seconds a sweep, but for one block with which something was compiled; then 80 of 100 are left."""
    pace, clock = progress._Pace(), iter([100.0, 104.0, 200.0, 204.0, 208.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    warm = {"phase": "warm-up", "done": 5, "total": 10, "sweeps": 100}
    assert [pace.left(warm | {"sweep": sweep}) for sweep in (12, 14, 16)] == ["", "", ""]
    assert pace.left({"phase": "compiling"}) == ""
    assert pace.left(warm | {"sweep": 18}) == "about 2 min 44 s left"
    assert pace.left(warm | {"phase": "sampling", "sweep": 20}) == "about 2 min 40 s left"


def test_lines_stand_where_there_is_no_terminal(capsys):
    with progress.display("SGPBAE", True) as show:
        show({"phase": "sampling", "done": 25, "total": 25, "sweep": 110, "sweeps": 110, "seconds": 75.2})
    assert capsys.readouterr().err == "SGPBAE: sampling, draw 25 of 25 [1 min 15 s]\n"


def test_news_of_a_block_are_told_chain_by_chain():
    event = {
        "phase": "warm-up",
        "log_joint": [-1234.56, -1200.0],
        "kinetic_temperature": [0.3611, 0.352],
        "temperature": 0.358,
    }
    raised = "temperature being raised, now at 0.36"
    assert progress._note(event) == f"log joint by chain -1235 -1200, {raised}"
    warm = {"phase": "warm-up", "kinetic_temperature": [1.01, 0.98], "temperature": 1.0}
    assert progress._note(warm) == "temperature by chain 1 0.98 (meant: 1)"
    alone = {"phase": "sampling", "kinetic_temperature": [1.004], "temperature": 1.0}
    assert progress._note(alone) == "temperature 1 (meant: 1)"


def test_fits_of_one_command_are_counted_and_share_a_clock(monkeypatch, capsys):
    """A sweep a second: ten are left of this fit of 20, and all 20 of the next; the clock is that of the command."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    course = progress.Course.of(3).later(1)
    title = course.title("SGPBAE", "without the hidden cells")
    now[0] += 60
    with progress.display(title, True, course) as show:
        for sweep in range(7, 11):
            now[0] += 1
            show({"phase": "warm-up", "done": sweep, "total": 10, "sweep": sweep, "sweeps": 20, "seconds": 0.5})
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("SGPBAE, fit 2 of 3, without the hidden cells: warming up, sweep 10 of 10 [1 min 4 s, ")
    assert last.endswith("about 10 s left, 30 s of sampling in all]")
    assert progress.Course.of(1).title("SGPBAE", "without the hidden cells") == "SGPBAE without the hidden cells"


@pytest.mark.parametrize(
    ("text", "words"),
    [("mae; smse; coverage90", ["MAE", "SMSE", "coverage (in 90 %)"]), ("r hat; ess", ["R-hat", "ESS"]),
     ("share wrong; half the Brier score", ["half the Brier score"]),
     ("kinetic_temperature", ["kinetic temperature"]),
     ("GP values; inducing inputs", ["GP values", "inducing inputs"]),
     ("output of zinc, row 3; accepted moves of the kernel", ["output", "accepted moves of the kernel"]),
     ("the mean of all columns", [])],
)  # fmt: skip
def test_words_of_scores_and_diagnostics_are_explained_where_they_stand(text, words):
    assert list(glossary.meanings(text)) == words


def test_before_anything_is_heard_no_phase_is_named():
    assert progress._Lines("fit").phase not in progress.WORDS


def test_silence_is_told_in_words_of_what_is_done():
    assert progress._silence("map", 12.0) == "compiling the sampler, 12 s so far"
    assert progress._silence("training", 31.0) == "training, at work for 31 s since the last news"
    assert progress._silence("sampling", 61.0) == "sampling, at work for 1 min 1 s since the last news"
