"""Placing by measured load: the experiment of the load-aware paper."""

from collections.abc import Sequence

import msgspec

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.comparison.experiment import Asked, Experiment, Found, Part, of_titles
from kubedsm_lab.replay.load_aware.application import GRAPHS
from kubedsm_lab.replay.load_aware.command import PRESET
from kubedsm_lab.replay.load_aware.contenders import OURS
from kubedsm_lab.replay.load_aware.plan import SHORT, Plan
from kubedsm_lab.replay.load_aware.tables import SECTIONS, Of
from kubedsm_lab.replay.load_aware.trial import Outcome
from kubedsm_lab.replay.sections import made
from kubedsm_lab.replay.standings import Standing
from kubedsm_lab.replay.trials import as_json

_NAME = "load-aware"
#: of the tables of docs/load-aware.md
SHOWN = ("At a glance", "By users")
#: what a look takes: one graph and one number of users
_LOOK = Plan(list(GRAPHS)[:1], (50,), trials=1)
#: trials of each kind are few
_NOISE = 0.03
_P95 = "p95 of response times"


def _run(asked: Asked) -> Found:
    planned = SHORT if asked.full else _LOOK
    done = PRESET.carried_out(planned, asked.jobs)
    results = msgspec.Raw(as_json(done))
    about, tables = PRESET.about(planned), made(of_titles(SECTIONS, SHOWN), done)
    part = Part(asked.full, about, standings(done), tables, results)
    return Found(part, PRESET.draw(done))


def standings(done: Sequence[Outcome]) -> list[Standing]:
    """Of means over graphs, users and trials; ours is KubeDSM that is told the load."""
    tried = Of(done)
    # KubeDSM that is not told of any load is in the tables.
    names = [name for name in tried.contenders if name != KUBEDSM]

    def standing(what: str, unit: str, of: Of, figure: str) -> Standing:
        means = {name: of.all(contender=name).mean(figure) for name in names}
        values = {name: value for name, value in means.items() if value is not None}
        return Standing(what, unit, less_is_better=True, values=values, noise=_NOISE, ours=OURS)

    return [
        *(
            standing(f"{_P95}, scenario {scenario}", "s", tried.all(scenario=scenario), "p95")
            for scenario in sorted({scenario for _, scenario in tried.kinds})
        ),
        standing("pod-seconds lost to moves, a trial", "", tried, "lost_pod_seconds"),
    ]


_BEHIND = (
    "KubeDSM has replicas apart before it looks at load, and moves a pod only if both nodes gain by"
    " it: a few times a trial, and none is missing meanwhile. The paper's score asks for no such"
    " thing, and its descheduler evicts a pod a minute: some hundred, and hundreds of pod-seconds."
)
LOAD_AWARE = Experiment(
    _NAME,
    "Busy nodes: placing by measured load",
    "emulated, response times modelled",
    {_P95: _BEHIND},
    _run,
)
