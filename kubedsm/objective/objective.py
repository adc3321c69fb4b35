"""Objective function: weighted sum over workloads of the value of edge share against target Q.

- `share`: F(share - Q) of the second KubeDSM paper (arXiv 2501.07130v2), eq. 1-5, with evenness e:
  the shortfall x = Q - share costs alpha x ((1 - e) + e x / Q). With e = 0 this is the paper's
  alpha x. A greater e is concave: a pod gains more, the lower the share of its workload.
- `latency`: of the first version: -ReLU((1 - share)(tC - tE) - (target - tE)), in seconds.
- `ecmus`: of its authors' program: 0.8 sqrt(share / Q) below the target, 0.99 at the target, up
  to 1.

A pod beyond a target's cap loses as much as a pod can gain. Scores are integers in nano-points:
floating-point sums depend on their order, and a gain of 1e-16 would cause endless migrations.
Among placements of equal QoS, a tie-breaker prefers equal edge shares: the least weighted sum of
squares. It never outweighs a relevant difference in QoS, and ignores pods without QoS gain.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, get_args

import attrs
import numpy as np
from attrs import validators
from numpy.typing import NDArray

from kubedsm.model.model import Share, Workload
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.site_demand import Reach, SiteDemand

NANO = 1e9
#: Floating-point tolerance: 7% of 100 pods is slightly more than 7, and must not require 8.
_SLACK = 1e-9
#: Upper limit of parameters: scores of thousands of workloads remain within 64 bits.
GREATEST = 1000.0
_ECMUS_BELOW, _ECMUS_KEPT = 0.8, 0.99

Kind = Literal["share", "latency", "ecmus"]


@attrs.frozen(slots=True)
class QosTarget:
    """QoS target of a workload: edge share (QoS factor), weight, and optional cap on edge pods."""

    qos: float = attrs.field(default=1.0, validator=[validators.ge(0.0), validators.le(1.0)])
    weight: float = attrs.field(
        default=1.0, validator=[validators.ge(0.0), validators.le(GREATEST)]
    )
    #: cap on edge pods; None: no cap
    most: int | None = attrs.field(default=None, validator=validators.optional(validators.ge(0)))
    #: demand by site: the near share takes the place of the edge share; None: one pool
    demand: SiteDemand | None = None

    def count_wanted(self, total: int) -> int:
        """Return how many of the workload's `total` pods should be at the edge by the QoS target,
        within the cap.
        """
        wanted = count_target_pods(self.qos, total)
        return wanted if self.most is None else min(wanted, self.most)

    @property
    def has_users(self) -> bool:
        """True if the sites of the workload's users are known."""
        return self.demand is not None and bool(self.demand.parts)

    def reach(self, share: Share) -> Reach:
        """Return the share of requests served near users, or without demand by site the edge share,
        and the missing resilience.
        """
        if self.demand is None or share.sites is None:
            return Reach(share.ratio)
        return self.demand.reach(share.sites, share.total, self.count_wanted(share.total))

    def count_surplus(self, share: Share) -> int:
        """Return how many of the workload's pods at the edge exceed the target."""
        return max(0, share.edge - self.count_wanted(share.total))


#: Function from workloads to QoS targets; unconfigured workloads have the default.
QosTargets = Callable[[Workload], QosTarget]


def count_target_pods(qos: float, total: int) -> int:
    """Return the smallest number of pods at the edge, of `total` pods, that meets the QoS
    target.
    """
    return math.ceil(qos * total - _SLACK)


