"""Workloads of chaos runs: scripted user actions, independent of the scheduler's decisions."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import attrs

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.chaos.faults import LASTING
from kubedsm_lab.chaos.hands import NAMESPACE
from kubedsm_lab.chaos.lying_prometheus import PERIOD, TOLD_AFTER
from kubedsm_lab.chaos.oracles import is_detached
from kubedsm_lab.chaos.stage import End, Placed, Stage
from kubedsm_lab.chaos.versions import NEW_DOCUMENT
from kubedsm_lab.emulator.api.object_state import is_terminating, labels_of, node_of
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS, STATEFUL_SETS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.paper import node

EDGE, CLOUD = node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "20", "40Gi")
ONE_PLACE = node("e1", "edge", "1", "8Gi")
TWO = tuple(node(name, "edge", "2", "8Gi") for name in ("e1", "e2"))
SITE, OTHER_SITE, NEW_SITE = (
    tuple(node(name, "edge", "2", "8Gi", zone=zone) for name in names)
    for zone, names in (("north", ("e1", "e2")), ("south", ("e3", "e4")), ("west", ("e5",)))
)
IN_PIECES = tuple(node(name, "cloud", "2", "8Gi") for name in ("c1", "c2"))
AT_THE_EDGE: Object = {"nodeSelector": {"kubedsm.io/tier": "edge"}}
WEB, SHOP = {"web": Placed(2)}, {"shop": Placed(1)}
NEIGHBOURS = {"before": Placed(1), "beside": Placed(1)}
#: seconds to wait for a migration to begin
_BEGUN = 10.0
#: seconds to wait for another leader
_HANDED_OVER = 20.0
#: seconds to wait for a neighbour's migration
_AT_LAST = 120.0
HOSTNAME = "kubernetes.io/hostname"


@attrs.frozen
class Workload:
    """Scripted user actions of a chaos run, with the cluster's nodes and the schedulers' clock
    rates.
    """

    name: str
    course: Callable[[Stage], Awaitable[None]]
    #: placements at the end of a run without fault, by app
    end: End
    nodes: tuple[Object, ...] = (EDGE, CLOUD)
    #: clock rate of each scheduler; several elect a leader
    rates: tuple[float, ...] = (1.0,)
    #: whether an absence of the schedulers does not change the end
    unhurried: bool = True

    @property
    def times(self) -> LeaseTimes | None:
        """Return the timings of leader election (Lease durations); None for a single scheduler."""
        return LeaseTimes() if len(self.rates) > 1 else None

    @property
    def handover(self) -> float:
        """Return the most seconds from the end of a leader until another scheduler leads."""
        times = self.times
        return 0.0 if times is None else (times.duration + times.retry_period) / min(self.rates)


async def _create_burst(stage: Stage) -> None:
    """Create more pods at once than fit, and an infeasible pod.

    The surplus pod takes any room that a scheduler forgets to reserve.
    """
    stage.hands.create_workload("web", 6)
    stage.hands.create_workload("huge", 1, cpu="64")


async def _scale_up_and_down(stage: Stage) -> None:
    """Scale a workload beyond the edge nodes' capacity, and down again."""
    stage.hands.create_workload("web", 2)
    stage.hands.create_workload("shop", 1)
    await stage.clock.sleep(2.0)
    stage.hands.scale_workload("web", 6)
    await stage.clock.sleep(5.0)
    stage.hands.scale_workload("web", 1)


async def _open_edge_later(stage: Stage, replicas: int = 2) -> None:
    """Add an edge node after all pods have been bound to cloud nodes.

    A single replica must stay available throughout.
    """
    stage.hands.create_workload("web", replicas)
    await _open_edge(stage)


async def _request_migration(stage: Stage) -> None:
    """Add the edge node, and request the migration that makes use of it."""
    await _open_edge_later(stage)
    stage.hands.request_migration("web", "e1", stage.clock.wall())


async def _fill_edge_first(stage: Stage) -> None:
    """Fill the edge nodes, then create pods whose node selection permits edge nodes only."""
    stage.hands.create_workload("web", 4)
    await stage.clock.sleep(4.0)
    stage.hands.create_workload("camera", 2, **AT_THE_EDGE)


async def _swap_targets(stage: Stage) -> None:
    """Swap the target edge shares of two workloads: the workload at the edge leaves for the cloud,
    and vice versa.
    """
    stage.hands.create_workload("web", 1)
    await stage.clock.sleep(2.0)
    stage.hands.create_workload("shop", 1)
    await stage.clock.sleep(4.0)
    stage.hands.write_configuration(_set_targets(web=0, shop=1))


