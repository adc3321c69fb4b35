"""Demand of users by edge site, and the share of a workload's requests that replicas near the users
can serve.

A workload has n pods, and each serves 1/n of its requests. The requests of a site go to the
replicas there up to their capacity, and the rest to the nearest replicas with capacity to spare.
A request has a benefit from 1 (within the latency target) to 0 (latency of the cloud). The near
share is the sum of benefits over the requests. With a single site it is the edge share.

With resilience, a part of the pods targeted at the edge must stay there if any one site is lost:
the site with the most replicas is the worst.
"""

import heapq
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import attrs
from msgspec.structs import replace

from kubedsm.model.model import Tier, Workload
from kubedsm.model.snapshot import Snapshot

#: digits of a near share: sums in another order give the same share
_DIGITS = 14
#: tolerance of fractions of pods
_SLACK = 1e-9


class Reach(NamedTuple):
    """Share of a workload's requests served near users, and the edge pods missing for resilience:
    those that should be left after the loss of a site.
    """

    near: float
    unkept: int = 0


@attrs.frozen(slots=True, cache_hash=True)
class SiteDemand:
    """Fractions of a workload's requests by the edge site of their users, and the benefit of
    serving a site's users from another site.
    """

    #: by site, sorted; the sum of the fractions is 1. Empty: users may be anywhere
    parts: tuple[tuple[str, float], ...]
    #: benefit of a response from another site
    neighbour: float
    #: benefits of pairs with a latency of their own: users' site, serving site
    pairs: tuple[tuple[tuple[str, str], float], ...] = ()
    #: part of the targeted edge pods that the loss of any one site must leave
    kept: float = 0.0
    _reached: dict[int, float] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    _ways: dict[str, list[tuple[float, str]]] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )

    @cached_property
    def part_of(self) -> Mapping[str, float]:
        """Fractions of the requests by site, for lookups."""
        return dict(self.parts)

    @cached_property
    def _by_pair(self) -> Mapping[tuple[str, str], float]:
        return dict(self.pairs)

    def reachable(self, total: int) -> float:
        """Return the greatest share of requests that `total` pods can serve near their users, if
        capacity were unlimited.
        """
        if not self.parts:
            return 1.0
        if total not in self._reached:
            self._reached[total] = self.near(self.apportion(total, total).items(), total)
        return self._reached[total]

    def near(self, replicas: Iterable[tuple[str, int]], total: int) -> float:
        """Return the share of a workload's requests served near their users, given its replicas by
        site and `total` pods.
        """
        if not self.pairs:
            return self.near_of(*self._serve_own(replicas, total), total)
        spare = {site: float(number) for site, number in replicas}
        unmet: dict[str, float] = {}
        pairs = self._by_pair
        served = 0.0
        for site, part in self.parts:
            wanted = part * total
            here = min(wanted, spare.get(site, 0.0))
            if here:
                served += here * pairs.get((site, site), 1.0)
                spare[site] -= here
            if wanted > here:
                unmet[site] = wanted - here
        served += self._serve_elsewhere(unmet, spare)
        return round(served / total, _DIGITS) if total else 0.0

    def count_kept(self, wanted: int) -> int:
        """Return how many of `wanted` targeted edge pods the loss of any one site must leave."""
        return math.ceil(self.kept * wanted - _SLACK)

    def reach(self, replicas: Sequence[tuple[str, int]], total: int, wanted: int) -> Reach:
        """Return the near share and the missing resilience, given the replicas by site, `total`
        pods and `wanted` of them targeted at the edge.
        """
        near = self.near(replicas, total)
        if not self.kept:
            return Reach(near)
        return Reach(near, max(self.count_kept(wanted) - count_without_worst(replicas), 0))

    def reach_with_one_more(
        self, replicas: Sequence[tuple[str, int]], total: int, wanted: int, sites: Sequence[str]
    ) -> list[Reach]:
        """Return near share and missing resilience with one more replica, for each of the sites."""
        near = self.near_with_one_more(replicas, total, sites)
        if not self.kept:
            return [Reach(share) for share in near]
        there, needed = dict(replicas), self.count_kept(wanted)
        number, worst = sum(there.values()) + 1, max(there.values(), default=0)
        return [
            Reach(share, max(needed - number + max(worst, there.get(site, 0) + 1), 0))
            for share, site in zip(near, sites, strict=True)
        ]

    def _serve_elsewhere(self, unmet: dict[str, float], spare: dict[str, float]) -> float:
        """Send unmet requests to spare replicas at other sites, nearest first; return the sum of
        benefits.
        """
        served = 0.0
        # Merge of the serving sites' lists of users' sites, each sorted.
        ways = [(*self._ways_to(other)[0], other, 0) for other, left in spare.items() if left > 0]
        heapq.heapify(ways)
        while ways and unmet:
            loss, site, other, turn = heapq.heappop(ways)
            sent = min(unmet.get(site, 0.0), spare[other])
            if sent:
                served -= loss * sent
                unmet[site] -= sent
                spare[other] -= sent
                if not unmet[site]:
                    del unmet[site]
            users = self._ways_to(other)
            while spare[other] and turn < len(users) and users[turn][1] not in unmet:
                turn += 1
            if spare[other] and turn < len(users):
                heapq.heappush(ways, (*users[turn], other, turn))
        return served

    def _ways_to(self, other: str) -> Sequence[tuple[float, str]]:
        """Return the users' sites by the benefit of serving them from the other site, the greatest
        first, with its negative.
        """
        if other not in self._ways:
            self._ways[other] = sorted(
                (-self._by_pair.get((site, other), self.neighbour), site) for site, _ in self.parts
            )
        return self._ways[other]

    def near_with_one_more(
        self, replicas: Sequence[tuple[str, int]], total: int, sites: Sequence[str]
    ) -> list[float]:
        """Return the share of requests served near users with one more replica, for each of the
        sites.
        """
        there = dict(replicas)
        if self.pairs:
            more = ({**there, site: there.get(site, 0) + 1} for site in sites)
            return [self.near(replicas_then.items(), total) for replicas_then in more]
        own, number = self._serve_own(replicas, total)
        by_left: dict[float, float] = {}
        found = []
        for site in sites:
            left = self.part_of.get(site, 0.0) * total - there.get(site, 0)
            here = min(max(left, 0.0), 1.0)
            if here not in by_left:
                by_left[here] = self.near_of(own + here, number + 1, total)
            found.append(by_left[here])
        return found

    def best_near(
        self, replicas: Iterable[tuple[str, int]], total: int, more: int, sites: Container[str]
    ) -> float:
        """Return the greatest share of requests served near users with `more` replicas at the given
        sites, if all neighbouring sites have the same latency.
        """
        own, number, left = self.left_at(dict(replicas), total)
        open_to = [amount for site, amount in left.items() if site in sites]
        whole = sum(int(amount + _SLACK) for amount in open_to)
        parts = sorted(
            (max(amount - int(amount + _SLACK), 0.0) for amount in open_to), reverse=True
        )
        own += min(whole, more) + sum(parts[: max(more - whole, 0)])
        return self.near_of(own, number + more, total)

    def left_at(self, there: Mapping[str, int], total: int) -> tuple[float, int, dict[str, float]]:
        """Return the demand served by replicas at the users' own site, the number of replicas, and
        the unserved demand at each site; all in pods.
        """
        left = {site: max(part * total - there.get(site, 0), 0.0) for site, part in self.parts}
        return *self._serve_own(there.items(), total), left

    def _serve_own(self, replicas: Iterable[tuple[str, int]], total: int) -> tuple[float, int]:
        """Return the demand served by replicas at the users' own site, in pods, and the number of
        replicas.
        """
        # Replicas are at a few sites, users at many.
        own, number = 0.0, 0
        for site, here in replicas:
            own += min(self.part_of.get(site, 0.0) * total, here)
            number += here
        return own, number

    def near_of(self, own: float, number: int, total: int) -> float:
        """Return the share of requests served near users, if `own` of `number` replicas serve users
        of their own site.
        """
        elsewhere = min(number - own, total - own)
        return round((own + self.neighbour * elsewhere) / total, _DIGITS) if total else 0.0

    def apportion(self, number: int, total: int) -> dict[str, int]:
        """Return how many of `number` replicas each site should have, of a workload of `total`
        pods.

        Whole pods of demand come first, then the largest fractions, as far as `number` allows.
        """
        wanted = {site: part * total for site, part in self.parts}
        whole = {site: int(amount + _SLACK) for site, amount in wanted.items()}
        left = number - sum(whole.values())
        found = dict(whole) if left >= 0 else _apportion_whole(wanted, whole, number)
        if left > 0:
            rest = sorted(wanted, key=lambda site: (found[site] - wanted[site], site))
            for site in rest[:left]:
                found[site] += 1
        return {site: count for site, count in found.items() if count}


