"""Command-line options shared by commands, and values composed of option groups.

`--help` and completion import this module: top-level imports are minimal.
"""

import re
from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import attrs
import click

from kubedsm.config.duration import DurationError, parse_duration
from kubedsm.kube.client.port import ObjectName, is_name
from kubedsm.terminal.running import nearest

if TYPE_CHECKING:
    from kubedsm.app.leader_election import Elector
    from kubedsm.config.settings import Configuration
    from kubedsm.dashboard.server.access import Access
    from kubedsm.kube.client.port import Cluster
    from kubedsm.process.clock import Clock

LOOPBACK = "127.0.0.1"
#: port on which `kubedsm run` answers `kubedsm explain`
DIAGNOSTICS_PORT = 10270
#: seconds for migrations in progress to end or be rolled back after an interrupt
GRACE = 25.0
GREATEST_PORT = 65535
_DIAGNOSTICS = f"http://{LOOPBACK}:{DIAGNOSTICS_PORT}"
#: seconds: maximum wait for a vanished leader
_LONGEST_LEASE = 86_400.0
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class DurationType(click.ParamType[float]):
    """Command option type: a duration such as `15s`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse_duration(value)
        except DurationError as error:
            self.fail(str(error), param, ctx)


class OneOf(click.Choice[str]):
    """Command option type: a choice whose error message suggests the nearest name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(error.message + nearest(value, self.choices), param, ctx)


class SwitchType(click.ParamType[bool]):
    """Command option type: `true` or `false`, as Go programs read them."""

    name = "boolean"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).lower() not in ("true", "false"):
            self.fail(f"{value!r} is not true or false", param, ctx)
        return str(value).lower() == "true"


