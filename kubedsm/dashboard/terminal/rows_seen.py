"""The rows of a snapshot, each table with its own type."""

from collections.abc import Mapping
from typing import Any, Self

import attrs

from kubedsm.dashboard.messages import Snapshot
from kubedsm.dashboard.rows import MoveRow, NewsRow, NodeRow, PodRow, StatusRow, WorkloadRow


@attrs.frozen
class Seen:
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
