"""Affinity and spread rules that running pods break now.

kube-scheduler checks these rules when a pod comes. Later arrivals and departures may break them: no
pod is evicted for that, but the next replica may find no node.
"""

from collections.abc import Iterable, Iterator, Mapping

from kubedsm.model.model import PodAffinityTerm, SpreadConstraint
from kubedsm.model.node_index import Positions
from kubedsm.model.residents import Keeper, Selection
from kubedsm.plugins.pod_affinity import find_deserted
from kubedsm.plugins.scene import EquivalenceClass, Scene
from kubedsm.plugins.spread import domains_of

#: Holder, rule, and position of the node.
_Where = tuple[Keeper, tuple[PodAffinityTerm, ...] | SpreadConstraint, int]
#: Excess skew of each broken rule; 1 for affinity.
BrokenRules = Mapping[_Where, int]


def is_worse(before: BrokenRules, after: BrokenRules) -> bool:
    """Return whether a rule is broken that was kept, or broken further."""
    return any(amount > before.get(where, 0) for where, amount in after.items())


def broken_rules(about: Iterable[EquivalenceClass], scene: Scene) -> dict[_Where, int]:
    """Return the broken rules of such pods, and of pods whose rules concern them."""
    known = dict.fromkeys(about)
    found: dict[_Where, int] = {}
    for keeper, homes in scene.residents.keepers.items():
        candidate = EquivalenceClass(*keeper)
        if candidate in known or any(_selects_pod(candidate, pod, scene) for pod in known):
            positions = scene.residents.where(homes)
            found.update(_list_broken(keeper, candidate, positions, scene))
    return found


def _selects_pod(candidate: EquivalenceClass, pod: EquivalenceClass, scene: Scene) -> bool:
    rules = candidate.rules
    selections = [Selection.of(term) for term in rules.affinity]
    selections += [Selection(c.selector, (c.namespace,)) for c in rules.spread]
    labels = pod.label_map()
    return any(s.covers(pod.namespace, labels, scene.surroundings) for s in selections)


def _list_broken(
    keeper: Keeper, candidate: EquivalenceClass, positions: Positions, scene: Scene
) -> Iterator[tuple[_Where, int]]:
    rules = candidate.rules
    if rules.affinity:
        for position in positions[find_deserted(candidate, scene, positions)].tolist():
            yield (keeper, rules.affinity, position), 1
    for constraint, domains in domains_of(candidate, scene):
        matching = domains.matching(scene)
        most = domains.least(matching) + constraint.max_skew
        excess = matching[domains.column.codes[positions]] - most
        for position, amount in zip(positions.tolist(), excess.tolist(), strict=True):
            if amount > 0:
                yield (keeper, constraint, position), amount