def address(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Parse HOST:PORT; an empty host means all addresses of this machine."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    valid = colon and port.isascii() and port.isdecimal() and len(port) <= len("65535")
    bracketed = host.startswith("[") and host.endswith("]")
    if not valid or int(port) > GREATEST_PORT or bracketed is not (":" in host):
        raise click.BadParameter(f"{value!r} is not HOST:PORT, such as 127.0.0.1:10271")
    return host.strip("[]"), int(port)


def _parse_server(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        url = urlsplit(value)
        host, _port = url.hostname, url.port
    except ValueError:
        host = None
    if not re.match("https?://", value) or not host:
        raise click.BadParameter(f"{value} is not an address such as {_DIAGNOSTICS}")
    return value


def check_namespace(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check the name of a namespace."""
    if value is not None and not is_name(value):
        raise click.BadParameter(f"{value!r} is not a name of a namespace, such as kubedsm")
    return value


def _parse_config_map(
    context: click.Context, _: click.Parameter, value: str | None
) -> ObjectName | None:
    if value is None or context.resilient_parsing:
        return None
    try:
        return ObjectName.read(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def dump_file(text: str, **settings: Any) -> Decorator:
    """Decorator: add the option `--from`, a file with cluster objects as `kubectl get -o json`
    prints them.
    """
    path = click.Path(allow_dash=True)
    text = f"{text}; - for standard input."
    return click.option("--from", "dump_path", type=path, help=text, **settings)


output, output_or_yaml, output_of_names, output_of_list = (
    click.option("-o", "--output", type=OneOf(formats), default="text", help="Output format.")
    for formats in (
        ["text", "json"],
        ["text", "json", "yaml"],
        ["text", "json", "yaml", "name"],
        ["text", "wide", "json", "yaml", "name"],
    )
)


def _config_file(default: str) -> Decorator:
    return click.option(
        "--config",
        "config_path",
        type=click.Path(dir_okay=False, allow_dash=True),
        show_default=default,
        help="Configuration file (docs/reference/configuration.md), or a ConfigMap's; - for"
        " standard input.",
    )


config_file = _config_file("none: every key has its own default")
#: of commands that ask a cluster
cluster_config_file = _config_file("that of the cluster; with a dump, every key's own default")
kubeconfig_file = click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    show_default="$KUBECONFIG, in a pod its service account, else ~/.kube/config",
    help="Kubeconfig file.",
)
kubeconfig_context = click.option(
    "--context", show_default="the current one", help="Context of the kubeconfig."
)
scheduler_address = click.option(
    "--server",
    default=_DIAGNOSTICS,
    callback=_parse_server,
    help="Address of the running scheduler: `kubedsm run --diagnostics-port`.",
)


def _config_map(text: str, **settings: Any) -> Decorator:
    return click.option(
        "--configmap",
        "config_map",
        metavar="NAMESPACE/NAME",
        callback=_parse_config_map,
        help=text,
        **settings,
    )


config_map_name = _config_map(
    "ConfigMap whose key config.yaml is the configuration.", show_default="none"
)


def combine(*options: Decorator) -> Decorator:
    """Combine several option decorators into one decorator."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def pod_selection(namespace: str, everywhere: str, selector: str) -> Decorator:
    """Return the options -n, -A and -l, with their help texts; `everywhere` describes the default
    of -n.
    """
    return combine(
        click.option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            callback=check_namespace,
            show_default=everywhere,
            help=namespace,
        ),
        click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="The default."),
        click.option("-l", "--selector", metavar="SELECTOR", show_default="none", help=selector),
    )


def collect(parameter: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Merge several command options into one argument `parameter`, constructed by `make` from their
    values.
    """
    names = signature(make).parameters

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run_collected(**given: Any) -> Any:
            made = make(**{name: given.pop(name) for name in names if name in given})
            return command(**given, **{parameter: made})

        return combine(*options)(run_collected)

    return add


class Kubeconfig(NamedTuple):
    """Cluster that the options --kubeconfig and --context select."""

    kubeconfig_path: Path | None = None
    context: str | None = None


kubeconfig = collect("kubeconfig", Kubeconfig, kubeconfig_file, kubeconfig_context)


@attrs.frozen(slots=True)
class Election:
    """Leader-election options. Raises UsageError for values that kube-scheduler refuses, too."""

    leader_elect: bool
    lease_duration: float
    renew_deadline: float
    retry_period: float
    resource_namespace: str
    resource_name: str

    def __attrs_post_init__(self) -> None:
        flag = "--leader-elect"
        if self.retry_period <= 0:
            raise click.UsageError(f"{flag}-retry-period must be more than 0")
        if self.renew_deadline <= self.retry_period:
            raise click.UsageError(f"{flag}-renew-deadline must be more than {flag}-retry-period")
        if not max(1.0, self.renew_deadline) < self.lease_duration <= _LONGEST_LEASE:
            raise click.UsageError(
                f"{flag}-lease-duration must be more than {flag}-renew-deadline and 1s,"
                " and at most 24h"
            )
        for option in ("namespace", "name"):
            value = getattr(self, f"resource_{option}")
            if not is_name(value):
                raise click.UsageError(f"{flag}-resource-{option}: {value!r} is not such a name")

    def join(self, cluster: "Cluster", clock: "Clock") -> "tuple[Elector | None, Cluster]":
        """Return a leader-election candidate, and the cluster client behind its write gate.

        Without leader election there is no candidate, and the cluster is always open.
        """
        if not self.leader_elect:
            return None, cluster
        import socket

        from kubedsm.app.leader_election import Elector, LeaseTimes, identity_of
        from kubedsm.kube.client.write_gate import WriteGate

        gate = WriteGate(cluster, clock)
        lease = ObjectName(self.resource_namespace, self.resource_name)
        times = LeaseTimes(self.lease_duration, self.renew_deadline, self.retry_period)
        return Elector(cluster, gate, clock, lease, times, identity_of(socket.gethostname())), gate


def _lease_option(name: str, default: str, text: str, kind: Any = str) -> Decorator:
    parameter = name.replace("-", "_")
    return click.option(f"--leader-elect-{name}", parameter, default=default, type=kind, help=text)


#: as kube-scheduler names them
leader_election = collect(
    "election",
    Election,
    click.option(
        "--leader-elect",
        type=SwitchType(),
        is_flag=False,
        flag_value="true",
        default="true",
        help="Act only while holding a Lease, so that one of several processes acts at a time.",
    ),
    _lease_option(
        "lease-duration",
        "15s",
        "Time after which a standby may take a Lease that is not renewed.",
        DurationType(),
    ),
    _lease_option(
        "renew-deadline",
        "10s",
        "Time without a renewal after which a leader no longer counts as one. It stops writing"
        " after a fifth of the lease duration, if that is less.",
        DurationType(),
    ),
    _lease_option(
        "retry-period",
        "2s",
        "Longest time between two renewals; a standby reads the Lease twice as often.",
        DurationType(),
    ),
    _lease_option("resource-namespace", "kubedsm", "Namespace of the Lease."),
    _lease_option("resource-name", "kubedsm", "Name of the Lease."),
)


@attrs.frozen(slots=True)
class PageOptions:
    """Options of the dashboard page: address, permitted host names, and token for browsers."""

    access: "Access"
    #: None for the command's usual address
    address: tuple[str, int] | None = None
    #: name of the cluster on the page; empty for the usual name
    name: str = ""
    #: folder of the history on disk
    history: Path | None = None


def read_page_options(
    page: bool,
    page_address: tuple[str, int] | None,
    page_token_file: Path | None,
    page_hosts: tuple[str, ...],
    page_name: str,
    page_history: Path | None,
) -> PageOptions | None:
    """Validate the dashboard page's options; None if no page is requested. Raises UsageError."""
    if page_address is None and page_token_file is not None:
        raise click.UsageError("--page-token-file is about --page-address: loopback needs no token")
    if page_address is None and not page:
        given = {"host": page_hosts, "name": page_name, "history": page_history}
        for option in (name for name, value in given.items() if value):
            raise click.UsageError(f"--page-{option} is about --page or --page-address")
        return None
    from kubedsm.dashboard.server import access
    from kubedsm.kube.client.environment import is_loopback

    for host in page_hosts:
        if not access.is_name(host):
            raise click.UsageError(f"--page-host: {host!r} is not a host's name, without a port")
    if page_address is not None and page_token_file is None and not is_loopback(page_address[0]):
        raise click.UsageError("--page-address beyond loopback needs --page-token-file")
    try:
        token = None if page_token_file is None else access.TokenFile(page_token_file)
    except access.TokenFileError as error:
        raise click.UsageError(f"--page-token-file: {error}") from None
    return PageOptions(access.Access(page_hosts, token), page_address, page_name, page_history)


def page(usual_address: str) -> Decorator:
    """Decorator: add the dashboard page's command-line options; the command receives `page:
    PageOptions | None`.
    """
    return collect(
        "page",
        read_page_options,
        click.option(
            "--page", is_flag=True, help="Serve a page of the cluster, to this machine only."
        ),
        click.option(
            "--page-address",
            metavar="HOST:PORT",
            callback=address,
            show_default=usual_address,
            help="Serve the page there; beyond loopback only with --page-token-file.",
        ),
        click.option(
            "--page-token-file",
            type=click.Path(dir_okay=False, path_type=Path),
            show_default="none",
            help="Bearer token that the page at --page-address requires; the file may change.",
        ),
        click.option(
            "--page-host",
            "page_hosts",
            multiple=True,
            metavar="NAME",
            show_default="none",
            help="Additional host name of the page, next to localhost; repeatable.",
        ),
        click.option(
            "--page-name",
            default="",
            metavar="NAME",
            show_default="the kubeconfig's context, or the beginning of the cluster's uid",
            help="Name of the cluster on the page.",
        ),
        click.option(
            "--page-history",
            type=click.Path(file_okay=False, path_type=Path),
            show_default="none: the history ends with the process",
            help="Directory for the page's history, at most 16 MB, which is read at the start.",
        ),
    )


#: 0, 1 and 2 are the exit codes of all commands
EXIT_CODES = (
    "Exit codes: 0, all migrations are done, or none was needed; 3, some were not done or were"
    " rolled back; 4, migrations are paused; 5, the cluster has changed and the proposal is stale;"
    " 1 and 2, as always, an error and wrong usage."
)
migration_requests = combine(
    _config_map(
        "The scheduler's ConfigMap; approvals go to the one whose name ends in -approvals.",
        default=str(ObjectName()),
    ),
    click.option(
        "--wait",
        type=DurationType(),
        default="0s",
        help="Time to wait for the end of a pause of migrations.",
    ),
)


@attrs.frozen
class MigrationOptions:
    """Options of commands for planning and executing migrations, for a dump or a cluster."""

    dump_path: str | None
    config_path: str | None
    kubeconfig: Kubeconfig
    #: address of a possibly running scheduler
    server: str
    carry_out: bool
    config_map: ObjectName
    #: seconds
    wait: float
    election: Election
    output: str

    def load_configuration(self) -> "Configuration":
        """Check options, and load the configuration: the file, or else that of the cluster. Raises
        UsageError, DocumentError.
        """
        from kubedsm.cli.console import log_to
        from kubedsm.cli.inputs import configuration_at

        if self.dump_path is not None and self.carry_out:
            raise click.UsageError("--apply needs a cluster, not a dump")
        log_to(level="ERROR")
        if self.dump_path is not None or self.config_path is not None:
            return configuration_at(self.config_path)

        from kubedsm.cli.cluster import configuration_in

        return configuration_in(self.config_map, self.kubeconfig)


def migration_options(from_help: str) -> Decorator:
    """Decorator: add the options of MigrationOptions to a command, which receives `options`."""
    return collect(
        "options",
        MigrationOptions,
        dump_file(
            f"{from_help} what `kubectl get nodes,pods -A -o json` printed",
            show_default="none: ask the cluster",
        ),
        cluster_config_file,
        kubeconfig,
        scheduler_address,
        click.option(
            "--apply",
            "carry_out",
            is_flag=True,
            help="Execute the migrations, and wait for their end.",
        ),
        migration_requests,
        leader_election,
        output,
    )


@attrs.frozen
class AdoptionOptions:
    """Options of `kubedsm opt-in` and `kubedsm opt-out`."""

    targets: tuple[str, ...]
    namespace: str | None
    kubeconfig: Kubeconfig
    config_map: ObjectName
    restart: bool
    dry_run: bool
    force: bool = False


@attrs.frozen
class RemovalOptions:
    """Options of `kubedsm uninstall`."""

    kubeconfig: Kubeconfig
    config_map: ObjectName
    carry_out: bool
    opt_out: bool
    output: str


scheduler_config_map = _config_map(
    "ConfigMap of the scheduler; its Lease, Deployment and ServiceAccount have the same name.",
    default=str(ObjectName()),
)
