"""Who decides on pods: kube-scheduler one after the other, KubeDSM in batches.

Each looks at a percentage of the nodes; 0 is kube-scheduler's formula.
"""

import random
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import attrs
import numpy as np

from kubedsm.config.sections import BatchSettings, CloudSettings, SolverSettings
from kubedsm.config.settings import Configuration
from kubedsm.model.events import PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, Pod
from kubedsm.model.node_index import Ints
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm_lab.baselines.in_turn import InTurn, Room
from kubedsm_lab.baselines.kube_scheduler import KubeScheduler
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.bench.scale.paired import spent

KUBE_SCHEDULER = "kube-scheduler"
#: pods that KubeDSM decides on together, as it comes
BATCH = BatchSettings().size
#: what is compared; the last is all nodes
PERCENTAGES = (0, 10, 50, 100)


@attrs.define
class Looks:
    """How often each node was looked at, by its place in the order in which they are."""

    often: Ints
    #: how many nodes, each time
    numbers: list[int] = attrs.field(factory=list)

    @classmethod
    def at(cls, nodes: int) -> "Looks":
        return cls(np.zeros(nodes, dtype=np.int64))

    def add(self, first: int, number: int) -> None:
        """So many were looked at from that one on, round and round."""
        size = len(self.often)
        self.often[np.arange(first, first + number) % size] += 1
        self.numbers.append(number)


@attrs.frozen
class Decided:
    #: in the order in which they were decided on
    bindings: Sequence[Binding]
    looks: Looks
    #: milliseconds of CPU for all
    ms: float


class Contender(Protocol):
    @property
    def policy(self) -> str: ...

    @property
    def percentage(self) -> int: ...

    def decide(self, mirror: ClusterMirror, waiting: Sequence[Pod], seed: int) -> Decided:
        """Decide on all of them; the mirror may be changed."""


def name_of(policy: str, percentage: int) -> str:
    return f"{policy}, p = {percentage}"


@attrs.frozen
class Baseline:
    percentage: int
    policy: str = KUBE_SCHEDULER

    def decide(self, mirror: ClusterMirror, waiting: Sequence[Pod], seed: int) -> Decided:
        scheduler, snapshot = KubeScheduler(self.percentage), mirror.snapshot()
        nodes = len(snapshot.nodes)
        looks = Looks.at(nodes)

        def choose(pod: Pod, fitting: Sequence[Node], room: Room, rng: random.Random) -> Node:
            first = scheduler.start
            node = scheduler(pod, fitting, room, rng)
            # It goes on where it ended: where it began, after all of them.
            looks.add(first, (scheduler.start - first) % nodes or nodes)
            return node

        configuration = Configuration()
        policy = InTurn(choose, configuration.promise, configuration.objective_function)
        decision, ms = spent(lambda: policy.place(snapshot, waiting, random.Random(seed)))
        return Decided(decision.bindings, looks, ms)


@attrs.frozen
class Ours:
    percentage: int
    #: pods
    batch: int = BATCH
    policy: str = KUBEDSM

    def decide(self, mirror: ClusterMirror, waiting: Sequence[Pod], _seed: int) -> Decided:
        configuration = Configuration(
            solver=SolverSettings(kind="off"), cloud=CloudSettings(self.percentage)
        )
        policy, size = configuration.policy, self.batch
        looks = Looks.at(len(mirror.snapshot().nodes))
        bindings: list[Binding] = []
        start, taken = 0, 0.0
        for batch in (waiting[at : at + size] for at in range(0, len(waiting), size)):
            decision, ms = spent(partial(_decided, policy, mirror, batch, start))
            taken += ms
            looked_at = decision.looked_at
            if looked_at is None:
                looks.add(0, len(looks.often))
            else:
                looks.add(looked_at.first, looked_at.number)
                start = looked_at.following
            bindings += decision.bindings
            for binding in decision.bindings:
                mirror.apply(PodApplied(attrs.evolve(binding.pod, node_name=binding.node)))
        return Decided(bindings, looks, taken)


def _decided(policy: KubeDSM, mirror: ClusterMirror, batch: Sequence[Pod], start: int) -> Decision:
    return policy.decide(mirror.snapshot(), batch, start=start)


def contenders() -> list[Contender]:
    return [side(percentage) for side in (Ours, Baseline) for percentage in PERCENTAGES]
