"""State of a cluster and of KubeDSM in it, read once, for `kubedsm check` and `kubedsm status`.

A part that cannot be read does not end the reading: its reason is in `ClusterState.errors`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import aiohttp
import attrs
from prometheus_client.parser import text_string_to_metric_families

from kubedsm.app.leader_election import host_of
from kubedsm.app.pause_switch import explain_pause
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import KEY, Configuration, list_deprecated, load
from kubedsm.execution.migration_record import read_begun
from kubedsm.kube.calls import adoption, inspection, leases, reads
from kubedsm.kube.calls.adoption import Template
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.calls.inspection import DetachedPod, Installed, WaitingPod
from kubedsm.kube.calls.leases import Term
from kubedsm.kube.calls.permissions import FEATURES, Right, unused_features
from kubedsm.kube.client.port import TIMEOUT, Cluster, ClusterError, NotFound, ObjectName
from kubedsm.kube.wire.errors import UNREADABLE
from kubedsm.model.model import Pod, Workload
from kubedsm.model.selecting import Budget, Service
from kubedsm.model.snapshot import Snapshot
from kubedsm.observability.gauges import LABELS
from kubedsm.process.clock import Clock

Part = Literal[
    "user",
    "configuration",
    "snapshot",
    "rights",
    "lease",
    "deployment",
    "waiting",
    "detached",
    "budgets",
    "services",
    "scheduler",
    "begun",
    "templates",
    "adoption",
]
#: seconds, longer than a leader's pause between two renewals
RENEWAL = 3.0
#: access reviews in flight
_AT_ONCE = 8
#: rights of a user who installs the manifests
INSTALL_RIGHTS = (
    Right("create", "", "namespaces"),
    Right("create", "", "serviceaccounts"),
    Right("create", "", "configmaps"),
    Right("create", "apps", "deployments"),
    Right("create", "rbac.authorization.k8s.io", "clusterroles"),
    Right("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    Right("create", "scheduling.k8s.io", "priorityclasses"),
    Right("patch", "", "nodes"),
)


@attrs.frozen
class SchedulerProcess:
    """Health and metrics of a running scheduler, as it reports them."""

    #: pod, or URL
    where: str
    ready: bool
    #: text of /readyz
    readiness: str = ""
    version: str = ""
    #: sums of samples by metric name
    metrics: Mapping[str, float] = attrs.field(factory=dict)
    #: kinds of objects whose watch fails
    troubled: tuple[str, ...] = ()
    #: QoS targets, which may follow measured response times
    targets: Mapping[Workload, float] = attrs.field(factory=dict)


@attrs.frozen
class ClusterState:
    """Cluster state that the checks and the overview evaluate; defaults stand for absent parts."""

    server: str
    #: of ConfigMap, Lease, Deployment and ServiceAccount
    name: ObjectName
    #: seconds since the epoch, by this machine's clock
    now: float
    #: version of this program
    client: str
    errors: Mapping[str, str] = attrs.field(factory=dict)
    version: str = ""
    user: str = ""
    #: API server's clock less this machine's, in seconds; None if unknown
    skew: float | None = None
    configuration: Configuration = attrs.field(factory=Configuration)
    #: a ConfigMap has a document
    configured: bool = False
    #: reason for an invalid document
    refusal: str = ""
    #: why the ConfigMap pauses migrations; empty if it does not
    pause: str = ""
    #: a line for each deprecated key of the document, with the remedy
    deprecated: Sequence[str] = ()
    snapshot: Snapshot = attrs.field(factory=lambda: Snapshot({}, {}, {}, {}))
    #: missing rights by feature, in words
    denied: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    #: content of the Lease; None without a Lease
    term: Term | None = None
    #: the Lease, old by its holder's clock, was renewed during `RENEWAL`
    renews: bool = False
    #: None without a Deployment
    deployment: Installed | None = None
    waiting: Sequence[WaitingPod] = ()
    detached: Sequence[DetachedPod] = ()
    budgets: Sequence[Budget] = ()
    services: Sequence[Service] = ()
    #: recorded migrations of the last day, for budgets
    begun: Sequence[tuple[Workload, float]] = ()
    templates: Sequence[Template] = ()
    #: namespaces with the label for opting in; whether its policy is bound, None for unknown
    opted_in: Sequence[str] = ()
    has_policy: bool | None = None
    #: None if no process answers
    scheduler: SchedulerProcess | None = None

    @property
    def own_pods(self) -> list[Pod]:
        """Unfinished pods of this scheduler."""
        pods, ours = self.snapshot.pods.values(), self.snapshot.scheduler_name
        return [pod for pod in pods if pod.scheduler_name == ours and not pod.finished]

    @property
    def own_waiting(self) -> list[WaitingPod]:
        """Pods of this scheduler without a node."""
        return [pod for pod in self.waiting if pod.scheduler == self.snapshot.scheduler_name]

    @property
    def leader(self) -> str:
        """Leading host, in a cluster a pod; empty without a leader."""
        return host_of(self.term.holder) if self.term and self.is_led else ""

    @property
    def pause_reason(self) -> str:
        """Reason why migrations are paused, from the ConfigMap or else the scheduler; empty if they
        are not.
        """
        metrics = self.scheduler.metrics if self.scheduler else {}
        return self.pause or "migrations are paused" * bool(metrics.get("kubedsm_paused"))

    @property
    def lease_age(self) -> float | None:
        """Seconds since the Lease was renewed, by the API server's clock; None if unknown."""
        renewed = self.term.renewed_at if self.term else None
        return None if renewed is None else self.now + (self.skew or 0.0) - renewed

    @property
    def is_led(self) -> bool:
        """True if the Lease has a holder that renews it, or did so within twice its duration."""
        term, age = self.term, self.lease_age
        if term is None or not term.holder:
            return False
        return self.renews or age is None or age <= 2 * (term.seconds or 0.0)


