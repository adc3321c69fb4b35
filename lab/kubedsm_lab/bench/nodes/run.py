"""All contenders on the same clouds, in turns."""

from collections.abc import Callable, Sequence

from kubedsm_lab.bench.nodes.contenders import contenders
from kubedsm_lab.bench.nodes.instance import Instance
from kubedsm_lab.bench.nodes.result import NodesResult, Round, Side


def run(
    sizes: Sequence[int], pods: int, rounds: int, progressed: Callable[[], object]
) -> NodesResult:
    """progressed: called after each of `searches` of them."""
    sides = []
    for nodes in sizes:
        found: dict[int, list[Round]] = {at: [] for at in range(len(contenders()))}
        for number in range(rounds):
            instance, order = Instance(nodes, pods, number), contenders()
            for turn in range(len(order)):
                at = (turn + number) % len(order)
                mirror = instance.mirror()
                before = mirror.snapshot()
                decided = order[at].decide(mirror, instance.waiting(), number)
                found[at].append(Round.of(before, pods, decided))
                progressed()
        sides += [
            Side(nodes, each.policy, each.percentage, found[at])
            for at, each in enumerate(contenders())
        ]
    return NodesResult(pods, rounds, sides)
