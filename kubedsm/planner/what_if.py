"""The question what would be done if other things were promised, or workloads had more pods.

It is thought about on a copy: pods that wait are placed there, those added with them, and then
moves are suggested, as if all that were placed ran. Nothing comes of it but the answer.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import attrs

from kubedsm.config.services import Service
from kubedsm.config.settings import Configuration
from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Pod, Share, Uid, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import QosTargets, count_target_pods
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.planner.migration_reasons import made_for
from kubedsm.planner.requests import Known
from kubedsm.planner.suggest_request import AboutMoves
from kubedsm.plugins.fit import why_unschedulable

#: what the uids of pods begin with that are added
_ADDED = "what-if/"


class NamedMove(NamedTuple):
    """A move, told of by names: its pod may be one that is only imagined."""

    pod: str
    workload: Workload
    source: str
    target: str
    purpose: str
    #: of a pod that is added
    added: bool


class Placed(NamedTuple):
    pod: str
    workload: Workload
    #: empty if no node takes it
    node: str
    #: why not
    message: str = ""


class ShareThen(NamedTuple):
    """Of a workload: as it is, and once all is placed and moved."""

    now: Share
    then: Share
    promise: float
    wanted: int


@attrs.frozen(slots=True)
class Imagined:
    """What would be done, in names and numbers."""

    shares: Mapping[Workload, ShareThen]
    #: pods that wait now, and those added
    placed: tuple[Placed, ...]
    moves: tuple[NamedMove, ...]
    #: the best that was left where it is, and why
    left: tuple[Placed, ...]
    proven: bool
    #: there was no time to think it through, as pods had to be placed
    cut_short: bool = False


@attrs.frozen(slots=True)
class WhatIf(AboutMoves):
    """By the keys of `services`; `replicas`: how many more."""

    name = "what-if"
    qos: tuple[tuple[str, float], ...] = ()
    replicas: tuple[tuple[Workload, int], ...] = ()

    def answered(self, known: Known) -> Imagined:
        policy = promising(known.configuration(), dict(self.qos)).policy
        seen, deadline = self.seen(known), known.deadline(self)
        asked = _with_more(seen, self.replicas)
        waiting = asked.schedulable(asked.pods.values())
        # As much time is left for the moves.
        decision = policy.decide(asked, waiting, deadline.part(0.5))
        placed = _running(asked, decision)
        suggestion = self._suggested(known, policy, placed, deadline)
        return Imagined(
            _shares(seen, suggestion, policy, placed),
            tuple(_placed(asked, decision)),
            tuple(_named(suggestion, policy.qos_targets_in(placed))),
            tuple(Placed(str(p), p.workload, "", str(why)) for p, why in suggestion.rejected),
            suggestion.proven,
            known.interrupted(),
        )

    def _suggested(
        self, known: Known, policy: KubeDSM, snapshot: Snapshot, deadline: Deadline
    ) -> Suggestion:
        return policy.suggest(snapshot, self.movable(known, set()), deadline, self.quiet.lasting)


def promising(configuration: Configuration, qos: Mapping[str, float]) -> Configuration:
    """The same with other QoS factors for these keys of `services`; the rest of them stays."""
    services = dict(configuration.services)
    for key, factor in qos.items():
        said = services.get(key, Service())
        services[key] = attrs.evolve(said, qos=factor, latency_target=None)
    return attrs.evolve(configuration, services=services)


def _with_more(snapshot: Snapshot, replicas: Iterable[tuple[Workload, int]]) -> Snapshot:
    """The same with so many more pods of each, which are as the newest of it is, and wait."""
    added: dict[Uid, Pod] = {}
    for workload, number in replicas:
        like = _newest(snapshot, workload)
        if like is not None:
            added |= {pod.uid: pod for pod in _added(like, number, snapshot.at)}
    return attrs.evolve(snapshot, pods={**snapshot.pods, **added}) if added else snapshot


def _newest(snapshot: Snapshot, workload: Workload) -> Pod | None:
    ours = (
        pod
        for pod in snapshot.pods.values()
        if pod.workload == workload
        and pod.scheduler_name == snapshot.scheduler_name
        and pod.counts_for_qos
    )
    return max(ours, key=lambda pod: (pod.created, pod.name), default=None)


def _added(like: Pod, number: int, at: float) -> Iterator[Pod]:
    pod_class = like.pod_class
    if like.workload.kind == "StatefulSet":
        # Each has claims of its own, and where their volumes will be is not known.
        rules = attrs.evolve(pod_class.rules, claims=())
        pod_class = attrs.evolve(pod_class, rules=rules)
    for count in range(1, number + 1):
        yield attrs.evolve(
            like,
            uid=Uid(f"{_ADDED}{like.workload}/{count}"),
            name=f"{like.workload.name}-added-{count}",
            pod_class=pod_class,
            node_name=None,
            phase="Pending",
            ready=False,
            gated=False,
            created=max(at, like.created),
        )


def _running(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """The same once the pods have started where the decision puts them."""
    after = snapshot.with_placed({pod.uid: node for pod, node, _ in decision.bindings})
    started = {
        pod.uid: attrs.evolve(after.pods[pod.uid], phase="Running", ready=True)
        for pod, _, _ in decision.bindings
    }
    return attrs.evolve(after, pods={**after.pods, **started})


def _placed(snapshot: Snapshot, decision: Decision) -> Iterator[Placed]:
    for pod, node, _ in decision.bindings:
        yield Placed(str(pod), pod.workload, node)
    for uid, rejections in decision.unplaced.items():
        pod = snapshot.pods[uid]
        why = why_unschedulable(pod.requests, rejections, snapshot.index)
        yield Placed(str(pod), pod.workload, "", why)
    for pod in decision.late:
        yield Placed(str(pod), pod.workload, "", "waits for the next batch")


def _named(suggestion: Suggestion, promises: QosTargets) -> Iterator[NamedMove]:
    for move in suggestion.moves:
        yield NamedMove(
            str(move.pod),
            move.pod.workload,
            move.source or "",
            move.target,
            made_for(move, suggestion.moves, suggestion.before.shares, promises),
            added=move.pod.uid.startswith(_ADDED),
        )


def _shares(
    now: Snapshot, suggestion: Suggestion, policy: KubeDSM, placed: Snapshot
) -> dict[Workload, ShareThen]:
    before, promises = now.shares(), policy.qos_targets_in(placed)
    shares = {}
    for workload, share in suggestion.after.shares.items():
        qos = promises(workload).qos
        wanted = count_target_pods(qos, share.total)
        shares[workload] = ShareThen(before.get(workload, Share()), share, qos, wanted)
    return shares
