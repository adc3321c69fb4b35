"""Filter and Score verdicts of nodes as sentences: grouped by Filter plugin, and node by node."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kubedsm.explain.explanation import Section, Words, join_links, link, table
from kubedsm.explain.facts import NodeVerdict
from kubedsm.planner.plurals import counted
from kubedsm.plugins.fit import TIER

#: advice named in a row, before the rest is only counted
_ADVICE = 2


def rejected_by(node: NodeVerdict) -> str:
    """Return the name of the Filter plugin by which the node rejects the pod; empty if feasible."""
    return node.rule or (TIER.name if node.tier_rule else "")


def is_feasible(node: NodeVerdict) -> bool:
    return not rejected_by(node)


def count_rejections(rules: Iterable[str]) -> str:
    """Describe the number of nodes that each Filter plugin rejects, in descending order."""
    ordered = sorted(Counter(rules).items(), key=lambda item: (-item[1], item[0]))
    return " and ".join(f"{rule} rejects {counted(number, 'node')}" for rule, number in ordered)


def verdict_sections(nodes: Sequence[NodeVerdict], when: str) -> Iterator[Section]:
    """Yield tables of node verdicts, by Filter plugin and by node; `when`: time of evaluation as
    text.
    """
    headings = ("nodes", "verdict", "required change")
    rows = [_group_row(rule, why, alike) for (rule, why), alike in _group_verdicts(nodes)]
    if rows:
        yield Section(f"Nodes by rule, {when}", table=table(headings, rows))
        columns = ("node", "tier", "verdict", "ranking, or required change")
        each = table(columns, map(_node_row, _rank_nodes(nodes)))
        yield Section("Each node", table=each, folded=True)


def describe_ranking(node: NodeVerdict) -> str:
    """Describe the Score results of a feasible node, as far as known."""
    if not node.looked_at:
        return "not sampled: cloud.percentageOfNodes"
    if node.score is None:
        return ""
    parts = [f"QoS {node.score:+.3f}"]
    if node.penalty:
        parts.append(f"{node.penalty} less preferred")
    if node.company:
        parts.append(f"joins {node.company} of its replicas")
    if node.load is not None:
        parts.append(f"load score {node.load:.0f}")
    if node.fragmentation is not None:
        parts.append(f"fragmentation {node.fragmentation:+.3f}")
    if node.least_allocated is not None:
        parts.append(f"least allocated {node.least_allocated}")
    return ", ".join(parts)


def _join_reasons(node: NodeVerdict) -> str:
    return ", ".join(node.reasons) or node.tier_rule or ""


def _group_verdicts(
    nodes: Iterable[NodeVerdict],
) -> list[tuple[tuple[str, str], list[NodeVerdict]]]:
    """Group node verdicts by Filter plugin and reasons: feasible first, then the largest groups."""
    found = defaultdict[tuple[str, str], list[NodeVerdict]](list)
    for node in nodes:
        found[rejected_by(node), _join_reasons(node)].append(node)
    return sorted(found.items(), key=lambda item: (bool(item[0][0]), -len(item[1]), item[0]))


def _group_row(rule: str, why: str, alike: Sequence[NodeVerdict]) -> tuple[Words, ...]:
    names = join_links(
        [link("node", node.node) for node in (alike if rule else _rank_nodes(alike))]
    )
    count = f"{len(alike)}: " if len(alike) > 1 else ""
    verdict = f"{rule}: {why}" if rule else "feasible"
    return (count, *names), (verdict,), (_summarize_advice(alike) if rule else "",)


def _summarize_advice(alike: Sequence[NodeVerdict]) -> str:
    """Return the change that makes the nodes feasible; if several, the first few by node."""
    changes = dict.fromkeys(node.change for node in alike if node.change)
    if len(changes) <= 1:
        return next(iter(changes), "")
    first = {node.change: node.node for node in reversed(alike)}
    shown = [f"{first[change]}: {change}" for change in list(changes)[:_ADVICE]]
    more = len(changes) - len(shown)
    return "; ".join(shown) + (f"; {more} more, below" if more > 0 else "")


def _rank_nodes(nodes: Iterable[NodeVerdict]) -> list[NodeVerdict]:
    """Sort node verdicts: feasible nodes first, in the order of preference for a single pod."""
    return sorted(
        nodes,
        key=lambda node: (
            not is_feasible(node),
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


def _node_row(node: NodeVerdict) -> tuple[Words, ...]:
    rule = rejected_by(node)
    verdict = f"{rule}: {_join_reasons(node)}" if rule else "feasible"
    more = node.change or "" if rule else describe_ranking(node)
    return (link("node", node.node),), (node.tier or "",), (verdict,), (more,)
