"""What was decided, of a batch of new pods or of moves, and what that came to."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from kubedsm.dashboard.answers.answer import (
    Answer,
    Link,
    Section,
    Words,
    moment,
    move_link,
    node_link,
    pod_link,
    table,
    workload_link,
)
from kubedsm.dashboard.rows import Row
from kubedsm.dashboard.state.moves import key_of, state_of
from kubedsm.explain.decision_record import Basis, DecisionRecord
from kubedsm.explain.entries import Entry, Kind
from kubedsm.model.model import Share, Tier
from kubedsm.optimizer.programming.in_order import describe_unproven
from kubedsm.planner.plurals import counted


def about_decision(
    record: DecisionRecord, number: str, moves: Mapping[str, Row | None]
) -> Callable[[], Answer] | None:
    """How to tell of the decision of that number; None if there is none, or not any more.

    `moves`: their rows.
    """
    entry = record.entry(int(number)) if number.isascii() and number.isdecimal() else None
    if entry is None:
        return None
    states = [state_of(outcome, moves) for outcome in entry.moves]
    return partial(_told, entry, record.basis(entry), states)


def _told(entry: Entry, basis: Basis | None, states: Sequence[str]) -> Answer:
    """`states`: of its moves."""
    did = _placed(entry) if entry.kind is Kind.BATCH else _moved(states)
    lines: list[Words] = [
        (
            f"Decision {entry.number} at ",
            moment(entry.at),
            *did,
        ),
        (
            f"By it the QoS of all workloads goes from {entry.qos_before:.3f} to"
            f" {entry.qos_after:.3f} points"
            + (", and nothing better was possible." if entry.proven else "."),
        ),
    ]
    if told := describe_unproven(entry.certificates):
        lines.append((f"Not proven to be the best: {told}.",))
    if entry.looked_at is not None:
        lines.append((f"{entry.looked_at}: cloud.percentageOfNodes.",))
    sections = tuple(_sections(entry, basis, states))
    return Answer(f"What decision {entry.number} was", tuple(lines), sections)


def _placed(entry: Entry) -> Words:
    tiers = Counter(choice.tier for choice in entry.pods)
    to = [
        f"{number} {where}"
        for number, where in (
            (tiers[Tier.EDGE], "at the edge"),
            (tiers[Tier.CLOUD], "in the cloud"),
            (tiers[None], "nowhere, for want of a node that takes them"),
        )
        if number
    ]
    return (f" put {counted(len(entry.pods), 'new pod')}: {', '.join(to)}.",)


def _moved(states: Sequence[str]) -> Words:
    told = ", ".join(f"{number} {state}" for state, number in Counter(states).items())
    return (f" was to move {counted(len(states), 'pod')}: {told}.",)


def _sections(entry: Entry, basis: Basis | None, states: Sequence[str]) -> Iterator[Section]:
    if entry.pods:
        rows = (
            (
                pod_link(choice.pod),
                _node(choice.node),
                choice.tier or "",
                choice.message,
            )
            for choice in entry.pods
        )
        yield Section("Pods", table=table(("pod", "node", "tier", "why on none"), rows))
    if entry.moves:
        headings = ("pod", "from", "to", "what for", "what became of it")
        moves = (
            (
                move_link(key_of(outcome), str(outcome.move.pod)),
                _node(outcome.move.source),
                node_link(outcome.move.target),
                outcome.move.purpose,
                ": ".join(filter(None, (state, outcome.reason))),
            )
            for outcome, state in zip(entry.moves, states, strict=True)
        )
        yield Section("Moves", table=table(headings, moves))
    if basis is not None:
        shares = (
            (workload_link(workload), f"{before.edge} of {before.total}", f"{edge} of {total}")
            for workload, before, edge, total in _changed(basis)
        )
        found = table(("workload", "at the edge before", "after"), shares)
        if found is not None:
            yield Section("Edge shares", table=found)


def _node(name: str | None) -> str | Link:
    return node_link(name) if name else ""


def _changed(basis: Basis) -> Iterator[tuple[str, Share, int, int]]:
    for workload, after in basis.shares_after.items():
        before = basis.shares_before.get(workload, Share())
        if before != after:
            yield str(workload), before, after.edge, after.total
