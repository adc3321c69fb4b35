"""Measurements from Prometheus: use of nodes and workloads, response times by tier."""

from collections.abc import Iterator, Mapping

import attrs

from kubedsm.model.model import NodeName, Tier, Uid, Workload

#: relative tolerance of steady values
STEADY = 0.1
#: relative margin by which a slower edge must be slower
MARGIN = 0.1
#: of a workload in a tier, within the window: the mean of fewer is left to chance
ENOUGH_REQUESTS = 100


@attrs.frozen(slots=True)
class Usage:
    """Of a node in all, or of a pod of a workload, as the mean over those that run.

    Millicores, bytes, and bytes a second over the network and of disks, both ways together; None
    where it is not known.
    """

    cpu: float | None = None
    memory: float | None = None
    net: float | None = None
    disk: float | None = None


@attrs.frozen(slots=True)
class Answers:
    """What the pods of a workload that are in one tier answer."""

    #: total requests/s
    rate: float
    #: seconds, of a request, as the mean
    seconds: float

    def smooth_answers(self, before: "Answers | None") -> "Answers":
        """These, but for what is about what it was before."""
        if before is None:
            return self
        return Answers(
            _smooth_value(before.rate, self.rate), _smooth_value(before.seconds, self.seconds)
        )


def _smooth_value(before: float, now: float) -> float:
    return before if abs(now - before) <= STEADY * before else now


@attrs.frozen(slots=True)
class Measured:
    """One sample."""

    #: seconds since the epoch
    at: float = 0.0
    nodes: Mapping[NodeName, Usage] = attrs.field(factory=dict)
    workloads: Mapping[Workload, Usage] = attrs.field(factory=dict)
    answers: Mapping[Workload, Mapping[Tier, Answers]] = attrs.field(factory=dict)
    #: response times smoothed for QoS targets: small changes are ignored
    steady: Mapping[Workload, Mapping[Tier, Answers]] = attrs.field(factory=dict)
    #: nodes of pods at sampling time; later pods are in no node's usage
    placed: Mapping[Uid, NodeName] = attrs.field(factory=dict, repr=False)
    #: seconds before `at` that the sample covers
    window: float = 300.0
    #: previous sample, without its predecessor
    before: "Measured | None" = None
    #: pods that came within the window, and nodes that others left, with times:
    #: a mean over the window has a part of both
    came: Mapping[Uid, float] = attrs.field(factory=dict, repr=False)
    left: Mapping[NodeName, float] = attrs.field(factory=dict, repr=False)
    #: workloads that the edge serves more slowly than the cloud, by all samples
    slower: frozenset[Workload] = frozenset()
    #: when response times were measured: missing ones come from earlier samples
    answered: float = attrs.field()

    @answered.default
    def _answered(self) -> float:
        return self.at

    def after(self, before: "Measured", placed: Mapping[Uid, NodeName]) -> "Measured":
        """The same, taken with pods where they are now, as the one that follows another.

        Nothing measured stays that, and nothing follows on it.
        """
        if not self.at:
            return self
        known = attrs.evolve(before, before=None) if before.at else None
        steady = {
            workload: {
                tier: answers.smooth_answers(before.steady.get(workload, {}).get(tier))
                for tier, answers in by_tier.items()
            }
            for workload, by_tier in self.answers.items()
        }
        news = self.answered > before.answered
        slower = frozenset(_list_slower(self, before)) if news else before.slower
        since = self.at - self.window
        came = {uid: at for uid, at in before.came.items() if at > since and uid in placed}
        left = {node: at for node, at in before.left.items() if at > since}
        if known is not None:
            came |= {uid: self.at for uid, _ in only_in(placed, before.placed)}
            left |= {node: self.at for _, node in only_in(before.placed, placed)}
        return attrs.evolve(
            self,
            steady=steady,
            placed=placed,
            before=known,
            came=came,
            left=left,
            slower=slower,
        )

    def is_enough(self, rate: float) -> bool:
        """True if so many requests/s tell anything."""
        return rate * self.window >= ENOUGH_REQUESTS

    def list_reliable_times(self, answers: Mapping[Tier, Answers]) -> dict[Tier, float]:
        """Seconds of a request, as the mean, at each tier that answers enough of them."""
        return {tier: each.seconds for tier, each in answers.items() if self.is_enough(each.rate)}

    def edge_is_slower(self, workload: Workload) -> bool | None:
        """True if the edge serves it more slowly, by this sample alone; None if it cannot be said.

        It is if its answers take longer by more than a tenth, and is not if they take less long, or
        if nothing is asked of it that is worth comparing. If only one tier answers enough, or all
        of its pods are in one, there is nothing to compare.
        """
        told = self.list_reliable_times(self.answers.get(workload, {}))
        if not told:
            return False
        if len(told) < len(Tier):
            return None
        edge, cloud = told[Tier.EDGE], told[Tier.CLOUD]
        return True if edge > cloud * (1 + MARGIN) else False if edge < cloud else None


def only_in(
    placed: Mapping[Uid, NodeName], other: Mapping[Uid, NodeName]
) -> Iterator[tuple[Uid, NodeName]]:
    """The pods, and where they are, that are not there in the other."""
    return ((uid, node) for uid, node in placed.items() if other.get(uid) != node)


def _list_slower(sample: Measured, before: Measured) -> Iterator[Workload]:
    """It takes two successive samples that say so to become one of these, and to be one no more."""
    for workload in sample.answers.keys() | before.slower:
        said = {sample.edge_is_slower(workload), before.edge_is_slower(workload)}
        if said == {True} or (workload in before.slower and said != {False}):
            yield workload


NOTHING_MEASURED = Measured()