#: fields of ClusterState
Fields = dict[str, Any]
Metrics = Callable[[str], Awaitable[tuple[int, str]]]


@attrs.frozen
class Gatherer:
    """Reader of a cluster's state: one request for each part (such as nodes, Lease or RBAC rights),
    all at the same time.
    """

    cluster: ExplainedCluster
    name: ObjectName
    clock: Clock
    client: str
    #: lists nodes and pods
    read_snapshot: Callable[[Cluster, Configuration], Awaitable[Snapshot]]
    #: URL of a scheduler's metrics outside the cluster; empty for the leader's pod
    metrics_url: str = ""

    async def gather(self, parts: Sequence[Part], *, installing: bool = False) -> ClusterState:
        """Read the required parts of the cluster state. Raises ClusterError if the API server is
        unreachable.

        installing: `rights` are this user's rights to install, not the scheduler's.
        """
        state = ClusterState(self.cluster.server, self.name, self.clock.wall(), self.client)
        version = await reads.version(self.cluster)
        state = attrs.evolve(state, version=version)
        # The configuration determines tiers and features; the leader is in the Lease.
        first: tuple[Part, ...] = ("user", "configuration", "lease")
        state = await self._read_parts(state, [p for p in first if p in parts], installing)
        if state.term is not None and state.term.holder and not state.is_led:
            state = await self._await_renewal(state, state.term)
        return await self._read_parts(state, [p for p in parts if p not in first], installing)

    async def _read_parts(
        self, state: ClusterState, parts: Sequence[Part], installing: bool
    ) -> ClusterState:
        #: parts of one field each, whose default stands for an absent object or resource
        objects: dict[Part, Callable[[Cluster], Awaitable[Any]]] = {
            "snapshot": lambda cluster: self.read_snapshot(cluster, state.configuration),
            "deployment": lambda cluster: inspection.read_installed(cluster, self.name),
            "waiting": inspection.list_waiting,
            "detached": inspection.list_detached,
            "budgets": reads.list_budgets,
            "services": reads.list_services,
            "templates": adoption.list_templates,
            "begun": lambda _: self._read_begun(state),
        }
        readers: dict[Part, Callable[[], Awaitable[Fields]]] = {
            "user": self._read_user,
            "configuration": self._read_configuration,
            "lease": self._read_lease,
            "rights": lambda: self._review_rights(state, installing=installing),
            "scheduler": lambda: self._read_scheduler(state),
            "adoption": self._read_adoption,
        }
        fields, errors = Fields(), dict(state.errors)

        async def read(part: Part) -> None:
            try:
                if part in readers:
                    fields.update(await readers[part]())
                else:
                    with suppress(NotFound):
                        fields[part] = await objects[part](self.cluster)
            except (ClusterError, OSError, TimeoutError) as error:
                errors[part] = " ".join(str(error).split()) or type(error).__name__

        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(read(part))
        return attrs.evolve(state, errors=errors, **fields)

    async def _read_user(self) -> Fields:
        try:
            user, at = await inspection.identify(self.cluster)
        except NotFound:  # before Kubernetes 1.28
            return {}
        # The API server's time has whole seconds.
        return {"user": user, "skew": None if at is None else at + 0.5 - self.clock.wall()}

    async def _read_configuration(self) -> Fields:
        found = await reads.get_config_map(self.cluster, self.name)
        if found is None:
            return {}
        fields: Fields = {"configured": KEY in found.data, "pause": explain_pause(found)}
        if KEY not in found.data:
            return fields
        try:
            configuration = load(found.data[KEY], f"ConfigMap {self.name}, {KEY}")
        except DocumentError as error:
            return {**fields, "refusal": str(error)}
        deprecated = list_deprecated(found.data[KEY])
        return {**fields, "configuration": configuration, "deprecated": deprecated}

    async def _read_lease(self) -> Fields:
        found = await leases.read(self.cluster, self.name)
        return {} if found is None else {"term": found.term}

    async def _await_renewal(self, state: ClusterState, term: Term) -> ClusterState:
        """Read an old Lease again: its holder may have a slow clock."""
        await self.clock.sleep(RENEWAL)
        again = await self._read_parts(state, ["lease"], installing=False)
        renews = again.term is not None and again.term.renewed != term.renewed
        return attrs.evolve(again, renews=renews, now=self.clock.wall())

    async def _review_rights(self, state: ClusterState, *, installing: bool) -> Fields:
        if installing:
            return await self._review({"install": INSTALL_RIGHTS}, "")
        unused = unused_features(state.configuration)
        features = {f.name: f.rights for f in FEATURES if f.name not in unused}
        account = inspection.service_account_name(self.name)
        # The ServiceAccount itself may review itself, without the right to review others.
        return await self._review(features, "" if state.user == account else account)

    async def _review(self, features: Mapping[str, Sequence[Right]], user: str) -> Fields:
        rights = list(dict.fromkeys(right for each in features.values() for right in each))
        turns, allowed = asyncio.Semaphore(_AT_ONCE), dict[Right, bool]()
        errors: list[Exception] = []

        async def review(right: Right) -> None:
            async with turns:
                if errors:
                    return
                try:
                    allowed[right] = await inspection.is_allowed(
                        self.cluster, right, self.name, user
                    )
                except ClusterError as error:
                    errors.append(error)

        async with asyncio.TaskGroup() as tasks:
            for right in rights:
                tasks.create_task(review(right))
        if errors:
            raise errors[0]
        return {
            "denied": {
                name: [str(right) for right in each if not allowed[right]]
                for name, each in features.items()
            }
        }

    async def _read_adoption(self) -> Fields:
        return {
            "opted_in": await adoption.list_opted_in(self.cluster),
            "has_policy": await adoption.has_policy(self.cluster),
        }

    async def _read_begun(self, state: ClusterState) -> list[tuple[Workload, float]]:
        if not state.configuration.migration.budget.limited:
            return []
        found = await leases.read(self.cluster, self.name.migrations)
        try:
            return read_begun(found, state.now)
        except UNREADABLE:
            return []

    async def _read_scheduler(self, state: ClusterState) -> Fields:
        if self.metrics_url:
            return {"scheduler": await _read_process(self.metrics_url, self._get_direct)}
        if not state.leader:
            return {}

        async def get(path: str) -> tuple[int, str]:
            # Not explained: the answer of a scheduler is no API object.
            return await inspection.read_of_scheduler(
                self.cluster.cluster, self.name.namespace, state.leader, path
            )

        return {"scheduler": await _read_process(f"pod {state.leader}", get)}

    async def _get_direct(self, path: str) -> tuple[int, str]:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        query = "?verbose" if path == "readyz" else ""
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.metrics_url.rstrip('/')}/{path}{query}") as answer,
            ):
                return answer.status, await answer.text()
        except aiohttp.ClientError as error:
            raise ConnectionError(f"{self.metrics_url}: {error}") from None


async def _read_process(where: str, get: Metrics) -> SchedulerProcess:
    status, readiness = await get("readyz")
    _, text = await get("metrics")
    sums: dict[str, float] = {}
    version, troubled, targets = "", list[str](), dict[Workload, float]()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
                if sample.name == "kubedsm_build_info":
                    version = sample.labels.get("version", "")
                if sample.name == "kubedsm_watch_troubled" and sample.value:
                    troubled.append(sample.labels.get("kind", ""))
                if sample.name == "kubedsm_workload_promised_edge_share":
                    targets[Workload(*map(sample.labels.__getitem__, LABELS))] = sample.value
    except (ValueError, KeyError):
        raise ConnectionError(f"{where} does not answer with metrics") from None
    healthy = status == 200  # noqa: PLR2004
    return SchedulerProcess(where, healthy, readiness, version, sums, tuple(troubled), targets)
