"""Explanation of a decision: placement of a batch or suggested migrations, and the outcome."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kubedsm.explain.decision_record import Basis, Entry, Kind
from kubedsm.explain.explanation import Explanation, Link, Section, Words, link, moment, table
from kubedsm.explain.facts import DecisionFacts
from kubedsm.model.deadline import OUT_OF_TIME
from kubedsm.model.model import Share, Tier
from kubedsm.optimizer.programming.in_order import describe_unproven
from kubedsm.planner.plurals import counted, sentence


def explain_decision(
    entry: Entry, basis: Basis | None, states: Sequence[str]
) -> Explanation[DecisionFacts]:
    """Explain a recorded decision; `states`: current state of each of its migrations, such as
    `moving`.
    """
    title = f"Outcome of decision {entry.number}"
    lines, sections = (
        tuple(_describe_decision(entry, states)),
        tuple(_list_sections(entry, basis, states)),
    )
    return Explanation(title, lines, sections, entry.facts())


def _describe_decision(entry: Entry, states: Sequence[str]) -> Iterator[Words]:
    did = _describe_batch(entry) if entry.kind is Kind.BATCH else _describe_migrations(states)
    yield (f"Decision {entry.number} at ", moment(entry.at), did)
    concerned = "the workloads of these pods" if entry.kind is Kind.BATCH else "all workloads"
    yield (
        f"The QoS score of {concerned} goes from {entry.qos_before:.3f} to {entry.qos_after:.3f}"
        + (", which is proven optimal." if entry.proven else "."),
    )
    if gap := describe_unproven(entry.certificates):
        yield (f"Not proven optimal: {gap}.",)
    yield from ((sentence(str(loss)),) for loss in entry.worst_losses)
    if entry.out_of_time:
        yield (f"Cut short: {OUT_OF_TIME}.",)
    if entry.looked_at is not None:
        yield (f"{entry.looked_at}: cloud.percentageOfNodes.",)


def _describe_batch(entry: Entry) -> str:
    tiers = Counter(choice.tier for choice in entry.pods if choice.tier is not None)
    unplaced = len(entry.pods) - tiers.total()
    parts = (
        f"scheduled {count_new_pods(tiers)}" if tiers else "",
        f"found no node for {counted(unplaced, 'new pod')}" if unplaced else "",
    )
    return f" {', and '.join(filter(None, parts))}."


def count_new_pods(by_tier: Mapping[Tier, int]) -> str:
    """Describe the number of newly bound pods at the edge and in the cloud."""
    names = {Tier.EDGE: "the edge", Tier.CLOUD: "the cloud"}
    there = {names[tier]: number for tier in names if (number := by_tier.get(tier))}
    text = counted(sum(by_tier.values()), "new pod")
    if len(there) == 1:
        return f"{text} to {next(iter(there))}"
    return f"{text}, " + " and ".join(f"{number} to {name}" for name, number in there.items())


def _describe_migrations(states: Sequence[str]) -> str:
    parts = ", ".join(f"{number} {state}" for state, number in Counter(states).items())
    return f" was to migrate {counted(len(states), 'pod')}: {parts}."


def _list_sections(entry: Entry, basis: Basis | None, states: Sequence[str]) -> Iterator[Section]:
    if entry.pods:
        rows = (
            (link("pod", each.pod), _link_node(each.node), each.tier or "", each.message or "")
            for each in entry.pods
        )
        yield Section("Pods", table=table(("pod", "node", "tier", "why on no node"), rows))
    if entry.moves:
        headings = ("pod", "from", "to", "reason", "outcome")
        moves = (
            (
                Link("move", outcome.key, str(outcome.move.pod)),
                _link_node(outcome.move.source),
                link("node", outcome.move.target),
                outcome.move.purpose,
                ": ".join(filter(None, (state, outcome.reason))),
            )
            for outcome, state in zip(entry.moves, states, strict=True)
        )
        yield Section("Migrations", table=table(headings, moves))
    if basis is not None:
        shares = (
            (
                link("workload", w),
                f"{before.edge} of {before.total}",
                f"{after.edge} of {after.total}",
            )
            for w, after in basis.shares_after.items()
            if (before := basis.shares_before.get(w, Share())) != after
        )
        if (found := table(("workload", "at the edge before", "after"), shares)) is not None:
            yield Section("Edge shares", table=found)


def _link_node(name: str | None) -> str | Link:
    return link("node", name) if name else ""
