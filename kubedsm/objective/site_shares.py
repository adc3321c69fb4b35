"""Replicas of workloads at each edge site compared with the users' demand there, for one workload
and for all; and the replicas that are left if a site is lost.
"""

from collections.abc import Iterable, Mapping

import attrs

from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import QosTarget, QosTargets, count_target_pods
from kubedsm.objective.site_demand import count_without_worst


@attrs.frozen(slots=True)
class SiteShare:
    """Edge site in relation to one workload: fraction of the workload's requests from users there,
    and replicas there.
    """

    site: str
    #: fraction of the workload's requests
    part: float
    #: replicas that the QoS target wants there
    wanted: int
    replicas: int


def list_sites(share: Share, qos_target: QosTarget) -> list[SiteShare]:
    """Return the sites with demand for a workload, or with replicas of it, in name order.

    Empty without demand by site.
    """
    demand, total = qos_target.demand, share.total
    if demand is None or share.sites is None or not demand.parts:
        return []
    number = count_target_pods(min(qos_target.qos, demand.reachable(total)), total)
    wanted = demand.apportion(number, total)
    parts, there = demand.part_of, dict(share.sites)
    return [
        SiteShare(site, parts.get(site, 0.0), wanted.get(site, 0), there.get(site, 0))
        for site in sorted(parts.keys() | there.keys())
    ]


@attrs.frozen(slots=True)
class SiteLoss:
    """Certificate of resilience: edge pods of a workload that are left after the loss of its
    largest site, and how many the configuration asks for.
    """

    workload: Workload
    site: str
    lost: int
    left: int
    needed: int

    def __str__(self) -> str:
        if not self.lost:
            return f"{self.workload} has no pod at the edge; resilience asks for {self.needed}"
        site = f"site {self.site}" if self.site else "the nodes without a site"
        text = (
            f"the loss of any one site leaves at least {self.left} pods of {self.workload} at the"
            f" edge (worst: {site}, with {self.lost}); resilience asks for {self.needed}"
        )
        missing = self.needed - self.left
        return f"{text}: {missing} too few" if missing > 0 else text


def list_worst_losses(
    shares: Mapping[Workload, Share], qos_targets: QosTargets, workloads: Iterable[Workload]
) -> tuple[SiteLoss, ...]:
    """Return the loss of the largest site of each of the workloads that must survive the loss of
    any one site, in name order.
    """
    found = []
    for workload in sorted(workloads):
        share = shares.get(workload)
        if share is None or share.sites is None:
            continue
        target = qos_targets(workload)
        if target.demand is None or not target.demand.kept:
            continue
        site, lost = max(share.sites, key=lambda each: each[1], default=("", 0))
        needed = target.demand.count_kept(target.count_wanted(share.total))
        left = count_without_worst(share.sites)
        found.append(SiteLoss(workload, site, lost, left, needed))
    return tuple(found)


@attrs.frozen(slots=True)
class SiteTotal:
    """Edge site with users' demand and replicas, summed over all workloads that have demand by
    site.
    """

    site: str
    #: demand of users there, of that the part served by replicas there, and the part that QoS
    #: targets ask for; in pods
    demand: float = 0.0
    served: float = 0.0
    targeted: float = 0.0
    #: replicas present there, and missing there
    replicas: int = 0
    missing: int = 0

    @property
    def reached_share(self) -> float:
        """Fraction of the site's demand that replicas at the site serve."""
        return self.served / self.demand if self.demand else 0.0

    @property
    def target_share(self) -> float:
        """Fraction of the site's demand that QoS targets require replicas at the site to serve."""
        return self.targeted / self.demand if self.demand else 0.0

    def add(self, row: SiteShare, total: int, qos: float) -> "SiteTotal":
        """Return the site's totals with one more workload of `total` pods."""
        demand = row.part * total
        return SiteTotal(
            self.site,
            self.demand + demand,
            self.served + min(demand, row.replicas),
            self.targeted + demand * qos,
            self.replicas + row.replicas,
            self.missing + max(row.wanted - row.replicas, 0),
        )


def sum_sites(shares: Mapping[Workload, Share], qos_targets: QosTargets) -> list[SiteTotal]:
    """Return the demand and the replicas of each site, in name order; empty without demand."""
    totals: dict[str, SiteTotal] = {}
    for workload, share in shares.items():
        if share.sites is None:
            continue
        target = qos_targets(workload)
        for row in list_sites(share, target):
            known = totals.get(row.site, SiteTotal(row.site))
            totals[row.site] = known.add(row, share.total, target.qos)
    return [totals[site] for site in sorted(totals)]
