"""A batch in parts that have nothing to do with each other.

Kinds are of one part if a workload has pods of both, or if both may come to the same node; but a
cloud with room for all of them keeps no kinds together. What any two parts do is then as possible
as if each were alone, and what both come to is the sum, in every goal: pods placed by turn, QoS by
level, unevenness, penalties, charges, fragmentation. If one part could do better in the first goal
in which anything can be better, so could the whole, whatever the others do; so the best of the
whole is the best of each part, and parts are within bounds that the whole exceeds.
"""

from collections.abc import Callable, Sequence

import attrs
import numpy as np

from kubedsm.objective.fragmentation import Ints
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import Packing
from kubedsm.optimizer.placing.beyond.by_heuristics import Placement
from kubedsm.optimizer.placing.beyond.choosing import Chosen
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.proof import Proof
from kubedsm.optimizer.placing.split import Demand, Picks, linked

Choose = Callable[[Packing, CloudRoom, Sequence[Demand], Bounds], Chosen]


def parts_of(edge: Packing, cloud: CloudRoom, members: Sequence[Demand]) -> list[Ints]:
    """The kinds of each part."""
    nodes = (
        [edge.feasible] if cloud.endless is not None else [edge.feasible, cloud.packing.feasible]
    )
    together = [member.kinds() for member in members]
    takes = np.unique(np.concatenate(nodes), axis=0)
    together += [np.flatnonzero(of_node).tolist() for of_node in takes]
    return [np.array(kinds) for kinds in linked(together, len(edge.kinds))]


def chosen_by_parts(
    parts: Sequence[Ints],
    edge: Packing,
    cloud: CloudRoom,
    members: Sequence[Demand],
    bounds: Bounds,
    choose: Choose,
) -> Chosen:
    """What is chosen for each part by itself, put together."""
    picks: Picks = {}
    on_edge, in_cloud = edge.nothing(), cloud.packing.nothing()
    made = []
    for at, kinds in enumerate(parts):
        part = choose(
            edge.only(kinds),
            cloud.only(kinds, bounds),
            [attrs.evolve(m, counts=m.counts[kinds]) for m in members if m.counts[kinds].any()],
            attrs.evolve(bounds, deadline=bounds.deadline.part(1 / (len(parts) - at))),
        )
        made.append(part)
        on_edge[:, kinds], in_cloud[:, kinds] = part.placement.on_edge, part.placement.in_cloud
        for (workload, kind), number in part.placement.picks.items():
            picks[workload, int(kinds[kind])] = number
    if cloud.endless is not None:
        in_cloud = cloud.place(edge.counts - on_edge.sum(axis=0))
    known = zip(*(attrs.astuple(part.proof) for part in made), strict=True)
    return Chosen(
        Placement(picks, on_edge, in_cloud),
        Proof(*map(all, known)),
        tuple(each for part in made for each in part.certificates),
        sum(part.charged for part in made),
    )
