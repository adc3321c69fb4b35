"""An explanation as a table for people."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kubedsm.core.rules.node_rules import TIER_RULE
from kubedsm.why.explanation import Explanation, MoveAnswer, NodeAnswer


def explanation_table(said: Explanation) -> RenderableType:
    lines = [Text(line) for line in (*_outcome(said), *map(_moved, said.moves))]
    if not said.nodes:
        return Group(Text(said.pod), *lines)
    title = said.pod + (" (nodes as they are now)" if said.nodes_as_of == "now" else "")
    table = Table(title=title, title_justify="left")
    for heading in ("node", "tier", "fits"):
        table.add_column(heading, no_wrap=True)
    table.add_column("score, or why not and what would help")
    for node in said.nodes:
        fits = "no" if node.change else "yes"
        table.add_row(*map(Text, (node.node, node.tier or "", fits, _why(node))))
    return Group(table, *lines)


def _outcome(said: Explanation) -> Iterator[str]:
    chosen, decided = said.chosen, said.decided_at
    if decided:
        yield f"Decided at {decided}: {said.message if chosen is None else f'put on {chosen}'}"
        if said.summary:
            yield f"Because: {said.summary}"
    elif chosen is None:
        yield said.message or ""
    else:
        yield f"It is on {chosen}." if said.bound else f"It would be put on {chosen}."


def _moved(move: MoveAnswer) -> str:
    route = f" from {move.source} to {move.target} ({move.kind})" if move.source else ""
    reason = f": {move.reason}" if move.reason else ""
    return f"Move of {move.pod} at {move.at}{route} {move.outcome}{reason}"


def _why(node: NodeAnswer) -> str:
    if node.rule:
        return f"{node.rule}: {', '.join(node.reasons)}\n{node.change}"
    if node.tier_rule:
        return f"{TIER_RULE}: {node.tier_rule}\n{node.change}"
    if node.score is None:
        return ""
    shown = f"QoS {node.score:+.3f}"
    if node.penalty:
        shown += f", {node.penalty} less preferred"
    if node.fragmentation is not None:
        shown += f", fragmentation {node.fragmentation:+.3f}"
    if node.least_allocated is not None:
        shown += f", least allocated {node.least_allocated}"
    return shown
