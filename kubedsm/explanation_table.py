"""An explanation as a table for people."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kubedsm.core.rules.node_rules import NO_TIER, TIER_RULE
from kubedsm.explanation import Explanation, NodeExplanation, Score


def explanation_table(explanation: Explanation) -> RenderableType:
    table = Table(title=explanation.pod, title_justify="left")
    for heading in ("node", "tier", "fits"):
        table.add_column(heading, no_wrap=True)
    table.add_column("score, or why not and what would help")
    for node in explanation.nodes:
        tier = node.tier.value if node.tier else ""
        table.add_row(*map(Text, (node.node, tier, "no" if node.change else "yes", _why(node))))
    if explanation.bound:
        outcome = f"It is on {explanation.chosen}."
    elif explanation.chosen is not None:
        outcome = f"It would be put on {explanation.chosen}."
    else:
        outcome = explanation.message
    return Group(table, Text(outcome))


def _why(node: NodeExplanation) -> str:
    if node.rejection is not None:
        reasons = ", ".join(node.rejection.reasons)
        return f"{node.rejection.rule}: {reasons}\n{node.change}"
    if node.tierless:
        return f"{TIER_RULE}: {NO_TIER}\n{node.change}"
    return _shown(node.score) if node.score else ""


def _shown(score: Score) -> str:
    shown = f"QoS {score.qos:+.3f}"
    if score.fragmentation is not None:
        shown += f", fragmentation {score.fragmentation:+.3f}"
    if score.least_allocated is not None:
        shown += f", least allocated {score.least_allocated}"
    return shown
