"""Recent activity on the dashboard: decisions, ended migrations, Events, and state changes of nodes
and the scheduler.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from kubedsm.dashboard.rows import MoveRow, NewsRow, NodeRow, StatusRow
from kubedsm.dashboard.state.headline import (
    describe_migration,
    migration_route,
    nodes_by_site,
)
from kubedsm.dashboard.state.tables import Difference, RowTable
from kubedsm.explain.decision import count_new_pods
from kubedsm.explain.decision_record import DecisionRecord, Entry, Kind
from kubedsm.explain.facts import PodChoice
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.kube.calls.writes import Regarding
from kubedsm.model.model import Pod, Uid
from kubedsm.planner.plurals import named
from kubedsm.process.clock import Clock

#: rows kept
LAST = 200
#: number of simultaneous Events per reason with individual rows, otherwise a combined row
_FEW = 3
#: Events duplicated by the news of decisions and migrations
_REPEATED = frozenset({"Scheduled", "FailedScheduling", "Migrated", "MigrationProposed"})


class WrittenEvent(NamedTuple):
    at: float
    about: Regarding
    reason: str
    note: str
    warning: bool


class NewsTable(RowTable[NewsRow]):
    """Dashboard table of recent activity, keyed by consecutive number."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._number = 0
        #: newest decision in the news
        self._decision = 0
        #: rows of repeatable decisions, by text
        self._repeatable: dict[str, str] = {}
        self._events: deque[WrittenEvent] = deque(maxlen=LAST)

    def event_written(self, about: Regarding, reason: str, note: str, warning: bool) -> None:
        if reason not in _REPEATED:
            self._events.append(WrittenEvent(self._clock.wall(), about, reason, note, warning))

    def look(
        self, record: DecisionRecord, pods: Mapping[Uid, Pod], others: Iterable[NewsRow]
    ) -> dict[str, Difference[NewsRow]]:
        """Append recent activity to the table in order of time; return the changed rows. `pods`:
        existing pods.
        """
        events = list(self._events)
        self._events.clear()
        rows: dict[str, NewsRow | None] = {}
        news = [*news_of_events(events), *others]
        for row in news_of_decisions(self._list_new_entries(record), pods):
            key = self._repeatable.get(row.text, "")
            if key in self.rows:
                # Of repeated decisions, the record has only the last.
                first = self.rows[key]
                rows[key] = msgspec.structs.replace(first, decision=row.decision)
            else:
                news.append(row)
        self._repeatable = {t: key for t, key in self._repeatable.items() if key in self.rows}
        for row in sorted(news, key=lambda row: row.at)[-LAST:]:
            self._number += 1
            rows[str(self._number)] = row
            if row.decision and (row.warning or row.kind == "suggestion"):
                self._repeatable[row.text] = str(self._number)
        surplus = len(self.rows.keys() | rows.keys()) - LAST
        rows.update(dict.fromkeys(list(self.rows)[: max(0, surplus)]))
        return self.update(rows)

    def _list_new_entries(self, record: DecisionRecord) -> Sequence[Entry]:
        last = self._decision
        entries = list(takewhile(lambda entry: entry.number > last, record.newest_first()))
        if entries:
            self._decision = entries[0].number
        return entries[::-1]


def news_of_decisions(entries: Sequence[Entry], pods: Mapping[Uid, Pod]) -> Iterator[NewsRow]:
    """Yield activity rows about placement and migration decisions, oldest first; many batches share
    a row.

    `pods`: existing pods.
    """
    batches = [entry for entry in entries if entry.kind is Kind.BATCH]
    for one in [[each] for each in batches] if len(batches) <= _FEW else [batches]:
        choices = [choice for entry in one for choice in entry.pods]
        workloads = {str(pods[c.uid].workload) for c in choices if c.uid in pods}
        yield NewsRow(
            at=one[-1].at,
            kind="batch",
            text=_describe_batch(choices),
            workload=workloads.pop() if len(workloads) == 1 else "",
            pod=choices[0].pod if len(choices) == 1 else "",
            node=choices[0].node or "" if len(choices) == 1 else "",
            decision=one[-1].number,
            warning=any(choice.node is None for choice in choices),
        )
    for entry in entries:
        if entry.kind is Kind.SUGGESTION:
            text = _describe_suggestion(entry)
            yield NewsRow(at=entry.at, kind="suggestion", text=text, decision=entry.number)


def _describe_suggestion(entry: Entry) -> str:
    proposes = any(move.outcome is Outcome.PROPOSED for move in entry.moves)
    moves = {move.move.pod.uid: move.move for move in entry.moves}
    verb = "would migrate" if proposes else "decided to migrate"
    if len(moves) == 1:
        (move,) = moves.values()
        return f"{verb} {move.pod} from {move.source} to {move.target}"
    return f"{verb} {len(moves)} pods: {named([str(move.pod) for move in moves.values()])}"


