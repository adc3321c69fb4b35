"""What a decision and a suggestion cost, beside the same on a snapshot that nobody kept along.

An event comes before each, as it does in a cluster: what the mirror does about that counts.
"""

import itertools
from collections.abc import Iterator

import attrs

from kubedsm.config.sections import SolverSettings
from kubedsm.config.settings import Configuration
from kubedsm.model.events import PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.optimizer.placing.decision import Decision
from kubedsm_lab.bench.scale.paired import Paired, paired
from kubedsm_lab.bench.scale.world import Batch, Size, mirror, rebuilt

BATCHES = (Batch(1, 1), Batch(200, 8), Batch(500, 1), Batch(500, 8))
#: what a solver comes to in its time may be more the second time
_CONFIGURATION = Configuration(solver=SolverSettings(kind="off"))


def decided(size: Size, rounds: int, suggestions: int) -> Iterator[Paired]:
    """Each batch so often, then suggestions.

    Raises DisagreementError if the two sides decide otherwise.
    """
    known = mirror(size)
    for batch in BATCHES:
        yield _batch(known, batch, rounds)
    if suggestions:
        yield _suggestion(known, suggestions)


def _batch(known: ClusterMirror, batch: Batch, rounds: int) -> Paired:
    waiting = batch.waiting()
    for pod in waiting:
        known.apply(PodApplied(pod))
    policy, heartbeat = _CONFIGURATION.policy, _Restless(known)

    def decision(seen: Snapshot) -> Decision:
        return policy.decide(seen, seen.schedulable(waiting))

    def ours() -> Decision:
        heartbeat()
        return decision(known.snapshot())

    def beside() -> Decision:
        heartbeat()
        return decision(rebuilt(known.snapshot()))

    made = paired(f"decide {batch}", rounds, ours, beside)
    for pod in waiting:
        known.apply(PodDeleted(pod.uid, pod.namespace, pod.name))
    return made


def _suggestion(known: ClusterMirror, rounds: int) -> Paired:
    policy, heartbeat = _CONFIGURATION.policy, _Restless(known)

    def ours() -> Suggestion:
        heartbeat()
        return policy.suggest(known.snapshot(), lambda _: None)

    def beside() -> Suggestion:
        heartbeat()
        return policy.suggest(rebuilt(known.snapshot()), lambda _: None)

    return paired("suggest", rounds, ours, beside)


class _Restless:
    """One pod after the other says something that matters to no decision: its version is new."""

    def __init__(self, known: ClusterMirror) -> None:
        self._known = known
        self._pods = itertools.cycle(known.pods())
        self._versions = itertools.count(1)

    def __call__(self) -> None:
        pod = next(self._pods)
        newer = attrs.evolve(pod, resource_version=str(next(self._versions)))
        self._known.apply(PodApplied(newer))
