"""The options of leader election, as kube-scheduler names them."""

import socket
from collections.abc import Callable
from typing import Any

import attrs
import click

from kubedsm.clock import Clock
from kubedsm.cluster.calls.leases import LeaseName
from kubedsm.cluster.client.paths import is_name
from kubedsm.cluster.client.port import Cluster
from kubedsm.cluster.client.write_gate import WriteGate
from kubedsm.configuration.duration import DurationError, format_duration, parse_duration
from kubedsm.runtime.leader_election import Elector, LeaseTimes, identity_of

#: seconds; nobody waits longer than a day for a dead leader
LONGEST = 86_400.0
_DEFAULTS = LeaseTimes()


class DurationType(click.ParamType[float]):
    """Seconds, written as `15s`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse_duration(value)
        except DurationError as error:
            self.fail(str(error), param, ctx)


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


def leader_election(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, which are the arguments of `election_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _duration(flag: str, name: str, default: float, text: str) -> Callable[..., Any]:
    return click.option(
        flag,
        name,
        type=DurationType(),
        default=format_duration(default),
        show_default=True,
        help=text,
    )


_OPTIONS = (
    click.option(
        "--leader-elect",
        type=bool,
        is_flag=False,
        flag_value="true",
        default="true",
        show_default=True,
        help="Act only while holding a Lease, so that of several processes one acts at a time.",
    ),
    _duration(
        "--leader-elect-lease-duration",
        "lease_duration",
        _DEFAULTS.duration,
        "How long a Lease that is not renewed is left to its holder.",
    ),
    _duration(
        "--leader-elect-renew-deadline",
        "renew_deadline",
        _DEFAULTS.renew_deadline,
        "After so long without a renewal a leader does not count as one; it writes nothing any"
        " more after a fifth of the lease duration, if that is less.",
    ),
    _duration(
        "--leader-elect-retry-period",
        "retry_period",
        _DEFAULTS.retry_period,
        "Time between two renewals at most; a standby looks twice as often.",
    ),
    click.option(
        "--leader-elect-resource-namespace",
        "resource_namespace",
        default=LeaseName().namespace,
        show_default=True,
        help="Where the Lease is.",
    ),
    click.option(
        "--leader-elect-resource-name",
        "resource_name",
        default=LeaseName().name,
        show_default=True,
        help="What the Lease is called.",
    ),
)


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
