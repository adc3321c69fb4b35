"""Whether the replicas of a batch could stand farther apart than they do.

Of those of each workload that a tier has, in the tiers as they are. Two bounds are known of a tier:
what its ladders say, which know of room but not of whose pods they are, and what each workload
would cost with all the room. Beyond that come the zones, where replicas of one batch meet at least
as often as if they were dealt out evenly.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from kubedsm.model.model import Workload
from kubedsm.model.node_order import Zone
from kubedsm.objective.replica_spread import pairs
from kubedsm.optimizer.placing.dealing import DealtTier
from kubedsm.optimizer.placing.replica_ladders import ReplicaLadders


def reached(
    replicas: ReplicaLadders, tiers: Sequence[DealtTier], bounds: Sequence[int]
) -> tuple[bool, bool]:
    """Whether what was dealt out to the tiers costs no more than it must.

    Then, whether the ladders of the first tier say so by themselves: who has looked at all that is
    least by these has seen every placement that costs as little.

    bounds: of each tier, that of the ladders.
    """
    cost = tiers[0].spread.cost - replicas.spread.cost
    for tier in tiers:
        for kind, workload, number in tier.sizes:
            cost -= number * replicas.crowds[kind].everywhere(workload)
    cost -= sum(_even(number, zones) for number, zones in _by_zones(tiers))
    if cost == sum(bounds):
        return True, True
    apart = [_apart(replicas, tier) for tier in tiers]
    least = cost == sum(map(max, bounds, apart))
    return least, least and bounds[0] >= apart[0]


def _apart(replicas: ReplicaLadders, tier: DealtTier) -> int:
    """What the tier costs if each workload has all the room."""
    positions, feasible = tier.packing.rows.positions, tier.packing.feasible
    times = [
        crowds.times(positions[feasible[:, kind]]) for kind, crowds in enumerate(replicas.crowds)
    ]
    return sum(
        replicas.crowds[kind].least(workload, times[kind], number)
        for kind, workload, number in tier.sizes
    )


def _by_zones(tiers: Sequence[DealtTier]) -> Iterator[tuple[int, int]]:
    """Of each workload: how many replicas of the batch come to how many zones."""
    found: list[tuple[set[Zone], Counter[Workload]]] = []
    for tier in tiers:
        numbers: Counter[Workload] = Counter()
        for _, workload, number in tier.sizes:
            numbers[workload] += number
        found.append((tier.zones, numbers))
    if set[Zone].intersection(*(zones for zones, _ in found)):
        together: Counter[Workload] = sum((numbers for _, numbers in found), Counter())
        found = [(set[Zone].union(*(zones for zones, _ in found)), together)]
    for zones, of_workloads in found:
        yield from ((number, len(zones)) for number in of_workloads.values())


def _even(number: int, domains: int) -> int:
    """The least pairs that so many make in so many domains."""
    each, more = divmod(number, domains)
    return more * pairs(each + 1) + (domains - more) * pairs(each)