def _apportion_whole(
    wanted: Mapping[str, float], whole: Mapping[str, int], number: int
) -> dict[str, int]:
    """Return how many of `number` replicas each site should have, fewer than the `whole` pods of
    the demand `wanted`.
    """
    found = dict.fromkeys(wanted, 0)
    # Each site in turn by the part of its demand that is still unserved: replicas stay
    # proportional.
    line = [(-wanted[site], site) for site in wanted if whole[site]]
    heapq.heapify(line)
    for _ in range(number):
        _, site = heapq.heappop(line)
        found[site] += 1
        if found[site] < whole[site]:
            part = wanted[site] / (found[site] + 1)
            heapq.heappush(line, (-part, site))
    return found


def count_without_worst(replicas: Iterable[tuple[str, int]]) -> int:
    """Return the number of replicas that are left if the site with the most of them is lost."""
    counts = [number for _, number in replicas]
    return sum(counts) - max(counts, default=0)


@attrs.frozen
class SiteGoal:
    """Inputs of placing pods near users: demand of each workload by edge site, and latencies
    between sites and to the cloud in seconds.
    """

    #: labels of edge nodes that name their site, the first one present
    labels: tuple[str, ...]
    #: configured demand of a workload: weights by site, or None; None: no workload has any
    demand: Callable[[Workload], Mapping[str, float] | None] | None
    #: part of a workload's targeted edge pods that the loss of a site must leave; None: no workload
    #: has any
    kept: Callable[[Workload], float] | None
    #: configured latency target of a workload in seconds
    targets: Callable[[Workload], float | None]
    edge: float
    neighbour: float
    cloud: float
    #: latencies of pairs: users' site, serving site
    matrix: Mapping[tuple[str, str], float] = attrs.field(factory=dict)
    _benefits: dict[float | None, tuple[tuple[tuple[str, str], float], ...]] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )
    #: latest measured latencies, and the goal with these
    _measured: list[tuple[object, "SiteGoal"]] = attrs.field(
        factory=list, init=False, eq=False, repr=False
    )

    def with_latencies(self, measured: Mapping[tuple[str, str], float]) -> "SiteGoal":
        """Return the goal with measured latencies in place of the configured ones; the cloud (empty
        site) counts by the mean, unless that is no longer than within a site.
        """
        if not measured:
            return self
        if not self._measured or self._measured[0][0] is not measured:
            between = {pair: time for pair, time in measured.items() if pair[1]}
            back = {(target, source): time for (source, target), time in between.items()}
            to_cloud = [time for (_, target), time in measured.items() if not target]
            cloud = math.fsum(to_cloud) / len(to_cloud) if to_cloud else self.cloud
            goal = attrs.evolve(
                self,
                cloud=cloud if cloud > self.edge else self.cloud,
                matrix={**self.matrix, **back, **between},
            )
            self._measured[:] = [(measured, goal)]
        return self._measured[0][1]

    def benefit(self, latency: float, target: float | None) -> float:
        """Return the benefit of a response with the given latency: 1 within the latency target, 0
        at the latency of the cloud.
        """
        within = self.edge if target is None else target
        if latency <= within:
            return 1.0
        if latency >= self.cloud:
            return 0.0
        return (self.cloud - latency) / (self.cloud - within)

    def may_apply(self, snapshot: Snapshot) -> bool:
        """Return False if no workload of the snapshot can have demand or resilience by site."""
        measured, wishing = snapshot.measured.demand, snapshot.census.wishing
        configured = self.demand is not None or self.kept is not None
        return configured or bool(measured) or bool(wishing)

    def known_sites(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the sites with edge nodes, and the sites that the latency matrix names."""
        column = snapshot.index.site(self.labels)
        return frozenset(filter(None, column.values)).union(*self.matrix)

    def demand_of(
        self, workload: Workload, weights: Mapping[str, float], known: frozenset[str]
    ) -> SiteDemand | None:
        """Return the demand of a workload at edge sites that exist; None if users are at no such
        site, and the loss of a site does not matter.
        """
        kept = 0.0 if self.kept is None else self.kept(workload)
        present = {site: weight for site, weight in weights.items() if weight and site in known}
        total = sum(present.values())
        if not total:
            return SiteDemand((), 1.0, kept=kept) if kept else None
        target = self.targets(workload)
        return SiteDemand(
            tuple(sorted((site, weight / total) for site, weight in present.items())),
            self.benefit(self.neighbour, target),
            self._benefits_of_pairs(target),
            kept,
        )

    def _benefits_of_pairs(self, target: float | None) -> tuple[tuple[tuple[str, str], float], ...]:
        """Return the benefits of the matrix's pairs for a latency target."""
        if target not in self._benefits:
            benefits = ((pair, self.benefit(time, target)) for pair, time in self.matrix.items())
            self._benefits[target] = tuple(sorted(benefits))
        return self._benefits[target]


def count_sites(
    snapshot: Snapshot, labels: tuple[str, ...], workloads: Iterable[Workload]
) -> Snapshot:
    """Return the snapshot in which the edge shares of the workloads also count their edge pods by
    site.
    """
    column, positions = snapshot.index.site(labels), snapshot.index.positions
    nodes, standing = snapshot.nodes, snapshot.census.standing
    shares = dict(snapshot.census.shares)
    for workload in workloads:
        sites: dict[str, int] = {}
        for name, number in standing.get(workload, {}).items():
            if name in positions and nodes[name].tier is Tier.EDGE:
                site = column.value_at(positions[name]) or ""
                sites[site] = sites.get(site, 0) + number
        shares[workload] = replace(shares[workload], sites=tuple(sorted(sites.items())))
    return snapshot.with_shares(shares)
