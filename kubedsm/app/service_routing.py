"""Warnings about Services that route requests to any site, though their workloads have demand by
edge site.

Replicas near their users are of no use to requests that a Service spreads over all its endpoints.
The mirror has no Services: they are listed every `PERIOD` seconds while a workload has demand by
site. Without the right to list Services, nothing is checked.
"""

from collections.abc import Iterable, Iterator
from typing import NoReturn

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.events.event_writer import WorkloadEvents
from kubedsm.explain.event_notes import Note
from kubedsm.kube.calls import reads
from kubedsm.kube.client.port import ClusterError, Forbidden
from kubedsm.model.model import Workload
from kubedsm.model.selecting import Service
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.policies.kubedsm import KubeDSM

log = structlog.get_logger()

#: seconds between two lists of all Services
PERIOD = 300.0


def list_spreading(
    services: Iterable[Service], snapshot: Snapshot, policy: KubeDSM
) -> Iterator[tuple[Service, Workload]]:
    """Yield the Services without zone-aware routing whose workload has demand by edge site, with
    one such workload.
    """
    targets = policy.qos_targets_in(snapshot)
    sited = {w for w in snapshot.census.shares if targets(w).has_users}
    pods = [pod for pod in snapshot.pods.values() if pod.workload in sited] if sited else []
    for service in services:
        covered = {} if service.prefers_zone else {p.workload: p for p in pods if service.covers(p)}
        yield from ((service, workload) for workload in sorted(covered))


def routing_command(service: Service) -> str:
    """Return the command that keeps a Service's requests in their zone (Kubernetes 1.31)."""
    patch = """'{"spec":{"trafficDistribution":"PreferClose"}}'"""
    return f"kubectl patch service {service.name} -n {service.namespace} -p {patch}"


@attrs.define
class ServiceRouting(Controller):
    """Warn once about each Service that does not prefer pods in the client's zone, though its
    workload has demand by edge site.
    """

    events: WorkloadEvents
    #: names of Services, with their workloads, as last listed
    spreading: frozenset[tuple[str, Workload]] = attrs.field(default=frozenset(), init=False)

    async def run(self) -> NoReturn:
        """Check the Services periodically, until cancelled."""
        while True:
            await self.clock.sleep(PERIOD)
            await self._check()

    async def _check(self) -> None:
        policy = self.configuration.current.policy
        _, targets = policy.resolve(snapshot := self.mirror.snapshot())
        if not any(targets(workload).has_users for workload in snapshot.census.shares):
            self.spreading = frozenset()
            return
        try:
            services = await reads.list_services(self.cluster)
        except Forbidden:
            return  # the right belongs to migrations, which may be off
        except ClusterError as error:
            self.throttle.log(log.warning, "services not listed", error)
            return
        found = set[tuple[str, Workload]]()
        for service, workload in list_spreading(services, self.mirror.snapshot(), policy):
            found.add((str(service), workload))
            if (str(service), workload) not in self.spreading:
                text = f"Service {service} sends requests to any site; {routing_command(service)}"
                log.warning("service ignores sites", workload=str(workload), error=text)
                note = Note("ServiceIgnoresSites", text, warning=True, action="Routing")
                self.events.add_note(workload, note)
        self.spreading = frozenset(found)