async def _create_valuable_pods(stage: Stage) -> None:
    """Fill the edge with pods without a target, then create pods for which they are migrated."""
    stage.hands.write_configuration(_set_targets(web=0))
    stage.hands.create_workload("web", 4)
    await stage.clock.sleep(4.0)
    stage.hands.create_workload("shop", 3)


async def _migrate_stateful_set(stage: Stage) -> None:
    """Migrate pods with stable names: deletion precedes the replacement's creation."""
    stage.hands.create_workload("db", 2, resource=STATEFUL_SETS)
    await _open_edge(stage)


async def _provision_volumes(stage: Stage) -> None:
    """Create a StatefulSet whose pods get a local volume each, and delete a pod, which returns to
    its volume.
    """
    stage.hands.create_storage_class()
    stage.hands.create_workload("db", 3, resource=STATEFUL_SETS, storage="1Gi")
    await stage.clock.sleep(20.0)
    if stage.hands.api.exists(PODS, NAMESPACE, "db-0"):
        stage.hands.delete_pod("db-0")


async def _roll_out_meanwhile(stage: Stage) -> None:
    """Change the pod template while a pod is detached from its ReplicaSet for a migration."""
    stage.hands.create_workload("web", 2)
    await _open_edge(stage)
    await stage.wait_until(lambda: _list_detached(stage), _BEGUN)
    stage.hands.roll_out("web")


async def _delete_owner_meanwhile(stage: Stage) -> None:
    """Delete the Deployment while its pod is detached from the ReplicaSet for a migration."""
    stage.hands.create_workload("web", 2)
    stage.hands.create_workload("shop", 1)
    await _open_edge(stage)
    await stage.wait_until(lambda: "web" in _list_detached(stage), _BEGUN)
    stage.hands.delete_workload("web")


async def _migrate_with_budgets(stage: Stage) -> None:
    """Migrate three Deployments with a disruption budget each, and delete one meanwhile.

    The incident `undeployed` deletes Deployments at every other step of the migrations.
    """
    for name, limit in (
        ("web", {"maxUnavailable": 1}),
        ("shop", {"minAvailable": 2}),
        ("bank", {"maxUnavailable": 0}),
    ):
        stage.hands.create_workload(name, 2, cpu="500m")
        stage.hands.create_budget(name, name, **limit)
    await _open_edge(stage)
    await stage.wait_until(lambda: "bank" in _list_detached(stage), _BEGUN)
    stage.hands.delete_workload("bank")


async def _migrate_with_finalizer(stage: Stage, grace: int = 1) -> None:
    """Migrate a tenant's pods whose finalizers delay the completion of their deletion.

    With a long grace period (seconds), the pods ignore SIGTERM as well.
    """
    _deploy_tenant(stage, terminationGracePeriodSeconds=grace)
    await stage.clock.sleep(1.0)
    _hold_pods(stage)
    await _migrate_neighbours(stage)


async def _delete_namespace_meanwhile(stage: Stage) -> None:
    """Delete the tenant's namespace while its pod is detached for a migration, so no replacement
    can be created.
    """
    api, name = stage.hands.api, "tenant"
    api.create(NAMESPACES, {"metadata": {"name": name}})
    _deploy_tenant(stage, namespace=name)
    deleted: list[str] = []

    def notice(change: ObjectChange) -> None:
        if change.object["metadata"].get("namespace") != name or deleted:
            return
        if change.resource is PODS and MIGRATING_LABEL in labels_of(change.object):
            deleted.append(name)
            stage.cluster.stop_controllers()
            api.delete(NAMESPACES, "", name)
            asyncio.get_running_loop().call_later(0.1, stage.cluster.start_controllers)

    api.store.subscribe(notice)
    await _migrate_neighbours(stage)


def _deploy_tenant(stage: Stage, namespace: str = NAMESPACE, **spec: Any) -> None:
    stage.hands.create_workload("web", 2, namespace=namespace, **spec)


def _hold_pods(stage: Stage, *, held: bool = True) -> None:
    for pod in stage.hands.list_pods():
        # The API server refuses finalizers on terminating pods.
        if labels_of(pod)["app"] == "web" and not (held and is_terminating(pod)):
            stage.hands.hold_pod(pod["metadata"]["name"], held=held)


