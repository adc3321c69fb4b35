"""Workloads of chaos runs: operations of users on a fixed schedule."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.chaos.faults import LASTING
from kubedsm_lab.chaos.hands import NAMESPACE
from kubedsm_lab.chaos.lying_prometheus import PERIOD, TOLD_AFTER
from kubedsm_lab.chaos.stage import Stage
from kubedsm_lab.emulator.api.object_state import is_terminating, labels_of, node_of
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS, STATEFUL_SETS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.paper import node

EDGE, CLOUD = node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "20", "40Gi")
ONE_PLACE = node("e1", "edge", "1", "8Gi")
TWO = tuple(node(name, "edge", "2", "8Gi") for name in ("e1", "e2"))
SITE = tuple(node(name, "edge", "2", "8Gi", zone="north") for name in ("e1", "e2"))
IN_PIECES = tuple(node(name, "cloud", "2", "8Gi") for name in ("c1", "c2"))
AT_THE_EDGE: Object = {"nodeSelector": {"kubedsm.io/tier": "edge"}}
#: time limit for the start or the middle of a migration in seconds
_BEGUN = 10.0
#: time limit for the migration of another tenant in seconds
_AT_LAST = 120.0
HOSTNAME = "kubernetes.io/hostname"


@attrs.frozen
class Workload:
    name: str
    course: Callable[[Stage], Awaitable[None]]
    nodes: tuple[Object, ...] = (EDGE, CLOUD)
    #: clock rate of each scheduler; one of several leads
    rates: tuple[float, ...] = (1.0,)

    #: whether the outcome is the same after an outage of the schedulers
    unhurried: bool = True

    @property
    def times(self) -> LeaseTimes | None:
        """Return the times of the leader election, if any."""
        return LeaseTimes() if len(self.rates) > 1 else None

    @property
    def handover(self) -> float:
        """Return the longest failover in seconds."""
        times = self.times
        return 0.0 if times is None else (times.duration + times.retry_period) / min(self.rates)


async def _burst(stage: Stage) -> None:
    """Create more pods at once than the edge holds, and one that fits on no node."""
    stage.hands.deploy("web", 5)
    stage.hands.deploy("huge", 1, cpu="64")


async def _scaling(stage: Stage) -> None:
    """Scale up, beyond the capacity of the edge, and down again."""
    stage.hands.deploy("web", 2)
    stage.hands.deploy("shop", 1)
    await stage.clock.sleep(2.0)
    stage.hands.scale("web", 6)
    await stage.clock.sleep(5.0)
    stage.hands.scale("web", 1)


async def _cloud_to_edge(stage: Stage) -> None:
    """Add an edge node after all pods were bound in the cloud."""
    stage.hands.deploy("web", 2)
    await _add_edge(stage)


async def _request_migration(stage: Stage) -> None:
    """Request the migration that would be suggested, once there is an edge node."""
    await _cloud_to_edge(stage)
    stage.hands.ask_to_move("web", "e1", stage.clock.wall())


async def _edge_to_cloud(stage: Stage) -> None:
    """Create pods that require the edge when the edge is full."""
    stage.hands.deploy("web", 4)
    await stage.clock.sleep(4.0)
    stage.hands.deploy("camera", 2, **AT_THE_EDGE)


async def _swap(stage: Stage) -> None:
    """Swap the QoS targets of a workload at the edge and one in the cloud."""
    stage.hands.deploy("web", 1)
    await stage.clock.sleep(2.0)
    stage.hands.deploy("shop", 1)
    await stage.clock.sleep(4.0)
    stage.hands.configure(_qos_targets(web=0, shop=1))


async def _single_replica(stage: Stage) -> None:
    """Migrate the only replica, which must stay available."""
    stage.hands.deploy("web", 1)
    await _add_edge(stage)


async def _stateful_set(stage: Stage) -> None:
    """Migrate StatefulSet pods, whose names allow only delete-then-create."""
    stage.hands.deploy("db", 2, resource=STATEFUL_SETS)
    await _add_edge(stage)


async def _rollout(stage: Stage) -> None:
    """Change the pod template while a pod is detached."""
    stage.hands.deploy("web", 2)
    await _add_edge(stage)
    await stage.until(lambda: _list_detached(stage), _BEGUN)
    stage.hands.roll_out("web")


async def _owner_deleted(stage: Stage) -> None:
    """Delete the Deployment while one of its pods is detached."""
    stage.hands.deploy("web", 2)
    stage.hands.deploy("shop", 1)
    await _add_edge(stage)
    await stage.until(lambda: "web" in _list_detached(stage), _BEGUN)
    stage.hands.undeploy("web")


async def _migrate_with_budgets(stage: Stage) -> None:
    """Migrate three Deployments with disruption budgets; delete one meanwhile.

    The incident `undeployed` deletes them at every other step of their migrations.
    """
    for name, limit in (
        ("web", {"maxUnavailable": 1}),
        ("shop", {"minAvailable": 2}),
        ("bank", {"maxUnavailable": 0}),
    ):
        stage.hands.deploy(name, 2, cpu="500m")
        stage.hands.budget(name, name, **limit)
    await _add_edge(stage)
    await stage.until(lambda: "bank" in _list_detached(stage), _BEGUN)
    stage.hands.undeploy("bank")


async def _finalizer(stage: Stage) -> None:
    """Migrate a tenant's pods whose finalizer blocks their deletion."""
    _deploy_tenant(stage)
    await stage.clock.sleep(1.0)
    _hold_pods(stage)
    await _measure_neighbour(stage)


