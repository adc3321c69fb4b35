"""What `kubedsm bench` is called with: its commands, each in one line."""

import click

from kubedsm.terminal.running import Commands

_BENCHING = "kubedsm_lab.command_line.benching"
#: the module and the summary of each
_COMMANDS = {
    "burst": (
        f"{_BENCHING}.bursts:burst_command",
        "A burst under one scheduler after another: how soon, how even.",
    ),
    "idle": (f"{_BENCHING}.processes", "What `kubedsm run` costs while nothing is to be done."),
    "ingest": (
        f"{_BENCHING}.decisions",
        "Reading watch lines, beside kubernetes_asyncio's typed models.",
    ),
    "load": (
        f"{_BENCHING}.decisions",
        "Placing by measured load, beside where nothing is measured (5 s).",
    ),
    "look": (
        f"{_BENCHING}.decisions",
        "What changed, seen for the page, beside seeing all anew (5 s).",
    ),
    "loop": (f"{_BENCHING}.processes", "How long hard bursts hold the event loop up (10 s)."),
    "match": (
        f"{_BENCHING}.decisions",
        "Algorithm 8 on counts, beside its textbook bitmask form (10 s).",
    ),
    "nodes": (
        f"{_BENCHING}.nodes",
        "Looking at some of many nodes, beside all of them (6 minutes).",
    ),
    "pack": (f"{_BENCHING}.decisions", "Packing all pods, with each solver beside none (60 s)."),
    "page": (
        f"{_BENCHING}.processes",
        "What viewers of the page cost, beside none (2 minutes).",
    ),
    "queue": (
        f"{_BENCHING}.decisions",
        "Events while many pods wait, beside asking each of them (60 s).",
    ),
    "rules": (
        f"{_BENCHING}.decisions",
        "Hard spread and anti-affinity, beside asking every rule (30 s).",
    ),
    "scale": (f"{_BENCHING}.processes", "What everything costs at each size."),
    "site": (
        f"{_BENCHING}.decisions",
        "Sites that are cut off, beside not knowing of sites (5 s).",
    ),
    "soak": (
        f"{_BENCHING}.soaking",
        "Many tenants and an odd one: are all others served as usual?",
    ),
    "solve": (
        f"{_BENCHING}.decisions",
        "Decisions beyond the bounds, beside the best (20 minutes).",
    ),
    "start": (f"{_BENCHING}.processes", "The first bind of `kubedsm run`, beside importing it."),
    "suggest": (
        f"{_BENCHING}.decisions",
        "The suggester, beside its literal form and enumeration (40 s).",
    ),
}


@click.group(
    cls=Commands,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
)
def bench() -> None:
    """Measure one side beside another, and print the ratio.

    In brackets: about how long it takes on 2 cores.
    """
