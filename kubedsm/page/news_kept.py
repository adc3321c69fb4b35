"""The last news, by number."""

from collections.abc import Iterable, Iterator, Mapping

import attrs

from kubedsm.clock import Clock
from kubedsm.cluster.calls.verbs import Regarding
from kubedsm.core.world.model import Pod, Uid
from kubedsm.page.kept_rows import Difference, KeptRows
from kubedsm.page.news_seen import Told, of_decisions, of_events
from kubedsm.page.rows import NewsRow
from kubedsm.why.record import DecisionRecord

#: rows of them
LAST = 200
#: seconds for which the same is no news if it is decided once more
SAME = 300.0
#: what batches tell already
_TOLD_OTHERWISE = frozenset({"Scheduled"})


@attrs.define
class NewsKept:
    """The one owner of what is news."""

    _clock: Clock
    kept: KeptRows[NewsRow] = attrs.field(factory=KeptRows, init=False)
    _number: int = attrs.field(default=0, init=False)
    #: the newest decision that was told
    _decision: int = attrs.field(default=0, init=False)
    #: when what came to nothing was told
    _in_vain: dict[str, float] = attrs.field(factory=dict, init=False)
    _events: list[Told] = attrs.field(factory=list, init=False)

    def event_written(self, about: Regarding, reason: str, note: str, warning: bool) -> None:
        if reason not in _TOLD_OTHERWISE:
            self._events.append(Told(self._clock.wall(), about, reason, note, warning))

    def look(
        self, record: DecisionRecord, pods: Mapping[Uid, Pod], others: Iterable[NewsRow]
    ) -> dict[str, Difference[NewsRow]]:
        """What is new, by the time that it is of. `pods`: those that there are."""
        events, self._events = self._events, []
        news = sorted(
            (*self._decided(record, pods), *of_events(events), *others), key=lambda row: row.at
        )
        rows: dict[str, NewsRow | None] = {}
        for row in news[-LAST:]:
            self._number += 1
            rows[str(self._number)] = row
        surplus = len(self.kept.rows) + len(rows) - LAST
        rows.update(dict.fromkeys(list(self.kept.rows)[: max(0, surplus)]))
        return self.kept.take(rows)

    def _decided(self, record: DecisionRecord, pods: Mapping[Uid, Pod]) -> Iterator[NewsRow]:
        entries = []
        for entry in record.newest_first():
            if entry.number <= self._decision:
                break
            entries.append(entry)
        if not entries:
            return
        self._decision, now = entries[0].number, self._clock.wall()
        self._in_vain = {text: at for text, at in self._in_vain.items() if at > now - SAME}
        for row in of_decisions(entries[::-1], pods):
            if not (row.warning and row.text in self._in_vain):
                yield row
            if row.warning:
                self._in_vain.setdefault(row.text, row.at)
