"""An explanation as a table for people."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.explain.explanation import Explanation, MoveAnswer, NodeAnswer
from kubedsm.plugins.fit import TIER
from kubedsm.terminal.fitted_table import table


def explanation_table(said: Explanation) -> RenderableType:
    lines = [Text(line) for line in (*_outcome(said), *map(_moved, said.moves))]
    if not said.nodes:
        return Group(Text(said.pod), *lines)
    title = said.pod + (" (nodes as they are now)" if said.nodes_as_of == "now" else "")
    headings = ("node", "tier", "fits", "score, or why not and what would help")
    return Group(table(headings, _rows(said.nodes), title=title), *lines)


def _rows(nodes: Sequence[NodeAnswer]) -> Iterator[tuple[str, str, str, str]]:
    """What refuses several in a row alike is said of the first."""
    above = ""
    for node in nodes:
        why = _why(node)
        alike = node.change is not None and why == above
        fits = "no" if node.change else "yes"
        yield node.node, node.tier or "", fits, "as above" if alike else why
        above = why


def _outcome(said: Explanation) -> Iterator[str]:
    chosen, decided = said.chosen, said.decided_at
    if said.left_to is not None:
        yield from _left_alone(said)
    elif decided:
        yield f"Decided at {decided}: {said.message if chosen is None else f'put on {chosen}'}"
        if said.summary:
            yield f"Because: {said.summary}"
        if said.packing:
            yield f"Packing: {said.packing}"
        if said.gone:
            yield "The pod is gone."
    elif chosen is None:
        yield said.message or ""
    else:
        yield f"It is on {chosen}." if said.bound else f"It would be put on {chosen}."


def _left_alone(said: Explanation) -> Iterator[str]:
    if said.message:
        yield said.message
    if said.bound:
        yield f"It is on {said.chosen}, and it was not KubeDSM that put it there."
    yield f"KubeDSM leaves it alone: its schedulerName is {said.left_to}."
    yield f"To opt in, {said.opt_in}."


def _moved(move: MoveAnswer) -> str:
    what = ", ".join(filter(None, (move.kind, move.purpose)))
    route = f" from {move.source} to {move.target} ({what})" if move.source else ""
    reason = f": {move.reason}" if move.reason else ""
    helped = f"; {move.helped}" if move.helped else ""
    return f"Move of {move.pod} at {move.at}{route} {move.outcome}{reason}{helped}"


def _why(node: NodeAnswer) -> str:
    if node.rule:
        return f"{node.rule}: {', '.join(node.reasons)}\n{node.change}"
    if node.tier_rule:
        return f"{TIER.name}: {node.tier_rule}\n{node.change}"
    return ranked_by(node)


def ranked_by(node: NodeAnswer) -> str:
    """What a node that takes the pod was ranked by, as far as that is known."""
    if not node.looked_at:
        return "not looked at: cloud.percentageOfNodes"
    if node.score is None:
        return ""
    shown = f"QoS {node.score:+.3f}"
    if node.penalty:
        shown += f", {node.penalty} less preferred"
    if node.company:
        shown += f", joins {node.company} of its replicas"
    if node.load is not None:
        shown += f", load score {node.load:.0f}"
    if node.fragmentation is not None:
        shown += f", fragmentation {node.fragmentation:+.3f}"
    if node.least_allocated is not None:
        shown += f", least allocated {node.least_allocated}"
    return shown
