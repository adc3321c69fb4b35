"""What every node is for a pod: counted by rule, and one by one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kubedsm.dashboard.answers.answer import Section, Words, listed, node_link, table
from kubedsm.explain.explanation import NodeAnswer
from kubedsm.explain.table import ranked_by
from kubedsm.planner.plurals import counted
from kubedsm.plugins.fit import TIER

#: advice in a row, before it is only said how much more there is
_ADVICE = 2


def fits(node: NodeAnswer) -> bool:
    return not rule_of(node)


def rule_of(node: NodeAnswer) -> str:
    """The one that rejects the node; empty if none does."""
    return node.rule or (TIER.name if node.tier_rule else "")


def _reasons(node: NodeAnswer) -> str:
    return ", ".join(node.reasons) or node.tier_rule or ""


def rules_told(rules: Iterable[str]) -> str:
    """Of each node that rejects a pod the rule: which these are, most nodes first."""
    ordered = sorted(Counter(rules).items(), key=lambda item: (-item[1], item[0]))
    return " and ".join(f"{rule} on {counted(number, 'node')}" for rule, number in ordered)


def verdicts(nodes: Sequence[NodeAnswer], when: str) -> Iterator[Section]:
    """`when`: of which moment it is told."""
    headings = ("nodes", "verdict", "what would have to change")
    rows = [_row(rule, why, alike) for (rule, why), alike in _alike(nodes)]
    if rows:
        yield Section(f"Nodes by rule, {when}", table=table(headings, rows))
        every = ("node", "tier", "verdict", "what it is ranked by, or what would have to change")
        yield Section("Each node", table=table(every, map(_each, _ranked(nodes))), folded=True)


def _alike(
    nodes: Iterable[NodeAnswer],
) -> list[tuple[tuple[str, str], list[NodeAnswer]]]:
    """By rule and reasons: those that take it first, then where most nodes are."""
    found = defaultdict[tuple[str, str], list[NodeAnswer]](list)
    for node in nodes:
        found[rule_of(node), _reasons(node)].append(node)
    return sorted(found.items(), key=lambda item: (bool(item[0][0]), -len(item[1]), item[0]))


def _row(rule: str, why: str, alike: Sequence[NodeAnswer]) -> tuple[Words, ...]:
    names = listed([node_link(node.node) for node in (alike if rule else _ranked(alike))])
    count = f"{len(alike)}: " if len(alike) > 1 else ""
    verdict = f"{rule}: {why}" if rule else "would take it"
    return (count, *names), (verdict,), (_advice(alike) if rule else "",)


def _advice(alike: Sequence[NodeAnswer]) -> str:
    """The same for all, or what it is on the first of them."""
    changes = dict.fromkeys(node.change for node in alike if node.change)
    if len(changes) <= 1:
        return next(iter(changes), "")
    first = {node.change: node.node for node in reversed(alike)}
    told = [f"{first[change]}: {change}" for change in list(changes)[:_ADVICE]]
    more = len(changes) - len(told)
    return "; ".join(told) + (f"; {more} more, below" if more > 0 else "")


def _ranked(nodes: Iterable[NodeAnswer]) -> list[NodeAnswer]:
    """Those that would take it first, in the order in which they are preferred for it alone."""
    return sorted(
        nodes,
        key=lambda node: (
            not fits(node),
            not node.looked_at,
            -(node.score or 0.0),
            node.penalty or 0,
            node.company or 0,
            -(node.load or 0.0),
            node.fragmentation or 0.0,
            -(node.least_allocated or 0),
            node.node,
        ),
    )


def _each(node: NodeAnswer) -> tuple[Words, ...]:
    rule = rule_of(node)
    verdict = f"{rule}: {_reasons(node)}" if rule else "would take it"
    more = node.change or "" if rule else ranked_by(node)
    return (node_link(node.node),), (node.tier or "",), (verdict,), (more,)
