"""An explanation as a table for people."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kubedsm.core.rules.node_rules import NO_TIER, TIER_RULE
from kubedsm.explanation import Explanation, NodeExplanation, Score


def explanation_table(explanation: Explanation) -> RenderableType:
    table = Table(title=explanation.pod, title_justify="left")
    for heading in ("node", "tier", "fits", "rule", "why not", "what would help", "score"):
        table.add_column(heading)
    for node in explanation.nodes:
        table.add_row(*map(Text, _row(node)))
    if explanation.bound:
        outcome = f"It is on {explanation.chosen}."
    elif explanation.chosen is not None:
        outcome = f"It would be put on {explanation.chosen}."
    else:
        outcome = explanation.message or "It would be put nowhere."
    return Group(table, Text(outcome))


def _row(node: NodeExplanation) -> tuple[str, ...]:
    refused = node.rejection
    rule, why = "", ""
    if refused is not None:
        rule, why = refused.rule, ", ".join(refused.reasons)
    elif node.tierless:
        rule, why = TIER_RULE, NO_TIER
    fits = "yes" if not rule else "no"
    tier = node.tier.value if node.tier else ""
    return node.node, tier, fits, rule, why, node.change, _shown(node.score) if node.score else ""


def _shown(score: Score) -> str:
    shown = f"QoS {score.qos:+.3f}"
    if score.fragmentation is not None:
        shown += f", fragmentation {score.fragmentation:+.3f}"
    if score.least_allocated is not None:
        shown += f", least allocated {score.least_allocated}"
    return shown
