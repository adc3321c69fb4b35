"""The options that commands share. Who only asks for help imports them, too: it is little."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from kubedsm.config.duration import DurationError, parse_duration
from kubedsm.terminal.running import nearest

LOOPBACK = "127.0.0.1"
#: where `kubedsm run` tells of its decisions
DIAGNOSTICS_PORT = 10270
GREATEST_PORT = 65535
_DIAGNOSTICS = f"http://{LOOPBACK}:{DIAGNOSTICS_PORT}"
#: what adds options to a command
_Adding = Callable[[Callable[..., Any]], Callable[..., Any]]


def address(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Read HOST:PORT; without a host it is all addresses of this machine."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    valid = colon and port.isascii() and port.isdecimal() and len(port) <= len("65535")
    bracketed = host.startswith("[") and host.endswith("]")
    if not valid or int(port) > GREATEST_PORT or bracketed is not (":" in host):
        raise click.BadParameter(f"{value!r} is not HOST:PORT, such as 127.0.0.1:10271")
    return host.strip("[]"), int(port)


def require_extra(purpose: str, library: str, extra: str) -> None:
    """Refuse a command whose optional library is not installed, before it does anything."""
    try:
        import_module(library)
    except ImportError:
        raise click.UsageError(
            f"{purpose} needs {library}: pip install 'kubedsm[{extra}]'"
        ) from None


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


def sizes(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    counts = value.split(",")
    if not all(count.isascii() and count.isdecimal() and int(count) for count in counts):
        raise click.BadParameter(f"{value!r} is no list of numbers from 1 up, such as 100,1000")
    return tuple(map(int, counts))


class OneOf(click.Choice[str]):
    """One of these; whoever mistypes it is told the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(error.message + nearest(value, self.choices), param, ctx)


output = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
config_file = click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False, allow_dash=True),
    show_default="none: every key has its own default",
    help="Configuration file (docs/configuration.md), or a ConfigMap's; - for standard input.",
)


def _config_map_name(context: click.Context, _: click.Parameter, value: str | None) -> Any:
    if value is None or context.resilient_parsing:
        return None
    from kubedsm.kube.watching.config_map import ConfigMapName  # noqa: PLC0415  only if there is one

    try:
        return ConfigMapName.read(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


config_map_name = click.option(
    "--configmap",
    "config_map",
    metavar="NAMESPACE/NAME",
    callback=_config_map_name,
    show_default="none",
    help="ConfigMap whose key config.yaml is the configuration.",
)
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


def _scheduler_address(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        url = urlsplit(value)
        host, _port = url.hostname, url.port
    except ValueError:
        host = None
    if not re.match("https?://", value) or not host:
        raise click.BadParameter(f"{value} is no address such as {_DIAGNOSTICS}")
    return value


scheduler_address = click.option(
    "--server",
    default=_DIAGNOSTICS,
    show_default=True,
    callback=_scheduler_address,
    help="Where the running scheduler answers: `kubedsm run --diagnostics-port`.",
)
cluster_file = click.option(
    "--cluster",
    "cluster_name",
    default="paper",
    show_default=True,
    help="`paper`, or a file: Node objects, or the short form {nodes: [{name, tier, cpu, ..}]}.",
)
paced = click.option(
    "--paced",
    is_flag=True,
    help="Emulate the latencies of a real control plane: ReplicaSets create pods in slow-start"
    " batches, and watch events arrive 4 to 83 ms late.",
)
processes = click.option(
    "--jobs", type=click.IntRange(1, 1024), show_default="one a processor", help="Processes."
)
report_folder = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for results.json, pictures, tables and a page of all of them.",
)


def _together(*options: _Adding) -> _Adding:
    """All of them, in this order in the help."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return added


def _of_the_lease(name: str, parameter: str, default: str, text: str, **more: Any) -> _Adding:
    return click.option(
        f"--leader-elect-{name}", parameter, default=default, show_default=True, help=text, **more
    )


_DURATION: Mapping[str, Any] = {"type": DurationType()}
#: as kube-scheduler names them
leader_election = _together(
    click.option(
        "--leader-elect",
        type=bool,
        is_flag=False,
        flag_value="true",
        default="true",
        show_default=True,
        help="Act only while holding a Lease, so that of several processes one acts at a time.",
    ),
    _of_the_lease(
        "lease-duration",
        "lease_duration",
        "15s",
        "How long a Lease that is not renewed is left to its holder.",
        **_DURATION,
    ),
    _of_the_lease(
        "renew-deadline",
        "renew_deadline",
        "10s",
        "After so long without a renewal a leader does not count as one; it writes nothing any"
        " more after a fifth of the lease duration, if that is less.",
        **_DURATION,
    ),
    _of_the_lease(
        "retry-period",
        "retry_period",
        "2s",
        "Time between two renewals at most; a standby looks twice as often.",
        **_DURATION,
    ),
    _of_the_lease("resource-namespace", "resource_namespace", "kubedsm", "Where the Lease is."),
    _of_the_lease("resource-name", "resource_name", "kubedsm", "What the Lease is called."),
)


def page(usually: str) -> _Adding:
    """Add the options of where the page is, and who may see it."""
    return _together(
        click.option(
            "--page", is_flag=True, help="Show the cluster on a page, to this machine only."
        ),
        click.option(
            "--page-address",
            metavar="HOST:PORT",
            callback=address,
            show_default=usually,
            help="Show the page there; beyond loopback only with --page-token-file.",
        ),
        click.option(
            "--page-token-file",
            type=click.Path(dir_okay=False, path_type=Path),
            show_default="none",
            help="The bearer token that the page at --page-address asks for; it may be changed.",
        ),
        click.option(
            "--page-host",
            "page_hosts",
            multiple=True,
            metavar="NAME",
            show_default="none",
            help="One more name that browsers may know the page by, beside localhost.",
        ),
    )


#: 0, 1 and 2 are those of all commands
EXIT_CODES = (
    "Exit codes: 0, all moves are done, or there is none to make; 3, some were not made or were"
    " taken back; 4, moving is paused; 5, the cluster has changed, and they do not hold any more;"
    " 1 and 2, as always, a problem and wrong usage."
)


def _scheduler_config_map(text: str) -> _Adding:
    return click.option(
        "--configmap",
        "config_map",
        metavar="NAMESPACE/NAME",
        default="kubedsm/kubedsm",
        show_default=True,
        callback=_config_map_name,
        help=f"The scheduler's ConfigMap: {text}.",
    )


scheduler_config_map = _scheduler_config_map("with --kubeconfig, QoS targets are read from it")
#: of who has moves made by the scheduler that runs
handing_over = _together(
    _scheduler_config_map("approvals go to the one whose name ends in -approvals"),
    click.option(
        "--wait",
        type=DurationType(),
        default="0s",
        show_default=True,
        help="While moving is paused, wait so long for the end of that.",
    ),
)


def deciding_on_moves(from_help: str, apply_help: str) -> _Adding:
    """Add the options of who decides on moves of what `--from` holds, or of a cluster."""
    return _together(
        click.option(
            "--from",
            "dump_path",
            type=click.Path(allow_dash=True),
            show_default="none: ask the cluster",
            help=f"{from_help} what `kubectl get nodes,pods -A -o json` printed;"
            " - for standard input.",
        ),
        config_file,
        kubeconfig_file,
        kubeconfig_context,
        scheduler_address,
        click.option("--apply", "carry_out", is_flag=True, help=apply_help),
        handing_over,
        leader_election,
        output,
    )