async def _migrate_neighbours(stage: Stage) -> None:
    """Measure the duration of another tenant's migration before and during this tenant's migration
    (guarantee I9).
    """
    for name in ("before", "beside"):
        stage.hands.create_workload(name, 1, cpu="5m", affinity=_restrict_to("c1", name))
    await stage.clock.sleep(4.0)
    usual = await _time_migration(stage, "before")
    stage.hands.add_node(EDGE)
    await stage.wait_until(partial(_is_leaving, stage), _BEGUN)
    stage.neighbour_took = (usual, await _time_migration(stage, "beside"))
    await stage.clock.sleep(LASTING)
    _hold_pods(stage, held=False)


def _restrict_to(*nodes: str) -> Object:
    """Return the affinity of pods that may run on the named nodes only."""
    reach = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(nodes)}]}
    terms = {"nodeSelectorTerms": [reach]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _is_leaving(stage: Stage) -> bool:
    """Return whether the tenant's migrating pods are terminating, or its pods gone.

    A pod that a fault deleted does not count alone: its migration stabilises first.
    """
    pods = stage.hands.api.list(PODS, labels="app=web")
    migrating = list(filter(is_detached, pods))
    return all(map(is_terminating, migrating)) and bool(migrating or not pods)


async def _time_migration(stage: Stage, name: str) -> float:
    """Add an edge node reserved for the workload; return the seconds until its pod runs there."""
    began = stage.clock.monotonic()
    stage.hands.add_node(node(name, "edge", "10m", "200Mi"))

    def there() -> bool:
        pods = stage.hands.api.list(PODS, NAMESPACE, labels=f"app={name}")
        return [node_of(pod) for pod in pods] == [name]

    await stage.wait_until(there, _AT_LAST)
    return stage.clock.monotonic() - began


async def _lose_nodes(stage: Stage, names: Sequence[str]) -> None:
    """Make edge nodes unreachable for 20 s: one, so its pods are replaced elsewhere, or all of a
    site, as in a network partition.
    """
    stage.hands.create_workload("web", 2)
    stage.hands.create_workload("shop", 1)
    await _partition_nodes(stage, names)


async def _partition_nodes(stage: Stage, names: Sequence[str]) -> None:
    await stage.clock.sleep(4.0)
    for name in names:
        stage.hands.lose_node(name)
    await stage.clock.sleep(20.0)
    for name in names:
        stage.hands.lose_node(name, lost=False)


async def _serve_sites(stage: Stage) -> None:
    """Serve users of three sites: one loses its link for 20 s, and one is added 20 s later."""
    demand = {"web": {"north": 2, "south": 1, "west": 1}, "shop": {"south": 1}}
    services = {f"default/{name}": {"demand": weights} for name, weights in demand.items()}
    stage.hands.write_configuration({"services": services})
    stage.hands.create_workload("web", 4)
    stage.hands.create_workload("shop", 2)
    await _partition_nodes(stage, ("e1", "e2"))
    await stage.clock.sleep(20.0)
    for each in NEW_SITE:
        stage.hands.add_node(each)


async def _change_configuration(stage: Stage) -> None:
    """Change the QoS targets of two workloads, with an invalid document in between."""
    stage.hands.write_configuration(_set_targets(web=0))
    stage.hands.create_workload("web", 2)
    stage.hands.create_workload("shop", 4)
    await stage.clock.sleep(5.0)
    stage.hands.write_configuration({"apiVersion": "kubedsm.io/v2"})
    await stage.clock.sleep(5.0)
    stage.hands.write_configuration(_set_targets(shop=0))


async def _preempt_pods(stage: Stage) -> None:
    """Fill the edge nodes, then create a pod of higher priority that may run on edge nodes only."""
    stage.hands.write_configuration({"preemption": "enabled"})
    stage.hands.create_priority_class("more", 1000)
    stage.hands.create_workload("web", 4, **AT_THE_EDGE)
    await stage.clock.sleep(4.0)
    stage.hands.create_workload("camera", 1, priorityClassName="more", **AT_THE_EDGE)


async def _pack_pods(stage: Stage) -> None:
    """Create a pod that fits only after two other pods are packed on one node."""
    stage.hands.create_workload("web", 2)
    await stage.clock.sleep(4.0)
    stage.hands.create_workload("large", 1, cpu="2")


async def _contend_for_edge(stage: Stage) -> None:
    """Create a pod for edge nodes only while the last room there is reserved for a migration.

    The pod takes the room if the reservation is forgotten; otherwise the migrated pod makes room.
    """
    stage.hands.create_workload("web", 1)
    await _open_edge(stage, ONE_PLACE)
    await stage.wait_until(lambda: stage.witness.of("detach"), _BEGUN)
    stage.hands.create_workload("camera", 1, **AT_THE_EDGE)


async def _open_edge(stage: Stage, edge: Object = EDGE) -> None:
    await stage.clock.sleep(4.0)
    stage.hands.add_node(edge)


def _list_detached(stage: Stage) -> set[str]:
    """Return the workloads with a pod that is detached from its ReplicaSet for a migration and not
    terminating.
    """
    detached = [pod for pod in stage.hands.list_pods() if MIGRATING_LABEL in labels_of(pod)]
    return {labels_of(pod)["app"] for pod in detached if not is_terminating(pod)}


def _set_targets(**shares: float) -> Object:
    """Return a configuration document with the given target edge share of each workload."""
    return {"services": {f"default/{name}": {"qos": share} for name, share in shares.items()}}


async def _wait_quietly(stage: Stage) -> None:
    """Create pods after a period in which all watches receive only bookmarks."""
    stage.hands.create_workload("web", 2)
    await stage.clock.sleep(65.0)
    stage.hands.create_workload("shop", 2)
    stage.hands.scale_workload("web", 1)


async def _change_leader(stage: Stage) -> None:
    """Scale a workload over several Lease durations, so two leaders would be noticed, then end the
    leader.

    A pod is detached when the leader ends.
    """
    stage.hands.create_workload("web", 2)
    stage.hands.create_workload("shop", 1)
    for replicas in (3, 1, 3, 1, 3, 1):
        await stage.clock.sleep(3.5)
        stage.hands.scale_workload("shop", replicas)
    await _open_edge(stage)
    await stage.wait_until(lambda: _list_detached(stage), _BEGUN)
    if stage.leader is not None:
        stage.leader.stopping.set()


async def _change_version(stage: Stage) -> None:
    """Roll a newer version out and back, as a Deployment does, amid binds and migrations.

    The ConfigMap has a key of the newer version from the upgrade until after the downgrade began.
    The newer leader is killed while a pod is detached.
    """
    stage.hands.create_workload("web", 2)
    stage.hands.create_workload("shop", 1)
    await _open_edge(stage)
    await stage.wait_until(lambda: _list_detached(stage), _BEGUN)
    for number, former in enumerate(("kubedsm-1", "kubedsm-0")):
        stage.start_scheduler(f"newer-{number}", newer=True)
        await stage.clock.sleep(1.0)
        stage.remove_scheduler(former)
    stage.hands.scale_workload("web", 3)
    stage.hands.write_configuration(NEW_DOCUMENT)
    await stage.wait_until(lambda: _is_led_by(stage, "newer"), _HANDED_OVER)
    stage.hands.create_workload("bank", 1, affinity=_restrict_to("c1", "e2"))
    await stage.clock.sleep(4.0)
    stage.hands.add_node(node("e2", "edge", "1", "8Gi"))
    await stage.wait_until(lambda: "bank" in _list_detached(stage), _BEGUN)
    stage.start_scheduler("kubedsm-2")
    for number in (0, 1):
        stage.remove_scheduler(f"newer-{number}", graceful=False)
    stage.hands.create_workload("late", 1, affinity=_restrict_to("c1"))
    await stage.clock.sleep(2.0)
    stage.hands.write_configuration({})
    stage.start_scheduler("kubedsm-3")


def _is_led_by(stage: Stage, replica: str) -> bool:
    return stage.leader is not None and stage.leader.name.startswith(replica)


async def _serve_lies(stage: Stage) -> None:
    """Enable load balancing with a fake Prometheus that sends false measurements."""
    load: Object = {
        "prometheus": "http://lies",
        "period": f"{PERIOD:g}s",
        "window": "1s",
        "move": True,
    }
    unasked = {"net": "", "disk": ""}
    load["queries"] = {"node": unasked, "pod": unasked}
    stage.hands.write_configuration({"loadAware": load | {"minLoadGain": 0.1}})
    stage.hands.create_workload("web", 1, cpu="500m")
    stage.hands.create_workload("shop", 1, cpu="500m")
    await stage.clock.sleep(TOLD_AFTER / 2)
    stage.hands.scale_workload("shop", 2)
    await stage.clock.sleep(TOLD_AFTER / 2)


def _at(**sites: int) -> Placed:
    """Return placements at the edge only, by site."""
    return Placed(sum(sites.values()), sites=tuple(sorted(sites.items())))


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "burst",
            _create_burst,
            {"web": Placed(4, 1, 1), "huge": Placed(waiting=1)},
            nodes=(EDGE, node("c1", "cloud", "1", "40Gi")),
        ),
        Workload("scaling", _scale_up_and_down, {"web": Placed(1), "shop": Placed(1)}),
        Workload("cloud-to-edge", _open_edge_later, WEB, nodes=(CLOUD,)),
        Workload("asked-to-move", _request_migration, WEB, nodes=(CLOUD,)),
        Workload("edge-to-cloud", _fill_edge_first, {"web": Placed(2, 2), "camera": Placed(2)}),
        Workload(
            "swap",
            _swap_targets,
            {"web": Placed(0, 1), "shop": Placed(1)},
            nodes=(ONE_PLACE, CLOUD),
        ),
        Workload("new-pods", _create_valuable_pods, {"web": Placed(1, 3), "shop": Placed(3)}),
        Workload(
            "contended",
            _contend_for_edge,
            {"web": Placed(0, 1), "camera": Placed(1)},
            nodes=(CLOUD,),
        ),
        Workload(
            "single-replica",
            partial(_open_edge_later, replicas=1),
            {"web": Placed(1)},
            nodes=(CLOUD,),
        ),
        Workload("stateful-set", _migrate_stateful_set, {"db": Placed(2)}, nodes=(CLOUD,)),
        Workload("volumes", _provision_volumes, {"db": Placed(3)}, nodes=(*TWO, CLOUD)),
        Workload("rollout", _roll_out_meanwhile, WEB, nodes=(CLOUD,)),
        Workload("owner-deleted", _delete_owner_meanwhile, {"shop": Placed(1)}, nodes=(CLOUD,)),
        Workload(
            "budgeted", _migrate_with_budgets, {"web": Placed(2), "shop": Placed(2)}, nodes=(CLOUD,)
        ),
        Workload("finalizer", _migrate_with_finalizer, WEB | NEIGHBOURS, nodes=(CLOUD,)),
        Workload(
            "slow-termination",
            partial(_migrate_with_finalizer, grace=600),
            WEB | NEIGHBOURS,
            nodes=(CLOUD,),
        ),
        Workload("namespace-deleted", _delete_namespace_meanwhile, NEIGHBOURS, nodes=(CLOUD,)),
        Workload("node-loss", partial(_lose_nodes, names=("e2",)), WEB | SHOP, nodes=(*TWO, CLOUD)),
        Workload(
            "site-loss",
            partial(_lose_nodes, names=("e1", "e2")),
            {"web": _at(north=2), "shop": _at(north=1)},
            nodes=(*SITE, CLOUD),
            unhurried=False,
        ),
        Workload(
            "site-demand",
            _serve_sites,
            {"web": _at(north=2, south=1, west=1), "shop": _at(south=2)},
            nodes=(*SITE, *OTHER_SITE, CLOUD),
            unhurried=False,
        ),
        Workload("configuration", _change_configuration, {"web": Placed(2), "shop": Placed(2, 2)}),
        Workload("preemption", _preempt_pods, {"web": Placed(3, waiting=1), "camera": Placed(1)}),
        Workload(
            "packing", _pack_pods, {"web": Placed(0, 2), "large": Placed(0, 1)}, nodes=IN_PIECES
        ),
        Workload("long-quiet", _wait_quietly, {"web": Placed(1), "shop": Placed(2)}),
        Workload(
            "lying-prometheus",
            _serve_lies,
            {"web": Placed(1), "shop": Placed(2)},
            nodes=(*TWO, CLOUD),
            rates=(1.0, 1.0),
        ),
        Workload("leader-change", _change_leader, WEB | SHOP, nodes=(CLOUD,), rates=(1.0, 1.0)),
        Workload(
            "version-change",
            _change_version,
            {"web": Placed(3), "bank": Placed(1), "late": Placed(0, 1)} | SHOP,
            nodes=(CLOUD,),
            rates=(1.0, 1.0),
        ),
        Workload("slow-leader", _change_leader, WEB | SHOP, nodes=(CLOUD,), rates=(0.5, 2.0)),
        Workload("fast-leader", _change_leader, WEB | SHOP, nodes=(CLOUD,), rates=(2.0, 0.5)),
    )
}
