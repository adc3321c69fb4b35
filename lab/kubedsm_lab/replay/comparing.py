"""One report of several: the results that recordings, or replays, left in their folders."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubedsm.config.documents import DocumentError, content, json_as, reading
from kubedsm_lab.replay.files import RESULTS
from kubedsm_lab.replay.report import Report, assembled, how_measured

_Number = float | None


class _Times(msgspec.Struct, frozen=True):
    mean: _Number
    p95: _Number
    network: _Number


class _Pending(msgspec.Struct, frozen=True):
    mean: float
    p95: float


class _OnOneNode(msgspec.Struct, frozen=True):
    services: float
    avoidable: float


class _Run(msgspec.Struct, frozen=True, rename="camel"):
    """What tables and pictures need of a run: see `Measures`."""

    scenario: str
    policy: str
    edge_ratio: _Number
    optimum_share: _Number
    std: _Number
    shares: dict[str, _Number]
    latency_ms: dict[str, _Times]
    overall_latency_ms: _Times
    unanswered: int | None
    migrations: int
    taken_back: int
    lost_pod_seconds: float
    pending_seconds: _Pending
    on_one_node: _OnOneNode
    tier_latency_ms: dict[str, dict[str, float]] = {}


class _Timeline(msgspec.Struct, frozen=True):
    scenario: str
    policy: str
    end: float
    services: dict[str, list[tuple[float, int, int]]]


class _Results(msgspec.Struct, frozen=True):
    emulated: bool
    runs: list[_Run]
    timelines: list[_Timeline]
    measured: str | None = None


def compared(folders: Sequence[Path]) -> Report:
    """Their runs side by side; those of the same scenario and policy are numbered anew.

    Raises DocumentError for what is no such folder, and where recordings, those of emulated
    clusters, and replays are mixed.
    """
    found = [_results(folder / RESULTS) for folder in folders]
    first = found[0]
    for folder, other in zip(folders, found, strict=True):
        if _sort_of(other) != _sort_of(first):
            both = f"{how_measured(other)}, and the first ones were {how_measured(first)}"
            raise DocumentError(both, source=str(folder))
    numbers = Counter[tuple[str, str]]()
    runs = []
    for run in (run for results in found for run in results["runs"]):
        name = run["scenario"], run["policy"]
        numbers[name] += 1
        runs.append(run | {"seed": numbers[name]})
    timelines = [timeline for results in found for timeline in results["timelines"]]
    how: Report = {"emulated": first["emulated"]}
    if "measured" in first:
        how["measured"] = " and ".join(dict.fromkeys(map(how_measured, found)))
    return how | assembled(runs, timelines)


def _sort_of(found: Report) -> tuple[bool, bool]:
    return found["emulated"], "measured" in found


def _results(path: Path) -> dict[str, Any]:
    with reading(path):
        text = content(path)
        checked = json_as(text, _Results)
        if not (checked.runs and checked.timelines):
            raise DocumentError("no run in it")
        return json_as(text, dict[str, Any])