@attrs.frozen(slots=True, cache_hash=True)
class Objective:
    """Objective function of one workload: value of an edge share compared with the QoS target, with
    configurable parameters.

    `share`: F(x) = alpha x below the target, beta x + gamma from the target on; 0 <= beta < alpha,
    and 0 <= gamma. With the paper's gamma far above alpha, meeting targets takes precedence.
    `latency`: additional response time of the cloud, in seconds.
    """

    kind: Kind = attrs.field(default="share", validator=validators.in_(get_args(Kind)))
    alpha: float = 1.0
    beta: float = 0.1
    gamma: float = 0.0
    #: response-time difference tC - tE in seconds
    tier_gap: float = attrs.field(
        default=0.06, validator=[validators.gt(0.0), validators.le(GREATEST)]
    )
    #: of `share`: part of the loss that grows with the square of the shortfall
    evenness: float = attrs.field(default=0.0, validator=[validators.ge(0.0), validators.le(1.0)])

    def __attrs_post_init__(self) -> None:
        if not (0 <= self.beta < self.alpha <= GREATEST and 0 <= self.gamma <= GREATEST):
            raise ValueError(
                f"objective: 0 <= beta < alpha <= {GREATEST:g} and 0 <= gamma <= {GREATEST:g} "
                f"must hold, not beta {self.beta:g}, alpha {self.alpha:g}, gamma {self.gamma:g}"
            )

    def gain(self, share: Share, qos_target: QosTarget, more: int = 1, site: str = "") -> int:
        """Return the QoS gained, in nano-units, by `more` additional pods of the workload at the
        edge; with demand by site, on nodes of the given site.

        Pods that leave an unknown site lose as much as a pod can: a lower bound.
        """
        if more < 0 and not site and qos_target.demand is not None and share.sites is not None:
            near, unkept = qos_target.reach(share)
            unkept += -more * (qos_target.demand.kept > 0)
            edge, before = share.edge + more, self.worth_of(share, qos_target)
            reach = Reach(max(near + more / share.total, 0.0), unkept)
            return self.score_near(reach, edge, share.total, qos_target) - before
        after = share.add(more, site)
        return self.worth_of(after, qos_target) - self.worth_of(share, qos_target)

    def gains_by_site(self, share: Share, qos_target: QosTarget, sites: Sequence[str]) -> list[int]:
        """Return the QoS gained, in nano-units, by one more edge pod of a workload at each of the
        given edge sites.
        """
        before, demand = self.worth_of(share, qos_target), qos_target.demand
        if demand is None or share.sites is None:
            return [self.gain(share, qos_target)] * len(sites)
        edge, total = share.edge + 1, share.total
        wanted = qos_target.count_wanted(total)
        reached = demand.reach_with_one_more(share.sites, total, wanted, sites)
        gains = {x: self.score_near(x, edge, total, qos_target) - before for x in set(reached)}
        return [gains[x] for x in reached]

    def worth_of(self, share: Share, qos_target: QosTarget) -> int:
        """Return the workload's QoS score in nano-units, by the share of requests served near users
        if the users' sites are known, else by the share of pods at the edge. Pods at the edge
        beyond the target's cap lower the score.
        """
        edge, total = share.edge, share.total
        if qos_target.demand is not None and share.sites is not None:
            return self.score_near(qos_target.reach(share), edge, total, qos_target)
        if not total:
            return 0
        most, unit = qos_target.most, NANO * qos_target.weight
        within = edge if most is None else min(edge, most)
        score = round(unit * _value_of(self, within, total, qos_target.qos))
        return score - round(unit * self.most * ((edge - within) / total))

    def score_near(
        self, reach: Reach, edge: int, total: int, qos_target: QosTarget, unit: float = NANO
    ) -> int:
        """Return the QoS score of the share of requests served near users, in multiples of 1 /
        unit, less a penalty for each pod that is missing for resilience, and for each of the `edge`
        pods that exceeds the cap.
        """
        if not total or qos_target.demand is None:
            return 0
        qos = min(qos_target.qos, qos_target.demand.reachable(total))
        beyond = 0 if qos_target.most is None else max(0, edge - qos_target.most)
        # A pod adds at most 1 / total: those beyond the cap gain nothing.
        near = max(reach.near - beyond / total, 0.0)
        score = round(unit * qos_target.weight * _value_near(self, near, qos))
        lost = (beyond + reach.unkept) / total
        return score - round(unit * qos_target.weight * self.most * lost)

    def scores(
        self, edge: NDArray[np.int64], total: int, qos_target: QosTarget, unit: float = NANO
    ) -> NDArray[np.int64]:
        """Return the workload's QoS score, in multiples of 1 / unit, for each number of pods at the
        edge in an array.
        """
        if not total:
            return np.zeros_like(edge)
        within = edge if qos_target.most is None else np.minimum(edge, qos_target.most)
        kept = within >= count_target_pods(qos_target.qos, total)
        value = np.where(kept, *self.values_around(within / total, qos_target.qos))
        lost = unit * qos_target.weight * self.most * ((edge - within) / total)
        scores = np.rint(unit * qos_target.weight * value) - np.rint(lost)
        return scores.astype(np.int64)

    def values_around(
        self, share: NDArray[np.float64] | float, qos: float
    ) -> tuple[NDArray[np.float64] | float, NDArray[np.float64] | float]:
        """Return two objective values of each edge share: by the formula from the QoS target on,
        and by the formula below.
        """
        match self.kind:
            case "share":
                short = qos - np.minimum(share, qos)
                # The last missing share counts no less than a surplus of another workload.
                even = min(self.evenness, 1 - self.beta / self.alpha)
                below = -self.alpha * short * (1 - even + even * short / (qos or 1.0))
                return self.beta * (share - qos) + self.gamma, below
            case "latency":
                return 0.0, -self.tier_gap * (qos - share)
            case "ecmus":
                # Only shares below the target use this part: a larger one may overflow.
                reached = np.minimum(share, qos) / (qos or 1.0)
                beyond = np.maximum(0.0, share - qos) / (1 - qos) if 0 < qos < 1 else float(not qos)
                return _ECMUS_KEPT + (1 - _ECMUS_KEPT) * beyond, _ECMUS_BELOW * np.sqrt(reached)

    @property
    def most(self) -> float:
        """Greatest absolute objective value of any edge share, for a workload of weight 1."""
        match self.kind:
            case "share":
                return max(self.alpha, self.beta + self.gamma)
            case "latency":
                return self.tier_gap
            case "ecmus":
                return 1.0


