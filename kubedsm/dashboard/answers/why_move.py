"""Why a pod is moved: what for, what that costs, its story, and what it brought."""

from collections.abc import Callable, Iterator

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.dashboard.answers.answer import (
    Answer,
    Section,
    Words,
    decision_link,
    listed,
    moment,
    move_link,
    node_link,
    pod_link,
    table,
    workload_link,
)
from kubedsm.dashboard.rows import MoveRow, Row
from kubedsm.dashboard.state.moves import key_of
from kubedsm.explain.decision_record import Basis, DecisionRecord
from kubedsm.explain.entries import Entry, MoveOutcome, Outcome
from kubedsm.model.model import Share
from kubedsm.model.snapshot import Snapshot
from kubedsm.planner.rebalancing_requests import migration_mode

_TOLD = {
    Outcome.PROPOSED: "would be moved",
    Outcome.PLANNED: "is to be moved",
    Outcome.COMPLETED: "was moved",
}
_MODES = {
    "surge": "The new pod is made before the old one goes: none is missing on the way, and for a"
    " while there is one more.",
    "recreate": "The old pod goes before the new one is made: one is missing on the way.",
    "off": "",
}


def about_move(
    record: DecisionRecord,
    key: str,
    row: Row | None,
    snapshot: Snapshot,
    configuration: Configuration,
) -> Callable[[], Answer] | None:
    """How to tell of the move; None if it is not remembered. `row`: what is seen of it, if it is.

    key: of its row.
    """
    for entry in record.newest_first():
        for outcome in entry.moves:
            if key_of(outcome) == key:
                seen = row if isinstance(row, MoveRow) else None
                basis = record.basis(entry)
                return _About(entry, outcome, basis, seen, snapshot, configuration).told
    return None


@attrs.frozen(slots=True)
class _About:
    entry: Entry
    outcome: MoveOutcome
    basis: Basis | None
    row: MoveRow | None
    snapshot: Snapshot
    configuration: Configuration

    def told(self) -> Answer:
        return Answer(
            f"Why {self.outcome.move.pod} {self._is_moved}",
            tuple(self._lines()),
            tuple(self._sections()),
        )

    @property
    def _is_moved(self) -> str:
        if self.row is not None and self.row.state == "moving":
            return "is being moved"
        return _TOLD.get(self.outcome.outcome, "was to be moved")

    def _lines(self) -> Iterator[Words]:
        move, outcome, row = self.outcome.move, self.outcome, self.row
        source: Words = (" from ", node_link(move.source)) if move.source else ()
        what_for = (row and row.purpose) or move.purpose
        yield (
            pod_link(move.pod),
            f" {self._is_moved}",
            *source,
            " to ",
            node_link(move.target),
            f": {what_for}.",
        )
        if row is not None and row.step:
            yield (f"Now, step {row.done + 1} of {row.steps}: {row.step}.",)
        if outcome.reason:
            yield (f"It was {outcome.outcome}: {outcome.reason}.",)
        elif outcome.outcome in (Outcome.FAILED, Outcome.DROPPED, Outcome.TAKEN_BACK):
            yield (f"It was {outcome.outcome}.",)
        number = decision_link(self.entry.number)
        yield ("It is of ", number, ", at ", moment(self.entry.at), ".")
        if outcome.replacement is not None:
            yield ("In its place is ", pod_link(outcome.replacement), ".")

    def _sections(self) -> Iterator[Section]:
        yield Section("What it gains", tuple(self._gains()))
        yield Section("What it costs", tuple(self._costs()))
        if self.row is not None and self.row.story:
            rows = [((moment(at),), (words,)) for at, words in self.row.story]
            yield Section("Its story", table=table(("when", "what was done"), rows))
        if self.outcome.outcome is Outcome.COMPLETED:
            yield Section("What it brought", tuple(self._brought()))

    def _gains(self) -> Iterator[Words]:
        move, entry = self.outcome.move, self.entry
        workload = move.pod.workload
        if move.gain:
            yield (f"{move.gain:+.3f} points of QoS for each move of its group.",)
        elif move.purpose:
            yield (f"It is made {move.purpose}.",)
        if self.basis is not None and workload in self.basis.shares_after:
            before = self.basis.shares_before.get(workload, Share())
            after = self.basis.shares_after[workload]
            had = f" had {before.edge} of its {before.total} pods at the edge"
            then = f"all moves of the decision together make that {after.edge} of {after.total}"
            yield workload_link(workload), f"{had}; {then}."
        group = [
            move_link(key_of(other), str(other.move.pod))
            for other in entry.moves
            if other.move.group == move.group and key_of(other) != key_of(self.outcome)
        ]
        if group:
            yield ("It is made only together with ", *listed(group), ".")

    def _costs(self) -> Iterator[Words]:
        mode = migration_mode(self.outcome.move.pod, self.configuration)
        if said := _MODES[mode]:
            yield (said,)
        if self.row is not None and self.row.began:
            until = self.row.ended
            took = f"It took {until - self.row.began:.0f} s, until " if until else "It began at "
            yield (took, moment(until or self.row.began), ".")
        if price := self.configuration.migration.price:
            yield (f"To be worth that, it has to gain more than {price:g} s of a pod at the edge.",)

    def _brought(self) -> Iterator[Words]:
        workload, effect = self.outcome.move.pod.workload, self.outcome.effect
        if effect is not None:
            yield (f"Its mean response time: {effect}.",)
        share = self.snapshot.shares().get(workload)
        if share is not None:
            now = f" has {share.edge} of its {share.total} pods at the edge now."
            yield (workload_link(workload), now)