async def _slow_termination(stage: Stage) -> None:
    """Migrate a tenant's pods that ignore SIGTERM for ten minutes."""
    _deploy_tenant(stage, terminationGracePeriodSeconds=600)
    await stage.clock.sleep(1.0)
    _hold_pods(stage)
    await _measure_neighbour(stage)


async def _namespace_deleted(stage: Stage) -> None:
    """Delete a tenant's namespace when a pod is detached, so that no replacement is created."""
    api, name = stage.hands.api, "tenant"
    api.create(NAMESPACES, {"metadata": {"name": name}})
    _deploy_tenant(stage, namespace=name)
    deleted: list[str] = []

    def notice(change: ObjectChange) -> None:
        if change.object["metadata"].get("namespace") != name or deleted:
            return
        if change.resource is PODS and MIGRATING_LABEL in labels_of(change.object):
            deleted.append(name)
            stage.hands.stop_controllers()
            api.delete(NAMESPACES, "", name)
            asyncio.get_running_loop().call_later(0.1, stage.hands.start_controllers)

    api.store.subscribe(notice)
    await _measure_neighbour(stage)


def _deploy_tenant(stage: Stage, namespace: str = NAMESPACE, **spec: Any) -> None:
    stage.hands.deploy("web", 2, namespace=namespace, **spec)


def _hold_pods(stage: Stage, *, held: bool = True) -> None:
    for pod in stage.hands.pods():
        # No finalizer can be added to a pod that is being deleted.
        if labels_of(pod)["app"] == "web" and not (held and is_terminating(pod)):
            stage.hands.hold_pod(pod["metadata"]["name"], held=held)


