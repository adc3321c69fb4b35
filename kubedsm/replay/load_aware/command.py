"""`kubedsm replay --preset load-aware`: the trials, and what is written of them."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from kubedsm.replay.files import Pictures
from kubedsm.replay.load_aware.plan import FULL, SHORT, Plan
from kubedsm.replay.load_aware.tables import MODELLED, SECTIONS
from kubedsm.replay.load_aware.trial import Outcome, play
from kubedsm.replay.runner import processors
from kubedsm.replay.trials import played, tell


def run(trials: int | None, full: bool, jobs: int | None, out: Path | None, output: str) -> None:
    """Raises OSError. trials: how many, unless as many as usual."""
    usual = FULL if full else SHORT
    planned = attrs.evolve(usual, trials=trials or usual.trials)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    done = carried_out(planned, jobs or processors())
    tell("load-aware", SECTIONS, done, about(planned), pictures, out, output)


def carried_out(planned: Plan, jobs: int) -> list[Outcome]:
    return played("load-aware", play, planned.all, jobs)


def about(planned: Plan) -> str:
    return f"{MODELLED}; trials of each kind: {planned.trials}, of {planned.minutes:g} minutes"


def pictures(done: Sequence[Outcome]) -> Pictures:
    from kubedsm.replay.load_aware.pictures import pictures  # noqa: PLC0415 - needs an extra

    return pictures(done)
