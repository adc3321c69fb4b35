"""Chaos on any cluster: incidents that a client can cause, judged by the oracles from watches.

The run starts two `kubedsm run` of its own, with names of their own for scheduler, tiers, Lease and
configuration: a KubeDSM of the cluster is not disturbed. Pods run on hollow nodes, whose kubelet is
this process. All objects are in one namespace or carry its name, and are deleted at the end.
"""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from pathlib import Path

import attrs

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import ObjectName
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.hollow_nodes import (
    NODE_LEASES,
    RUN,
    HollowNodes,
    build_node,
    on_hollow_nodes,
)
from kubedsm_lab.bench.processes import LogCount, Scheduler, run_command
from kubedsm_lab.bench.report import Report
from kubedsm_lab.bench.soak.harm import LEASE_OPTIONS, FaultInjector
from kubedsm_lab.bench.soak.line import Line
from kubedsm_lab.bench.watched_api import WatchedApiServer, connect_blocking, path_to
from kubedsm_lab.chaos.hands import MERGE, TOLERATIONS, Hands
from kubedsm_lab.chaos.incidents import INCIDENTS, begin_incident
from kubedsm_lab.chaos.oracles import Invariants, Witness, is_detached, list_selected, out_of_place
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import (
    condition_of,
    is_active,
    is_terminating,
    key_of,
    labels_of,
    node_of,
    reason_of,
)
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Object,
)
from kubedsm_lab.emulator.api.store import ObjectChange

#: label of hollow nodes with their tier
TIER = "lab.kubedsm.io/tier"
#: incidents that are no request of a user
_OF_OTHERS = frozenset({"controllers-stopped", "pod-bound"})
INCIDENT_NAMES = tuple(name for name in INCIDENTS if name not in _OF_OTHERS)
#: resources watched in the run's namespace
_OWN = (
    DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS, POD_DISRUPTION_BUDGETS,
)  # fmt: skip
#: replicas of the workloads of one CPU each, and CPU of the hollow nodes
_WORKLOADS = {"web": 3, "shop": 2, "bank": 1}
_NODES = {"edge-1": "2", "edge-2": "2", "cloud-1": "8"}
#: seconds: duration of an incident, and pause before the next one
_LASTING, _PAUSE = 5.0, 3.0
#: seconds from an incident until all watches have shown it
_REACTION = 3.0
#: seconds without a change at the end, and deadline for the end
_QUIET, PATIENCE = 20.0, 240.0
#: seconds between kills of a scheduler, and between failures of connections
_KILL_EVERY, _CUT_EVERY = 25.0, 17.0
#: statuses of a request that undoes an incident, if the object is gone or another one
_GONE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
#: seconds for the deletion of all objects of a run
_GONE_WITHIN = 90.0


@attrs.frozen
class Plan:
    """Parameters of a run: kubeconfig and context, number and seed of incidents."""

    kubeconfig: Path
    context: str | None
    incidents: int
    seed: int
    #: name of the namespace, of the scheduler, and of everything else that the run creates
    name: str
    #: seconds between kills of a scheduler, and between failures of connections
    kill_every: float = _KILL_EVERY
    cut_every: float = _CUT_EVERY


