"""kube-scheduler and KubeDSM on generated clouds, each scoring a percentage of the nodes.

kube-scheduler decides on one pod at a time, KubeDSM on batches. Percentage 0 is kube-scheduler's
formula.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial

import attrs

from kubedsm.config.sections import BatchSettings, CloudSettings, SolverSettings
from kubedsm.config.settings import Configuration
from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, NodeName, Pod, Resources, Workload
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm_lab.baselines.in_turn import InTurn, NodeUsage
from kubedsm_lab.baselines.kube_scheduler import KubeScheduler
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.burst.result import Figures
from kubedsm_lab.bench.nodes.result import (
    KUBE_SCHEDULER,
    PERCENTAGES,
    NodesResult,
    Searches,
    Side,
    summarize_round,
)
from kubedsm_lab.bench.report import measure_cpu
from kubedsm_lab.bench.scale.world import PODS_OF_A_WORKLOAD, Batch

ZONES = 3
#: One node in `FULL` has no capacity, which makes the end of a search matter.
FULL = 4
#: Workloads of the pending pods.
CLASSES = 8
#: Default batch of KubeDSM.
BATCH = BatchSettings().size
_SIZE = Resources(16_000, 64 * 2**30, 110)
_ZONE = "topology.kubernetes.io/zone"


def run(
    sizes: Sequence[int], pods: int, rounds: int, progressed: Callable[[], object]
) -> NodesResult:
    """Schedule the same generated pods by kube-scheduler and KubeDSM at each percentage of scored
    nodes, in rotating order.

    `sizes` are numbers of nodes; `progressed` is called after each run.
    """
    sides = []
    for nodes in sizes:
        found: list[list[Figures]] = [[] for _ in contenders()]
        for number in range(rounds):
            instance, order = Instance(nodes, pods, number), contenders()
            for turn in range(len(order)):
                at = (turn + number) % len(order)
                mirror, waiting = instance.build_mirror(), instance.pending_pods()
                found[at].append(order[at].decide(mirror, waiting, number))
                progressed()
        sides += [
            Side(nodes, each.policy, each.percentage, found[at])
            for at, each in enumerate(contenders())
        ]
    about = (
        f"{pods:,} pods of {CLASSES} Deployments come to clouds of {ZONES} zones. One node in"
        f" {FULL} is full, the others are filled unevenly. Decisions alone: no API server, nothing"
        " is bound. Both schedulers are Python in one process: kube-scheduler's scores for one pod"
        f" after the other, KubeDSM in batches of {BATCH}. Rounds: {rounds}, each on a cloud of its"
        " own and begun by another contender; medians over them; times are of CPU. p is"
        " percentageOfNodesToScore, and cloud.percentageOfNodes; 0 is the formula"
    )
    return NodesResult(pods, rounds, sides, about)


@attrs.frozen(slots=True)
class Instance:
    """Generated cloud: unevenly filled nodes, and pending pods, reproducible by `seed`."""

    nodes: int
    pods: int
    seed: int

    def build_mirror(self) -> ClusterMirror:
        """Return a cluster mirror with the generated nodes, one running pod on each, and the
        pending pods.
        """
        rng, mirror = random.Random(self.seed), ClusterMirror()
        for number in range(self.nodes):
            mirror.apply(NodeApplied(_cloud_node(number)))
            mirror.apply(PodApplied(_resident_pod(number, rng)))
        for pod in self.pending_pods():
            mirror.apply(PodApplied(pod))
        return mirror

    def pending_pods(self) -> list[Pod]:
        return Batch(self.pods, CLASSES).pending_pods()


def _cloud_node(number: int) -> Node:
    name = f"n{number:05}"
    labels = {
        "kubedsm.io/tier": "cloud",
        "kubernetes.io/hostname": name,
        _ZONE: f"zone-{number % ZONES}",
    }
    return Node(NodeName(name), labels, _SIZE)


def _resident_pod(number: int, rng: random.Random) -> Pod:
    cpu, memory = (8, 8) if number % FULL == 0 else (rng.randint(1, 6), rng.randint(1, 6))
    requests = Resources(cpu * _SIZE.cpu // 8, memory * _SIZE.memory // 8, 1)
    name = f"old-{number:05}"
    owner = Workload("shop", "Deployment", f"old-{number // PODS_OF_A_WORKLOAD}")
    return instances.pod(
        name, owner, requests, node_name=_cloud_node(number).name, phase="Running", ready=True
    )


@attrs.frozen
class Baseline:
    """kube-scheduler's policy with percentageOfNodesToScore, placing pods one at a time."""

    percentage: int
    policy: str = KUBE_SCHEDULER

    def decide(self, mirror: ClusterMirror, waiting: Sequence[Pod], seed: int) -> Figures:
        scheduler, snapshot = KubeScheduler(self.percentage), mirror.snapshot()
        nodes = len(snapshot.nodes)
        searches = Searches.of_nodes(nodes)

        def choose(pod: Pod, fitting: Sequence[Node], room: NodeUsage, rng: random.Random) -> Node:
            first = scheduler.start
            node = scheduler(pod, fitting, room, rng)
            # The next search begins where this search ends: at `first`, after all nodes.
            searches.add(first, (scheduler.start - first) % nodes or nodes)
            return node

        configuration = Configuration()
        policy = InTurn(choose, configuration.qos_target, configuration.objective_function)
        decision, seconds = measure_cpu(
            lambda: policy.place(snapshot, waiting, random.Random(seed))
        )
        return summarize_round(snapshot, decision.bindings, searches, seconds)


@attrs.frozen
class Ours:
    """KubeDSM's policy with a percentage of scored nodes, placing pods in batches of `batch`."""

    percentage: int
    #: pods
    batch: int = BATCH
    policy: str = KUBEDSM

    def decide(self, mirror: ClusterMirror, waiting: Sequence[Pod], _seed: int) -> Figures:
        configuration = Configuration(
            solver=SolverSettings(kind="off"), cloud=CloudSettings(self.percentage)
        )
        policy, size, before = configuration.policy, self.batch, mirror.snapshot()
        searches = Searches.of_nodes(len(before.nodes))
        bindings: list[Binding] = []
        start, total = 0, 0.0
        for batch in (waiting[at : at + size] for at in range(0, len(waiting), size)):
            decision, seconds = measure_cpu(partial(_decide, policy, mirror, batch, start))
            total += seconds
            looked_at = decision.looked_at
            if looked_at is None:
                searches.add(0, len(searches.counts))
            else:
                searches.add(looked_at.first, looked_at.number)
                start = looked_at.following
            bindings += decision.bindings
            for binding in decision.bindings:
                mirror.apply(PodApplied(attrs.evolve(binding.pod, node_name=binding.node)))
        return summarize_round(before, bindings, searches, total)


def contenders() -> list[Ours | Baseline]:
    """Return KubeDSM and kube-scheduler, each with every percentage of scored nodes
    in PERCENTAGES.
    """
    return [side(percentage) for side in (Ours, Baseline) for percentage in PERCENTAGES]


def _decide(policy: KubeDSM, mirror: ClusterMirror, batch: Sequence[Pod], start: int) -> Decision:
    return policy.decide_batch(mirror.snapshot(), batch, start=start)
