"""Node count: what looking at some nodes of a large cloud saves, and what it loses."""

from collections.abc import Sequence

import attrs
import msgspec
import orjson
from rich.progress import Progress

from kubedsm.terminal.console import Console
from kubedsm_lab.bench.nodes.contenders import contenders, run
from kubedsm_lab.bench.nodes.result import sections, standings
from kubedsm_lab.comparison.experiment import Asked, Experiment, Found, Part, of_titles

_NAME = "nodes"
_TIME = "decision time"
#: of its tables
SHOWN = ("Time", "Quality", "Fairness")


@attrs.frozen
class _Plan:
    nodes: Sequence[int]
    pods: int
    rounds: int


_FULL, _LOOK = _Plan((100, 1000, 5000), 1000, 3), _Plan((100, 1000), 200, 1)
_REASONS = {
    "mean score": "KubeDSM goes by how far apart replicas come first, and then by how little of a"
    " node is asked for, and not by the balance of cpu and memory that this score counts as well.",
}


def _run(asked: Asked) -> Found:
    plan = _FULL if asked.full else _LOOK
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        searches = len(plan.nodes) * plan.rounds * len(contenders())
        task = progress.add_task(_NAME, total=searches)
        result = run(plan.nodes, plan.pods, plan.rounds, lambda: progress.advance(task))
    # That scores written down one by one in Python are slower is nobody's merit.
    told = [one for one in standings(result) if not one.what.startswith(_TIME)]
    tables = of_titles(sections(result), SHOWN)
    results = msgspec.Raw(orjson.dumps(result.as_json()))
    return Found(Part(asked.full, result.about, told, tables, results))


NODES = Experiment(_NAME, "Many nodes: looking at some, or at all", "computed", _REASONS, _run)
