"""The tables of a burst: what a watch saw, what the API has written down, and Table 3 beside it."""

from collections.abc import Sequence

from kubedsm_lab.baselines.score_cache import Why
from kubedsm_lab.bench.burst.published import COLUMNS, TABLE_3
from kubedsm_lab.bench.burst.result import CPU, TOP, BurstResult, Figures, Side, standings
from kubedsm_lab.replay.report import number
from kubedsm_lab.replay.sections import Section, Table, as_markdown
from kubedsm_lab.replay.standings import ours_and_best

_SOURCES = {"watch": "as a watch shows it", "api": "as the API has it, in whole seconds"}
_SPANS = {
    "createdToBound": "T_sched",
    "createdToReady": "T_ready",
    "boundToReady": "T_post",
}
_OF_TIMES = {"mean": 1, "p50": 1, "p90": 1, "p95": 1, "p99": 1, "max": 1, "missing": 0}
_NODES = {"onAllNodes": "all nodes", "onNodesUsed": "nodes that got one"}
_AMOUNTS = ("pods", "cpu", "memory")
_OF_NODES = {"nodes": 0, "min": 0, "max": 0, "mean": 1, "std": 2, "cv": 4, "jain": 4}
#: what a ratio is told of
_RATIOS = {
    "mean T_sched": "watch.createdToBound.mean",
    "p99": "watch.createdToBound.p99",
    "until all are bound": "watch.makespan",
    "mean T_ready": "watch.createdToReady.mean",
    "p99 of it": "watch.createdToReady.p99",
    "CPU": CPU,
}


def _cells(figures: Figures, prefix: str, digits: dict[str, int]) -> list[str]:
    return [number(figures.get(f"{prefix}.{name}"), of) for name, of in digits.items()]


def _beside_published(sides: Sequence[Side]) -> Table:
    lines = [
        [
            f"{side.scheduler}, {how}",
            *(number(side.medians.get(c.of(source)), c.digits) for c in COLUMNS),
        ]
        for source, how in _SOURCES.items()
        for side in sides
    ]
    for name, values in TABLE_3.items():
        cells = (number(value, c.digits) for c, value in zip(COLUMNS, values, strict=True))
        lines.append([f"{name}, published", *cells])
    return ["ms", *(column.heading for column in COLUMNS)], lines


def _times(sides: Sequence[Side]) -> Table:
    lines = [
        [f"{side.scheduler}: {span}, {how}", *_cells(side.medians, f"{source}.{name}", _OF_TIMES)]
        for source, how in _SOURCES.items()
        for name, span in _SPANS.items()
        for side in sides
    ]
    return ["ms", *_OF_TIMES], lines


def _evenness(sides: Sequence[Side]) -> Table:
    lines = [
        [f"{side.scheduler}: {what}, {which}", *_cells(side.medians, f"{on}.{what}", _OF_NODES)]
        for what in _AMOUNTS
        for on, which in _NODES.items()
        for side in sides
    ]
    return ["", "nodes", "min", "max", "mean", "std", "CV", "Jain"], lines


def _top_nodes(sides: Sequence[Side]) -> Table:
    lines = []
    for side in sides:
        top = [f"{node}: {pods:.1f}" for node, pods in side.top_nodes.items()]
        lines.append([side.scheduler, *top, *[""] * (TOP - len(top))])
    return ["", *map(str, range(1, TOP + 1))], lines


def _ratios(sides: Sequence[Side]) -> Table:
    first, *others = sides
    lines = []
    for other in others:
        ratios = first.ratios(other)
        cells = (number(ratios.get(figure), 3) for figure in _RATIOS.values())
        lines.append([f"{first.scheduler} / {other.scheduler}", *cells])
    return ["", *_RATIOS], lines


def _caches(sides: Sequence[Side]) -> Table:
    found = [(side.scheduler, side.cache.as_json()) for side in sides if side.cache is not None]
    lines = [
        [
            name,
            str(said["passes"]),
            number(said["hitRate"], 3),
            *(str(said["looks"].get(why, 0)) for why in Why),
        ]
        for name, said in found
    ]
    return ["in all rounds", "passes", "hit rate", *Why], lines


_BESIDE = (
    "T_sched is from created to bound, T_ready from created to Ready. Published is Table 3 of the"
    " paper of the rotating score cache: kube-scheduler, Koordinator, YuniKorn and its own on GKE,"
    " by the times that the API has; Jain's index and CV are of pods, over the nodes that got one."
    " Koordinator and YuniKorn do not run here."
)
_EMULATED = (
    " Here the API server and the kubelets are emulated on one machine: T_ready is T_sched and what"
    " the emulated kubelet takes, the same for every pod, where theirs pull, start and contend. All"
    " that run here are Python on the same runtime, theirs are Go. So compare within the emulated"
    " rows, and within the published ones; that an emulated row is less than a published one says"
    " nothing of the schedulers."
)


def sections(result: BurstResult) -> Sequence[Section[Side]]:
    return (
        Section(
            "Who is ahead",
            "By the times that a watch shows; two are level within 5 % in times, and within .5 % in"
            " Jain's index. The bare loop decides nothing, and is left out.",
            lambda _: ours_and_best(standings(result)),
        ),
        Section(
            "Ratios",
            "Medians of the rounds' own, by the times that a watch shows. CPU is what the processes"
            " of a scheduler took until all pods were Ready, where they are ours.",
            _ratios,
        ),
        Section(
            "Beside what was published",
            _BESIDE + (_EMULATED if result.emulated else ""),
            _beside_published,
        ),
        Section(
            "Times",
            "T_post is from bound to Ready. What takes less than a second the API can only tell by"
            " chance. Quantiles are interpolated linearly; missing are pods"
            " that did not come so far.",
            _times,
        ),
        Section(
            "Evenness",
            "What each node got: pods, and what they request, cpu in millicores, memory in bytes."
            " std is the population's, CV = std / mean, Jain = (sum x)^2 / (n sum x^2).",
            _evenness,
        ),
        Section("Fullest nodes", "Pods, means over the rounds.", _top_nodes),
        Section(
            "Score caches",
            "How often all nodes were scored; and what became of each look, as `hit`, or why not.",
            _caches,
        ),
    )


def tables(result: BurstResult) -> str:
    """All of them, as Markdown."""
    return as_markdown(sections(result), result.sides, result.about)
