"""Whole clusters packed anew: the instances of "Priority Matters"."""

from collections.abc import Sequence

import attrs
import msgspec

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.comparison.experiment import Asked, Experiment, Found, Part, of_titles
from kubedsm_lab.replay.packing import command
from kubedsm_lab.replay.packing.attempts import Attempt
from kubedsm_lab.replay.packing.sweep import SHORT
from kubedsm_lab.replay.packing.tables import SECTIONS, Outcomes
from kubedsm_lab.replay.sections import made
from kubedsm_lab.replay.standings import Standing

_NAME, _THEIRS = "packing", "kube-scheduler"
#: of the tables of docs/packing.md, those of which something was published
SHOWN = (
    "At a glance",
    "By nodes",
    "Figure 4: better, and proven the best",
    "Table 1: seconds, and what is requested by pods placed",
    "The paper's order, solved to the end",
)
_EVICTIONS = "evictions an instance"
#: as many as docs/packing.md has
_FULL = attrs.evolve(SHORT, seeds=4)
_LOOK = attrs.evolve(SHORT, seeds=1)


def _run(asked: Asked) -> Found:
    planned, solver = _FULL if asked.full else _LOOK, command.usual_solver()
    done = command.carried_out(planned, solver, asked.jobs)
    results = msgspec.Raw(command.as_json(done, solver, asked.jobs))
    about = command.about(solver, asked.jobs)
    return Found(
        Part(
            asked.full,
            about,
            standings(done, *planned.limits),
            made(of_titles(SECTIONS, SHOWN), done),
            results,
        )
    )


def standings(done: Sequence[Attempt], seconds: float) -> list[Standing]:
    """Of what was packed within so many seconds. More is placed by priority, the highest first."""
    calls = Outcomes(done, seconds).calls
    if not calls:
        return []
    ours = sum(call.placed > each.placed for each, call in calls)
    theirs = sum(call.placed < each.placed for each, call in calls)
    evicted = {
        KUBEDSM: sum(call.evictions for _, call in calls),
        _THEIRS: sum(each.evictions for each, _ in calls),
    }
    more = {KUBEDSM: 100 * ours / len(calls), _THEIRS: 100 * theirs / len(calls)}
    return [
        Standing("instances in which it places more", "%", less_is_better=False, values=more),
        Standing(
            _EVICTIONS,
            "",
            less_is_better=True,
            values={name: number / len(calls) for name, number in evicted.items()},
        ),
    ]


PACKING = Experiment(
    _NAME,
    "Full clusters: packed anew",
    "computed",
    {_EVICTIONS: "Those of higher priority that it places need the room."},
    _run,
)
