"""The autoscaler's experiment of the rotating-score-cache paper: how soon a service recovers."""

import attrs
import msgspec

from kubedsm_lab.baselines.registry import POLICIES
from kubedsm_lab.comparison.experiment import Asked, Experiment, Found, Part, of_titles
from kubedsm_lab.replay.hpa.command import PRESET
from kubedsm_lab.replay.hpa.plan import REFERENCE, SHORT
from kubedsm_lab.replay.hpa.tables import SECTIONS, standings
from kubedsm_lab.replay.sections import made
from kubedsm_lab.replay.trials import as_json

#: of the tables of docs/hpa.md
SHOWN = ("Time to recover", "Chance or policy", "How much of it is scheduling", "The autoscaler")
#: seeds of a look, as few as have an interval
_LOOK = 6
_REASONS = {
    "time to recover, median": "It hangs on how ten connections fall on the pods, which the seed"
    " draws for each window, and not on who places pods in a fraction of a second.",
}


def _run(asked: Asked) -> Found:
    planned = SHORT if asked.full else SHORT.times(_LOOK)
    if asked.policies:
        planned = attrs.evolve(
            planned, contenders=list(dict.fromkeys([*asked.policies, REFERENCE]))
        )
    done = PRESET.carried_out(planned, asked.jobs)
    results, tables = msgspec.Raw(as_json(done)), made(of_titles(SECTIONS, SHOWN), done)
    part = Part(asked.full, PRESET.about(planned), standings(done), tables, results)
    return Found(part, PRESET.draw(done))


HPA = Experiment(
    "hpa",
    "The autoscaler: how soon a service recovers",
    "emulated, the service modelled",
    _REASONS,
    _run,
    tuple(POLICIES),
)