@lru_cache(2**13)
def _value_of(objective: Objective, edge: int, total: int, qos: float) -> float:
    # Cached: thousands of workloads typically have only a few distinct shares.
    kept, below = objective.values_around(edge / total, qos)
    return float(kept if edge >= count_target_pods(qos, total) else below)


@lru_cache(2**13)
def _value_near(objective: Objective, near: float, qos: float) -> float:
    kept, below = objective.values_around(near, qos)
    return float(kept if near >= qos - _SLACK else below)


def quality(shares: Mapping[Workload, Share], qos_targets: QosTargets, objective: Objective) -> int:
    """Return QoS(u), the total QoS score of all workloads with the given edge shares, in
    nano-units.
    """
    return sum(
        objective.worth_of(share, qos_targets(workload)) for workload, share in shares.items()
    )


#: Greatest score of one workload, and of all workloads together, in integer units.
_FINEST, _GREATEST_SUM = 2.0**52, 2.0**60
#: Greatest reduction of total scores by unevenness, in integer units: with up to 256 workloads
#: 2^-30 of the greatest score.
EVENNESS = 2**22


def score_unit(objective: Objective, weights: Sequence[float]) -> float:
    """Return the factor that converts QoS scores to integers, so that sums over the workloads'
    weights stay exact.
    """
    greatest = objective.most * max(weights, default=0.0)
    return min(_FINEST, _GREATEST_SUM / max(1, len(weights))) / (greatest or 1.0)


@attrs.frozen(eq=False)
class Prospect:
    """Possible numbers of edge pods of one workload, with its pod count and QoS target."""

    #: consecutive numbers of edge pods
    edge: Ints
    total: int
    qos_target: QosTarget


def scores_and_unevenness(
    objective: Objective, prospects: Sequence[Prospect]
) -> tuple[list[Ints], list[Ints]]:
    """Return the QoS score, and the deviation from evenly distributed edge pods, for each possible
    number of edge pods of each workload.

    The unevenness of all workloads is at most EVENNESS. Identical sums of the differences deviate
    by at most one unit per workload.
    """
    unit = score_unit(objective, [prospect.qos_target.weight for prospect in prospects])
    scores = [objective.scores(p.edge, p.total, p.qos_target, unit) for p in prospects]
    uneven = []
    for prospect, of_prospect in zip(prospects, scores, strict=True):
        squares = np.square(prospect.edge / max(1, prospect.total))
        rising = np.zeros(len(squares))
        rises = of_prospect[1:] > of_prospect[:-1]
        np.subtract(squares[1:], squares[:-1], out=rising[1:], where=rises)
        uneven.append(prospect.qos_target.weight * rising.cumsum())
    least = EVENNESS / (sum(float(sums[-1]) for sums in uneven) or 1.0)
    return scores, [np.rint(least * sums).astype(np.int64) for sums in uneven]
