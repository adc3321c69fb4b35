"""`kubedsm replay --preset hpa`: the trials, and what is written of them."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from kubedsm.replay.files import Pictures
from kubedsm.replay.hpa.plan import FULL, SHORT, Plan
from kubedsm.replay.hpa.tables import MODELLED, SECTIONS
from kubedsm.replay.hpa.trial import Outcome, play
from kubedsm.replay.runner import processors
from kubedsm.replay.trials import played, tell


def run(seeds: int | None, full: bool, jobs: int | None, out: Path | None, output: str) -> None:
    """Raises OSError. seeds: how many, unless as many as usual."""
    usual = FULL if full else SHORT
    planned = attrs.evolve(usual, seeds=seeds or usual.seeds)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    done = carried_out(planned, jobs or processors())
    tell("hpa", SECTIONS, done, about(planned), pictures, out, output)


def carried_out(planned: Plan, jobs: int) -> list[Outcome]:
    return played("hpa", play, planned.all, jobs)


def about(planned: Plan) -> str:
    return f"{MODELLED}; seeds: {planned.seeds}"


def pictures(done: Sequence[Outcome]) -> Pictures:
    from kubedsm.replay.hpa.pictures import pictures  # noqa: PLC0415 - needs an extra

    return pictures(done)
