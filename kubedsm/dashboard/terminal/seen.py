"""Dashboard rows as of one moment, with a typed field for each table and sums over pods."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

import attrs

from kubedsm.dashboard.rows import (
    MoveRow,
    NewsRow,
    NodeRow,
    PodRow,
    Snapshot,
    StatusRow,
    WorkloadRow,
)

#: seconds of edge shares in a trend
SPAN = 600.0
_BLOCKS = "▁▂▃▄▅▆▇█"


@attrs.define
class NodeUsage:
    """Requests of a node's pods (cpu in millicores, memory in bytes), and pods by workload."""

    cpu: int = 0
    memory: int = 0
    pods: Counter[str] = attrs.field(factory=Counter)

    def add(self, pod: PodRow) -> None:
        self.cpu += pod.cpu
        self.memory += pod.memory
        self.pods[pod.workload] += 1


@attrs.frozen
class TypedSnapshot:
    """Snapshot of the dashboard's rows, with a typed field for each table."""

    #: seconds since the epoch
    at: float
    status: StatusRow
    nodes: Mapping[str, NodeRow] = attrs.field(factory=dict)
    pods: Mapping[str, PodRow] = attrs.field(factory=dict)
    workloads: Mapping[str, WorkloadRow] = attrs.field(factory=dict)
    moves: Mapping[str, MoveRow] = attrs.field(factory=dict)
    news: Mapping[str, NewsRow] = attrs.field(factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        tables: dict[str, Any] = {table: rows for table, rows in snapshot.rows.items() if rows}
        status = tables.pop("status", {}).get("now", StatusRow(headline=""))
        return cls(snapshot.at, status, **tables)

    @cached_property
    def usage(self) -> Mapping[str, NodeUsage]:
        """Usage of each node by the pods there."""
        found = {name: NodeUsage() for name in self.nodes}
        for pod in self.pods.values():
            if pod.node in found:
                found[pod.node].add(pod)
        return found


def news_text(row: NewsRow) -> str:
    """Format a recent-activity row as text, followed by the object's name unless mentioned."""
    about = row.pod or row.node or row.workload
    return row.text if about in row.text else f"{row.text} ({about})"


class ShareHistory:
    """Edge shares of workloads over the last `SPAN` seconds, one value per change."""

    def __init__(self) -> None:
        self._shares: dict[str, deque[tuple[float, float | None]]] = {}

    def observe(self, at: float, edge_pods: Iterable[tuple[str, int, int]]) -> None:
        """Record edge pods and all pods of workloads at a time; times must not decrease."""
        for workload, edge, total in edge_pods:
            kept = self._shares.setdefault(workload, deque())
            share = edge / total if total else None
            if not kept or kept[-1][1] != share:
                kept.append((at, share))
            # The value at the beginning of the span is older than the span.
            while len(kept) > 1 and kept[1][0] <= at - SPAN:
                kept.popleft()

    def draw_trend(self, workload: str, now: float, width: int) -> str:
        """Draw the edge share over the last `SPAN` seconds as blocks from 0 to 100%."""
        kept, at, drawn, share = self._shares.get(workload, deque()), 0, "", None
        for cell in range(1, width + 1):
            end = now - SPAN * (1 - cell / width)
            while at < len(kept) and kept[at][0] <= end:
                share, at = kept[at][1], at + 1
            drawn += " " if share is None else _BLOCKS[round(share * (len(_BLOCKS) - 1))]
        return drawn
