"""The last news, by number."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import attrs
import msgspec

from kubedsm.dashboard.rows import NewsRow
from kubedsm.dashboard.state.kept_rows import Difference, KeptRows
from kubedsm.dashboard.state.news import Told, of_decisions, of_events
from kubedsm.explain.decision_record import DecisionRecord
from kubedsm.explain.entries import Entry
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.model import Pod, Uid
from kubedsm.process.clock import Clock

#: rows of them
LAST = 200
#: what the news of decisions and moves tell already
_TOLD_OTHERWISE = frozenset({"Scheduled", "FailedScheduling", "Migrated", "MigrationProposed"})


@attrs.define
class NewsKept:
    """The one owner of what is news."""

    _clock: Clock
    kept: KeptRows[NewsRow] = attrs.field(factory=KeptRows, init=False)
    _number: int = attrs.field(default=0, init=False)
    #: the newest decision that was told
    _decision: int = attrs.field(default=0, init=False)
    #: the rows of decisions that may be made again and again, by what they say
    _again: dict[str, str] = attrs.field(factory=dict, init=False)
    _events: deque[Told] = attrs.field(factory=lambda: deque(maxlen=LAST), init=False)

    def event_written(self, about: Regarding, reason: str, note: str, warning: bool) -> None:
        if reason not in _TOLD_OTHERWISE:
            self._events.append(Told(self._clock.wall(), about, reason, note, warning))

    def look(
        self, record: DecisionRecord, pods: Mapping[Uid, Pod], others: Iterable[NewsRow]
    ) -> dict[str, Difference[NewsRow]]:
        """What is new, by the time that it is of. `pods`: those that there are."""
        events = list(self._events)
        self._events.clear()
        rows: dict[str, NewsRow | None] = {}
        news = [*of_events(events), *others]
        for row in of_decisions(self._since(record), pods):
            key = self._again.get(row.text, "")
            if key in self.kept.rows:
                # The record has but the last of decisions that came to the same.
                first = self.kept.rows[key]
                rows[key] = msgspec.structs.replace(first, decision=row.decision)
            else:
                news.append(row)
        self._again = {text: key for text, key in self._again.items() if key in self.kept.rows}
        for row in sorted(news, key=lambda row: row.at)[-LAST:]:
            self._number += 1
            rows[str(self._number)] = row
            if row.decision and (row.warning or row.kind == "suggestion"):
                self._again[row.text] = str(self._number)
        surplus = len(self.kept.rows.keys() | rows.keys()) - LAST
        rows.update(dict.fromkeys(list(self.kept.rows)[: max(0, surplus)]))
        return self.kept.take(rows)

    def _since(self, record: DecisionRecord) -> Sequence[Entry]:
        entries = []
        for entry in record.newest_first():
            if entry.number <= self._decision:
                break
            entries.append(entry)
        if entries:
            self._decision = entries[0].number
        return entries[::-1]