async def _measure_neighbour(stage: Stage) -> None:
    """Measure I9: another tenant's migration before the tenant's migration, and during it."""
    for name in ("before", "beside"):
        reach = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["c1", name]}]}
        terms = {"nodeSelectorTerms": [reach]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        stage.hands.deploy(name, 1, cpu="5m", affinity=affinity)
    await stage.clock.sleep(4.0)
    usual = await _time_migration(stage, "before")
    stage.hands.add_node(EDGE)
    await stage.until(partial(_has_begun, stage), _BEGUN)
    stage.neighbour_took = (usual, await _time_migration(stage, "beside"))
    await stage.clock.sleep(LASTING)
    _hold_pods(stage, held=False)


def _has_begun(stage: Stage) -> bool:
    """Return whether the tenant's migration has reached its wait."""
    pods = stage.hands.api.list(PODS, labels="app=web")
    return any(map(is_terminating, pods)) or not pods


async def _time_migration(stage: Stage, name: str) -> float:
    """Return the duration of a migration to a node that is added for the workload."""
    began = stage.clock.monotonic()
    stage.hands.add_node(node(name, "edge", "10m", "200Mi"))

    def there() -> bool:
        pods = stage.hands.api.list(PODS, NAMESPACE, labels=f"app={name}")
        return [node_of(pod) for pod in pods] == [name]

    await stage.until(there, _AT_LAST)
    return stage.clock.monotonic() - began


async def _node_loss(stage: Stage) -> None:
    """Lose one of two edge nodes, until its pods are elsewhere."""
    stage.hands.deploy("web", 2)
    stage.hands.deploy("shop", 1)
    await stage.clock.sleep(4.0)
    stage.hands.lose_node("e2")
    await stage.clock.sleep(20.0)
    stage.hands.regain_node("e2")


async def _site_loss(stage: Stage) -> None:
    """Lose all edge nodes, until their pods are elsewhere."""
    stage.hands.deploy("web", 2)
    stage.hands.deploy("shop", 1)
    await stage.clock.sleep(4.0)
    for name in ("e1", "e2"):
        stage.hands.lose_node(name)
    await stage.clock.sleep(20.0)
    for name in ("e1", "e2"):
        stage.hands.regain_node(name)


async def _configuration_change(stage: Stage) -> None:
    """Give the QoS target to one workload, then to another; in between the document is invalid."""
    stage.hands.configure(_qos_targets(web=0))
    stage.hands.deploy("web", 2)
    stage.hands.deploy("shop", 4)
    await stage.clock.sleep(5.0)
    stage.hands.configure({"apiVersion": "kubedsm.io/v2"})
    await stage.clock.sleep(5.0)
    stage.hands.configure(_qos_targets(shop=0))


async def _preemption(stage: Stage) -> None:
    """Create a pod of higher priority that requires the edge, which is full."""
    stage.hands.configure({"preemption": "enabled"})
    stage.hands.prefer("more", 1000)
    stage.hands.deploy("web", 4, **AT_THE_EDGE)
    await stage.clock.sleep(4.0)
    stage.hands.deploy("camera", 1, priorityClassName="more", **AT_THE_EDGE)


async def _packing(stage: Stage) -> None:
    """Create a pod that fits only if two pods on two nodes share one."""
    stage.hands.deploy("web", 2)
    await stage.clock.sleep(4.0)
    stage.hands.deploy("large", 1, cpu="2")


async def _add_edge(stage: Stage) -> None:
    await stage.clock.sleep(4.0)
    stage.hands.add_node(EDGE)


def _list_detached(stage: Stage) -> set[str]:
    """Return the workloads with a detached pod."""
    marked = [pod for pod in stage.hands.pods() if MIGRATING_LABEL in labels_of(pod)]
    return {labels_of(pod)["app"] for pod in marked if not is_terminating(pod)}


def _qos_targets(**shares: float) -> Object:
    """Return a configuration with these QoS targets."""
    return {"services": {f"default/{name}": {"qos": share} for name, share in shares.items()}}


async def _long_quiet(stage: Stage) -> None:
    """Create pods after a long time with bookmarks only."""
    stage.hands.deploy("web", 2)
    await stage.clock.sleep(65.0)
    stage.hands.deploy("shop", 2)
    stage.hands.scale("web", 1)


async def _leader_change(stage: Stage) -> None:
    """Scale for longer than a Lease lasts, then terminate the leader while a pod is detached."""
    stage.hands.deploy("web", 2)
    stage.hands.deploy("shop", 1)
    for replicas in (3, 1, 3, 1, 3, 1):
        await stage.clock.sleep(3.5)
        stage.hands.scale("shop", replicas)
    await _add_edge(stage)
    await stage.until(lambda: _list_detached(stage), _BEGUN)
    if stage.leader is not None:
        stage.leader.stopping.set()


async def _lying_prometheus(stage: Stage) -> None:
    """Balance load on the claims of a lying Prometheus."""
    load: Object = {
        "prometheus": "http://lies",
        "period": f"{PERIOD:g}s",
        "window": "1s",
        "move": True,
    }
    unasked = {"net": "", "disk": ""}
    load["queries"] = {"node": unasked, "pod": unasked}
    stage.hands.configure({"loadAware": load | {"minLoadGain": 0.1}})
    stage.hands.deploy("web", 1, cpu="500m")
    stage.hands.deploy("shop", 1, cpu="500m")
    await stage.clock.sleep(TOLD_AFTER / 2)
    stage.hands.scale("shop", 2)
    await stage.clock.sleep(TOLD_AFTER / 2)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("burst", _burst),
        Workload("scaling", _scaling),
        Workload("cloud-to-edge", _cloud_to_edge, nodes=(CLOUD,)),
        Workload("asked-to-move", _request_migration, nodes=(CLOUD,)),
        Workload("edge-to-cloud", _edge_to_cloud),
        Workload("swap", _swap, nodes=(ONE_PLACE, CLOUD)),
        Workload("single-replica", _single_replica, nodes=(CLOUD,)),
        Workload("stateful-set", _stateful_set, nodes=(CLOUD,)),
        Workload("rollout", _rollout, nodes=(CLOUD,)),
        Workload("owner-deleted", _owner_deleted, nodes=(CLOUD,)),
        Workload("budgeted", _migrate_with_budgets, nodes=(CLOUD,)),
        Workload("finalizer", _finalizer, nodes=(CLOUD,)),
        Workload("slow-termination", _slow_termination, nodes=(CLOUD,)),
        Workload("namespace-deleted", _namespace_deleted, nodes=(CLOUD,)),
        Workload("node-loss", _node_loss, nodes=(*TWO, CLOUD)),
        Workload("site-loss", _site_loss, nodes=(*SITE, CLOUD), unhurried=False),
        Workload("configuration", _configuration_change),
        Workload("preemption", _preemption),
        Workload("packing", _packing, nodes=IN_PIECES),
        Workload("long-quiet", _long_quiet),
        Workload("lying-prometheus", _lying_prometheus, nodes=(*TWO, CLOUD), rates=(1.0, 1.0)),
        Workload("leader-change", _leader_change, nodes=(CLOUD,), rates=(1.0, 1.0)),
        Workload("slow-leader", _leader_change, nodes=(CLOUD,), rates=(0.5, 2.0)),
        Workload("fast-leader", _leader_change, nodes=(CLOUD,), rates=(2.0, 0.5)),
    )
}
