"""What the options of leader election come to."""

import socket

import attrs
import click

from kubedsm.app.leader_election import Elector, LeaseTimes, identity_of
from kubedsm.kube.calls.leases import LeaseName
from kubedsm.kube.client.port import Cluster, is_name
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.process.clock import Clock

#: seconds; nobody waits longer than a day for a dead leader
LONGEST = 86_400.0


@attrs.frozen(slots=True)
class Election:
    """What the options say."""

    lease: LeaseName
    times: LeaseTimes

    def elector(self, cluster: Cluster, clock: Clock) -> tuple[Elector, WriteGate]:
        """A candidate of its own, and the cluster to be written to only through its gate."""
        gate = WriteGate(cluster, clock)
        identity = identity_of(socket.gethostname())
        return Elector(cluster, gate, clock, self.lease, self.times, identity), gate


def election_of(
    *,
    leader_elect: bool,
    lease_duration: float,
    renew_deadline: float,
    retry_period: float,
    resource_namespace: str,
    resource_name: str,
) -> Election | None:
    """What the options ask for: None for no election. Raises UsageError."""
    times = LeaseTimes(lease_duration, renew_deadline, retry_period)
    _check(times, resource_namespace, resource_name)
    return Election(LeaseName(resource_namespace, resource_name), times) if leader_elect else None


def _check(times: LeaseTimes, namespace: str, name: str) -> None:
    """Raises UsageError, as kube-scheduler refuses such settings."""
    flag = "--leader-elect"
    if times.retry_period <= 0:
        raise click.UsageError(f"{flag}-retry-period must be more than 0")
    if times.renew_deadline <= times.retry_period:
        raise click.UsageError(f"{flag}-renew-deadline must be more than {flag}-retry-period")
    if not max(1.0, times.renew_deadline) < times.duration <= LONGEST:
        raise click.UsageError(
            f"{flag}-lease-duration must be more than {flag}-renew-deadline and 1s, and at most 24h"
        )
    for option, value in (("namespace", namespace), ("name", name)):
        if not is_name(value):
            raise click.UsageError(f"{flag}-resource-{option}: {value!r} is not such a name")
