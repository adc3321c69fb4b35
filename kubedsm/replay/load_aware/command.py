"""`kubedsm replay --preset load-aware`: the trials, and what is written of them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
import click
import msgspec

from kubedsm.replay.files import Pictures, put, put_page
from kubedsm.replay.load_aware.plan import FULL, SHORT, Plan
from kubedsm.replay.load_aware.tables import MODELLED, SECTIONS
from kubedsm.replay.load_aware.trial import Outcome, play
from kubedsm.replay.progress import progress
from kubedsm.replay.runner import processors, spread
from kubedsm.replay.sections import as_markdown


def plan(trials: int | None, *, full: bool) -> Plan:
    usual = FULL if full else SHORT
    return attrs.evolve(usual, trials=trials or usual.trials)


def run(planned: Plan, jobs: int | None, out: Path | None, output: str) -> None:
    """Raises OSError."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    done = carried_out(planned, jobs or processors())
    made, found = as_markdown(SECTIONS, done, about(planned)), as_json(done)
    click.echo(found if output == "json" else made, nl=False)
    if out is not None:
        put(out, found, made)
        put_page(out, "kubedsm replay --preset load-aware", made, partial(pictures, done))


def carried_out(planned: Plan, jobs: int) -> list[Outcome]:
    trials = planned.all
    return list(progress("load-aware", spread(play, trials, jobs), len(trials)))


def about(planned: Plan) -> str:
    return f"{MODELLED}; trials of each kind: {planned.trials}, of {planned.minutes:g} minutes"


def pictures(done: Sequence[Outcome]) -> Pictures:
    from kubedsm.replay.load_aware.pictures import pictures  # noqa: PLC0415 - needs an extra

    return pictures(done)


def as_json(done: Sequence[Outcome]) -> bytes:
    """The same wherever and whenever it is made."""
    return msgspec.json.encode({"emulated": True, "modelled": True, "trials": done}) + b"\n"