@attrs.frozen
class Result:
    """Outcome of a run: incidents by name and outcome, faults by kind, violated guarantees."""

    incidents: Counter[tuple[str, str]]
    harm: Counter[str]
    binds: int
    evictions: int
    changes: int
    violations: Sequence[str]
    #: objects that could not be deleted
    left: Sequence[str]

    def report(self) -> Report:
        """Return tables of incidents and of guarantees, and the violations."""
        rows = [(what, outcome, str(n)) for (what, outcome), n in sorted(self.incidents.items())]
        rows += [(what, "injected", str(n)) for what, n in sorted(self.harm.items())]
        counts = Counter(violation.partition(":")[0] for violation in self.violations)
        checks = (
            ("I1", "a pod is bound at most once", f"{self.binds} binds"),
            ("I2", "no bind exceeds a node's capacity", f"{self.binds} binds"),
            ("I3", "migrations leave as many pods Ready", f"{self.evictions} evictions"),
            ("I4", "pods that fit are bound at the end", "at the end"),
            ("I5", "no migration or replica is orphaned", "at the end"),
            ("I6", "nothing is written any more", f"{self.changes} changes"),
            ("log", "no error and no unexpected exit", "two processes"),
        )
        judged = [(name, what, how, str(counts[name])) for name, what, how in checks]
        figures = attrs.asdict(self) | {
            "incidents": {f"{what} {outcome}": n for (what, outcome), n in self.incidents.items()}
        }
        tables = [
            table(("incident", "outcome", "times"), rows, numbers=("times",)),
            table(("", "guarantee", "checked", "violations"), judged, numbers=("violations",)),
        ]
        notes = [f"BROKEN {violation}" for violation in self.violations]
        return Report(figures, tables, notes + [f"not deleted: {what}" for what in self.left])


async def run(plan: Plan, advance: Callable[[], object]) -> Result:
    """Run the incidents, and delete what the run created; `advance` is called after each.

    Raises ClusterError, and ApiError if the kubeconfig's user lacks a right.
    """
    clock, rng = SystemClock(), random.Random(plan.seed)
    with connect_blocking(plan.kubeconfig, plan.context) as send:
        api = WatchedApiServer(send, clock, rng)
        for resource, obj in (
            (NAMESPACES, {"metadata": {"name": plan.name}}),
            (NODES, _build_node(plan.name, "1", plan.name)),
        ):
            api.create(resource, obj, dry_run=True)
        async with (
            await KubernetesCluster.connect(plan.kubeconfig, plan.context) as cluster,
            AsyncExitStack() as stack,
        ):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubedsm-")))
            lines = [await stack.enter_async_context(Line(cluster.server, clock)) for _ in range(2)]
            paths = [
                line.write_kubeconfig(plan.kubeconfig, folder / f"line-{number}", plan.context)
                for number, line in enumerate(lines)
            ]
            options = (
                *("--configmap", f"{plan.name}/kubedsm", *LEASE_OPTIONS),
                *("--leader-elect-resource-namespace", plan.name),
            )
            schedulers = [Scheduler(run_command(p, *options), clock, restarts=True) for p in paths]
            harm = FaultInjector(schedulers, lines, clock, rng, plan.kill_every, plan.cut_every)
            course = _Course(plan, api, clock, rng, schedulers, harm, advance)
            left: Sequence[str] = ()
            try:
                async with asyncio.TaskGroup() as tasks:
                    background = [
                        await api.watch(tasks, cluster, rng, NODES, labels=f"{RUN}={plan.name}"),
                        await api.watch(tasks, cluster, rng, PODS),
                        *[await api.watch(tasks, cluster, rng, each, plan.name) for each in _OWN],
                    ]
                    try:
                        background += course.start_nodes(tasks)
                        await course.play(tasks)
                    finally:
                        await asyncio.gather(*(each.stop() for each in schedulers))
                        left = await delete_all(api, plan.name, clock)
                        for task in background:
                            task.cancel()
            except* ApiError as group:
                raise group.exceptions[0] from None
            return course.result(left)