def _describe_batch(choices: Sequence[PodChoice]) -> str:
    here = [choice for choice in choices if choice.node is not None]
    lost = [choice for choice in choices if choice.node is None]
    parts = []
    if len(here) == 1:
        parts.append(f"scheduled {here[0].pod} to {here[0].node}")
    elif here:
        tiers = Counter(choice.tier for choice in here if choice.tier is not None)
        parts.append(f"scheduled {count_new_pods(tiers)}")
    if lost:
        text = lost[0].pod if len(lost) == 1 else f"{len(lost)} pods"
        parts.append(f"no node is feasible for {text}: {lost[0].message}")
    return "; ".join(parts)


def news_of_migration(key: str, before: MoveRow | None, after: MoveRow | None) -> Iterator[NewsRow]:
    """Yield activity rows about the start or the end of a migration."""
    if after is None or after.state in ("proposed", "planned", before and before.state):
        return
    text = describe_migration(after)
    if after.state == "dropped":
        text = f"not migrated: {migration_route(after)} ({after.reason})"
    yield NewsRow(
        at=after.ended or after.began,
        kind="move",
        text=text,
        workload=after.workload,
        pod=after.replacement if after.state == "completed" else after.pod,
        node=after.target,
        move=key,
        decision=after.decision,
        warning=after.state in ("failed", "rolled back"),
    )


def news_of_events(events: Sequence[WrittenEvent]) -> Iterator[NewsRow]:
    """Yield activity rows about Kubernetes Events; Events with the same reason share a row."""
    by_reason = defaultdict[str, list[WrittenEvent]](list)
    for each in events:
        by_reason[each.reason].append(each)
    for reason, several in by_reason.items():
        for each in several if len(several) <= _FEW else ():
            yield _of_event(each, f"{reason}: {each.note}")
        if len(several) > _FEW:
            last = several[-1]
            text = f"{reason} of {len(several)} {last.about.kind}s, the last: {last.note}"
            yield NewsRow(at=last.at, kind="event", text=text, warning=last.warning)


def _of_event(event: WrittenEvent, text: str) -> NewsRow:
    about = f"{event.about.namespace}/{event.about.name}"
    pod = about if event.about.kind == "Pod" else ""
    workload = about if event.about.api_version == "apps/v1" else ""
    return NewsRow(
        at=event.at, kind="event", text=text, pod=pod, workload=workload, warning=event.warning
    )


_SITES = {
    "partitioned": "site {} is partitioned: pods on {} are left alone",
    "stabilising": "site {} is reachable again: {}",
}
_STATES = {
    "cordoned": "node {} is cordoned",
    "not ready": "node {} is not ready",
    "unreachable": "node {} is unreachable",
}


def news_of_nodes(changed: Mapping[str, Difference[NodeRow]], at: float) -> Iterator[NewsRow]:
    """Yield activity rows about added, removed and changed nodes; nodes of a site share a row."""
    before = {name: was for name, (was, _) in changed.items() if was is not None}
    after = {name: now for name, (_, now) in changed.items() if now is not None}
    for state, text in _SITES.items():
        there = nodes_by_site(before, state)
        for site, names in nodes_by_site(after, state).items():
            if site not in there:
                said = text.format(site, named(sorted(names)))
                yield _state_news(said, at, warning=state == "partitioned")
    for name, (was, now) in changed.items():
        if now is None:
            yield _state_news(f"node {name} is gone", at, name, warning=True)
        elif was is None:
            yield _state_news(f"node {name} has joined", at, name)
        elif was.state != now.state and now.state in _STATES:
            warns = now.state != "cordoned"
            yield _state_news(_STATES[now.state].format(name), at, name, warning=warns)
        elif was.state and not now.state:
            yield _state_news(f"node {name} accepts pods again", at, name)


def news_of_status(before: StatusRow, after: StatusRow, at: float) -> Iterator[NewsRow]:
    """Yield activity rows about the scheduler: role, configuration, pause switch and problems."""
    if before.role != after.role or before.leader != after.leader:
        leads = "this scheduler leads" if after.role == "leading" else ""
        leads = leads or (f"{after.leader} leads" if after.leader else "no leader is known")
        yield _state_news(leads, at, warning=after.role == "standby" and not after.leader)
    if before.paused != after.paused:
        yield _state_news("migrations are paused" if after.paused else "migrations are resumed", at)
    if before.generation != after.generation:
        yield _state_news("another configuration is in force", at)
    if after.refusal and before.refusal != after.refusal:
        yield _state_news(f"the configuration is refused: {after.refusal}", at, warning=True)


def _state_news(text: str, at: float, node: str = "", *, warning: bool = False) -> NewsRow:
    return NewsRow(at=at, kind="state", text=text, node=node, warning=warning)
