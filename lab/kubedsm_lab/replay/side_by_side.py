"""Two runs beside each other on a page that plays: which they are, and the file of their films."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from kubedsm.dashboard.single_file import Recorded, one_file
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.replay.answer import answer, named
from kubedsm_lab.replay.report import report
from kubedsm_lab.replay.runner import Outcome
from kubedsm_lab.replay.world import Run

#: runs that a page has room for
_SHOWN = 2


def two_filmed(planned: Sequence[Run]) -> list[Run]:
    """Have the first scenario filmed, with its first seed, under the first policies."""
    first = planned[0]
    shown = [run for run in planned if (run.name, run.seed) == (first.name, first.seed)][:_SHOWN]
    return [attrs.evolve(run, filmed=any(run is each for each in shown)) for run in planned]


def write_films(outcomes: Sequence[Outcome], path: Path) -> None:
    """Of those that were filmed. Raises OSError."""
    filmed = [outcome for outcome in outcomes if outcome.film]
    run = f"{filmed[0].scenario}, seed {filmed[0].seed}"
    about = f"{run}, emulated: {answer(report(filmed))}"
    films = [Recorded(named(outcome.policy), outcome.film) for outcome in filmed]
    write_whole(path, one_file(f"kubedsm replay {run}", about, films))
