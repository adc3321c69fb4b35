"""Cluster and service of the autoscaler experiment, and the model of its clients.

Source: the paper of the rotating score cache, and the manifests of the authors' benchmark. Values
without a published source are marked as ours in docs/explanation/hpa.md.
"""

import random
from collections.abc import Mapping

from kubedsm.model.model import Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    SERVICES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.paper import node, service_objects
from kubedsm_lab.replay.hpa.processor_sharing import ClosedLoop
from kubedsm_lab.replay.recording import Serving, serving_after
from loadgen.recovery import Window

NAME = "php-apache"
#: bounds of the autoscaler, and its target: percent of the pods' CPU requests
LEAST, MOST, UTILISATION = 3, 20, 50
#: core-seconds of a request: each further connection on a pod adds 0.4 s. Up to two connections
#: keep the SLA, as 10 do that are spread well over 20 pods; three break it.
DEMAND = 0.2
#: seconds after which a client gives up
TIMEOUT = 15.0
#: allocatable resources of five e2-standard-2. The paper knows no tiers: all nodes are edge.
NODES = tuple(node(f"worker-{number}", "edge", "1930m", "5.9Gi") for number in range(1, 6))


def objects() -> tuple[tuple[Resource, Object], ...]:
    """Return Deployment, Service and autoscaler of the experiment, in order of creation.

    The autoscaler has the defaults of `behavior`.
    """
    deployment, service, autoscaler = service_objects(NAME, "200m", "128Mi", replicas=(LEAST, MOST))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = {"cpu": "500m", "memory": "256Mi"}
    target = {"type": "Utilization", "averageUtilization": UTILISATION}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    autoscaler["spec"]["metrics"] = [metric]
    # Without `behavior` an older rule would apply: a sync at most doubles the replicas.
    autoscaler["spec"]["behavior"] = {}
    return (
        (DEPLOYMENTS, deployment),
        (SERVICES, service),
        (HORIZONTAL_POD_AUTOSCALERS, autoscaler),
    )


class ModelledService:
    """Service of the autoscaler experiment: observes the Ready pods, and simulates clients and CPU
    usage.

    `notice` subscribes to the store, `usage` is the source of metrics-server.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = ClosedLoop(DEMAND, TIMEOUT)
        self._serving: Mapping[Uid, Serving] = {}
        #: by pod: moment of the last sample, and core-seconds used by then
        self._sampled: dict[Uid, tuple[float, float]] = {}

    def notice(self, change: ObjectChange) -> None:
        serving = serving_after(self._serving, change, {NAME})
        if serving is not self._serving:
            self._serving = serving
            nodes = {uid: pod.node for uid, pod in serving.items()}
            self._loop.have(nodes, self._clock.monotonic())

    async def window(self, clients: int, seconds: float, rng: random.Random) -> Window:
        """Connect the given number of clients for `seconds` of virtual time; return latencies and
        errors of this measurement window.
        """
        self._loop.begin(clients, rng, self._clock.monotonic())
        await self._clock.sleep(seconds)
        return self._loop.window(self._clock.monotonic())

    def usage(self, _namespace: str, pod: str, resource: str) -> float | None:
        """Return a pod's mean cores since the last sample, for metrics-server; None at first."""
        uid = next((uid for uid, each in self._serving.items() if each.name == pod), None)
        if uid is None or resource != "cpu":
            return None
        now = self._clock.monotonic()
        self._loop.advance(now)
        used = self._loop.used.get(uid, 0.0)
        before, self._sampled[uid] = self._sampled.get(uid), (now, used)
        if before is None or before[0] == now:
            return None
        return (used - before[1]) / (now - before[0])
