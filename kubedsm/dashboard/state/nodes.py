"""What is seen of nodes: of those that something has happened to since the last look."""

from collections.abc import Mapping

import msgspec

from kubedsm.app.assembly import Runtime
from kubedsm.config.mismatches import missing_tiers
from kubedsm.dashboard.rows import NodeRow
from kubedsm.dashboard.state.kept_rows import Difference, KeptRows
from kubedsm.dashboard.state.values import node_row
from kubedsm.model.events import Change
from kubedsm.model.measured import Measured, Usage
from kubedsm.model.model import NodeName, Tier
from kubedsm.model.sites import Away
from kubedsm.observability.reading import Reading

_NOTHING_KNOWN = Usage()


class NodesSeen:
    """The one owner of the rows of nodes."""

    def __init__(self) -> None:
        self.kept: KeptRows[NodeRow] = KeptRows()
        #: of each tier that no node is of, what is to be said of that
        self.missing_tiers: Mapping[Tier, str] = {}
        self._touched: set[NodeName] = set()
        #: what all of them depend on, as of the last look
        self._measured: Measured | None = None
        self._of: tuple[Away, tuple[str, ...]] | None = None

    def changed(self, change: Change) -> None:
        for node in (change.node_before, change.node_after):
            if node is not None and change.node_before != change.node_after:
                self._touched.add(node.name)

    def look(self, runtime: Runtime, reading: Reading) -> dict[str, Difference[NodeRow]]:
        """What is different now."""
        snapshot, configuration = reading.snapshot, runtime.configuration.current
        labels = configuration.site.label
        of, touched = (reading.away, labels), set[str](self._touched)
        if snapshot.measured is not self._measured or of != self._of:
            touched = snapshot.nodes.keys() | self.kept.rows.keys()
        rows = {name: self._row(NodeName(name), reading, labels) for name in sorted(touched)}
        self._measured, self._of, self._touched = snapshot.measured, of, set()
        if touched:
            self.missing_tiers = missing_tiers(snapshot.nodes.values(), configuration.tiers)
        return self.kept.take(rows)

    def _row(self, name: NodeName, reading: Reading, labels: tuple[str, ...]) -> NodeRow | None:
        node = reading.snapshot.nodes.get(name)
        if node is None:
            return None
        used = reading.snapshot.measured.nodes.get(name, _NOTHING_KNOWN)
        row, before = node_row(node, used, reading.away, labels), self.kept.rows.get(name)
        if before is None:
            return row
        since = before.since if before.state == row.state else reading.now
        return msgspec.structs.replace(row, since=since)
