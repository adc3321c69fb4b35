"""Why pods of a dump fit nowhere: kube-scheduler's message, then node by node what it is."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kubedsm.commands.offline import OfflinePlacement
from kubedsm.model.model import NodeName, Pod, Resources
from kubedsm.model.quantities import format_amount
from kubedsm.planner.plurals import named
from kubedsm.plugins.fit import NODE_RESOURCES_FIT, why_unschedulable
from kubedsm.plugins.scene import Rejection

_MEBI = 1 << 20
#: columns
_INDENT = 2


def unplaced_lines(placement: OfflinePlacement) -> Iterator[RenderableType]:
    """A paragraph for the pods for which it is the same."""
    decision, snapshot = placement.decision, placement.snapshot
    free = snapshot.with_placed({pod.uid: node for pod, node, _ in decision.bindings}).free
    pods = defaultdict[str, list[str]](list)
    for uid, rejections in decision.unplaced.items():
        pod = snapshot.pods[uid]
        message = why_unschedulable(pod.requests, rejections, snapshot.index)
        pods["\n".join((message, *_node_by_node(pod, rejections, free)))].append(str(pod))
    for why, names in pods.items():
        message, *nodes = why.split("\n")
        yield Text(f"{named(names)}: {message}")
        yield from (Padding(Text(line), (0, 0, 0, _INDENT)) for line in nodes)
    yield from (Text(each.reason) for each in placement.unreadable)


def _node_by_node(
    pod: Pod, rejections: Mapping[NodeName, Rejection], free: Mapping[NodeName, Resources]
) -> Iterator[str]:
    """A line for the nodes that refuse it alike, most of them first."""
    alike = defaultdict[tuple[str, tuple[str, ...]], list[NodeName]](list)
    for name, rejection in rejections.items():
        alike[rejection.rule, rejection.reasons].append(name)
    for (rule, reasons), names in sorted(alike.items(), key=lambda of: (-len(of[1]), of[0])):
        room = [free[name] for name in names]
        what = _lacking(pod, room) if rule == NODE_RESOURCES_FIT.name else reasons
        yield f"{', '.join(what)}: {named(sorted(names))}"


def _lacking(pod: Pod, room: Sequence[Resources]) -> Iterator[str]:
    """Of what these nodes have too little left, all of them."""
    for name, needed in pod.requests.items():
        left = [max(0, each.amount(name)) for each in room]
        if needed and max(left) < needed:
            least, most = (_left(name, amount) for amount in (min(left), max(left)))
            between = least if least == most else f"{least} to {most}"
            yield f"too little {name} (free {between} of {_amount(name, needed)} needed)"


def _left(name: str, amount: int) -> str:
    """Of bytes, the whole Mi that there are."""
    if name in ("memory", "ephemeral-storage"):
        return f"{amount // _MEBI}Mi"
    return _amount(name, amount)


def _amount(name: str, amount: int) -> str:
    return format_amount(name, amount).removesuffix(f" {name}").removesuffix(" of")