class _Course:
    """Course of a run: hollow nodes, workloads, incidents, and the oracles' verdict."""

    def __init__(
        self,
        plan: Plan,
        api: WatchedApiServer,
        clock: Clock,
        rng: random.Random,
        schedulers: Sequence[Scheduler],
        harm: FaultInjector,
        advance: Callable[[], object],
    ) -> None:
        self._plan, self._api, self._clock, self._rng = plan, api, clock, rng
        self._schedulers, self._harm, self._advance = schedulers, harm, advance
        self._invariants = Invariants(api, plan.name)
        self._witness = Witness(api)
        self._incidents: Counter[tuple[str, str]] = Counter()
        self._evictions = 0
        self._changed_at = clock.monotonic()
        self._at_end: list[str] = []
        api.store.subscribe(self._observe)

    def start_nodes(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Create the hollow nodes, and start their kubelets and heartbeats. Raises ApiError."""
        names = _name_nodes(self._plan.name)
        kubelet = HollowNodes(self._api)
        for each, cpu in names.items():
            self._api.create(NODES, _build_node(each, cpu, self._plan.name))
        return [
            tasks.create_task(kubelet.run()),
            tasks.create_task(kubelet.send_heartbeats(names)),
        ]

    async def play(self, tasks: asyncio.TaskGroup) -> None:
        """Create the workloads, cause incidents while pods migrate, and judge the end."""
        name = self._plan.name
        hands = Hands(self._api, namespace=name, configuration=ObjectName(name), scheduler=name)
        self._configure(hands, 0)
        for scheduler in self._schedulers:
            tasks.create_task(scheduler.run())
        self._deploy(hands)
        await self._wait_until(lambda: self._bound(hands) >= sum(_WORKLOADS.values()))
        harming = tasks.create_task(self._harm.run())
        for number, what in enumerate(self._draw_incidents(), 1):
            self._deploy(hands)
            self._configure(hands, number)
            await self._clock.sleep(self._rng.uniform(0.5, _PAUSE))
            await self._cause_incident(hands, what)
            self._advance()
        harming.cancel()
        await self._wait_until(lambda: not any(self._list_unsettled(hands)))
        self._at_end = list(self._list_unsettled(hands))

    def result(self, left: Sequence[str]) -> Result:
        log = LogCount.sum(scheduler.log for scheduler in self._schedulers)
        ends = sum(scheduler.ends for scheduler in self._schedulers)
        wrong = [
            *self._invariants.wrong,
            *(f"I3: {what}" for what in self._witness.wrong),
            *self._at_end,
            *(f"log: {n} x {what}" for what, n in log.errors.items()),
            *(["log: a traceback"] * bool(log.tracebacks)),
            *([f"log: {ends} unexpected exits"] * bool(ends)),
        ]
        binds, changes = self._invariants.binds.total(), self._invariants.writes
        harm, evictions = self._harm.done, self._evictions
        return Result(self._incidents, harm, binds, evictions, changes, wrong, left)

    def _draw_incidents(self) -> Iterator[str]:
        """Yield incidents in random order, each before any is repeated."""
        left: list[str] = []
        for _ in range(self._plan.incidents):
            left = left or self._rng.sample(INCIDENT_NAMES, len(INCIDENT_NAMES))
            yield left.pop()

    async def _cause_incident(self, hands: Hands, what: str) -> None:
        pods = hands.list_pods()
        if not pods:
            self._incidents[what, "no pod"] += 1
            return
        # A migration in progress is struck first.
        chosen = self._rng.choice([pod for pod in pods if is_detached(pod)] or pods)
        mine = {key_of(each)[1] for each in self._nodes()}
        where = node_of(chosen) if node_of(chosen) in mine else self._rng.choice(sorted(mine))
        self._excuse_losses()
        outcome, end = "caused", None
        try:
            end = begin_incident(hands, what, chosen["metadata"]["name"], where)
        except ApiError as error:
            outcome = f"refused ({error.status})"
        self._incidents[what, outcome] += 1
        await self._clock.sleep(_LASTING)
        self._excuse_losses()
        if end is not None:
            await self._retry(end)

    async def _retry(self, act: Callable[[], object]) -> None:
        """Undo an incident; an object that is gone already needs no more."""
        for _ in range(5):
            try:
                act()
            except ApiError as error:
                if error.status in _GONE:
                    return
                await self._clock.sleep(1.0)
            else:
                return

    def _deploy(self, hands: Hands) -> None:
        """Create the workloads, or those that an incident has deleted."""
        spec = on_hollow_nodes(hands.namespace)
        spec["tolerations"] += TOLERATIONS
        for app, replicas in _WORKLOADS.items():
            if not self._api.exists(DEPLOYMENTS, hands.namespace, app):
                with suppress(ApiError):
                    hands.create_workload(app, replicas, **spec)

    def _configure(self, hands: Hands, number: int) -> None:
        """Give the edge to another workload each time, so that pods migrate."""
        apps = sorted(_WORKLOADS)
        shares = {app: float(app == apps[number % len(apps)]) for app in apps}
        services = {f"{hands.namespace}/{app}": {"qos": share} for app, share in shares.items()}
        document = {
            "schedulerName": self._plan.name,
            "tiers": {"label": [TIER]},
            "services": services,
        }
        with suppress(ApiError):
            hands.write_configuration(document)

    def _observe(self, change: ObjectChange) -> None:
        """Judge evictions by migrations as the watch shows them."""
        if change.object["metadata"].get("namespace") != self._plan.name:
            return
        self._changed_at = self._clock.monotonic()
        pod, before = change.object, change.previous
        if change.resource is not PODS or before is None or change.type == "DELETED":
            return
        if is_detached(pod) and not is_detached(before):
            self._witness.record_ready(before)
        evicted = reason_of(condition_of(pod, "DisruptionTarget")) == "EvictionByEvictionAPI"
        if evicted and is_detached(pod) and is_terminating(pod) and not is_terminating(before):
            self._evictions += 1
            self._witness.judge_evicted(pod)

    def _excuse_losses(self) -> None:
        until = self._clock.monotonic() + _REACTION
        self._invariants.excused_until = self._witness.excused_until = until

    def _list_unsettled(self, hands: Hands) -> Iterator[str]:
        pods = hands.list_pods()
        yield from out_of_place(self._api, pods, hands.namespace)
        yield from (
            f"I5: {key_of(p)[1]} is detached" for p in pods if is_detached(p) and is_active(p)
        )
        yield from list_selected(self._api)
        if self._clock.monotonic() - self._changed_at < _QUIET:
            yield f"I6: changes in the last {_QUIET:g} s"

    def _bound(self, hands: Hands) -> int:
        return sum(bool(node_of(pod)) for pod in hands.list_pods())

    def _nodes(self) -> list[Object]:
        return [n for n in self._api.list(NODES) if labels_of(n).get(RUN) == self._plan.name]

    async def _wait_until(self, condition: Callable[[], object]) -> None:
        deadline = self._clock.monotonic() + PATIENCE
        while not condition() and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.25)


def _name_nodes(run: str) -> dict[str, str]:
    """Return the CPU of each hollow node by name."""
    return {f"{run}-{name}": cpu for name, cpu in _NODES.items()}


def _build_node(name: str, cpu: str, run: str) -> Object:
    return build_node(name, cpu, run, {TIER: "edge" if "edge" in name else "cloud"})


async def delete_all(api: WatchedApiServer, name: str, clock: Clock) -> list[str]:
    """Delete the namespace, hollow nodes and Leases of a run; return what is left after 90 s."""
    deadline = clock.monotonic() + _GONE_WITHIN
    while (left := list(_delete_rest(api, name))) and clock.monotonic() < deadline:
        await clock.sleep(1.0)
    return left


def _delete_rest(api: WatchedApiServer, name: str) -> Iterator[str]:
    """Request each deletion again, and yield the objects that still exist."""
    names = _name_nodes(name)
    for path in (
        path_to(NAMESPACES, "", name),
        *(path_to(NODES, "", each) for each in names),
        *(path_to(LEASES, NODE_LEASES, each) for each in names),
    ):
        try:
            api.call("DELETE", path)
            yield path
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                yield path
    with suppress(ApiError):
        for pod in api.call("GET", path_to(PODS, name))["items"]:
            path = path_to(PODS, *key_of(pod))
            # Finalizers of incidents, and grace periods that no kubelet ends any more.
            api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
            api.call("DELETE", path, {"gracePeriodSeconds": 0})
