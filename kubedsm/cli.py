"""The commands, and the only place where the parts are wired together."""

import asyncio
import contextlib
import io
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click
import orjson
import structlog
from rich.console import Console
from rich.live import Live

from kubedsm import __version__, offline
from kubedsm.bench import burst
from kubedsm.bench import match as bench_match
from kubedsm.clock import SystemClock
from kubedsm.cluster import dump as dumps
from kubedsm.cluster import verbs
from kubedsm.cluster.credentials import CredentialsError
from kubedsm.cluster.dump import DumpError
from kubedsm.cluster.emulator.cluster_file import ClusterFileError, load, paper_cluster
from kubedsm.cluster.emulator.emulated_cluster import EmulatedCluster
from kubedsm.cluster.emulator.http import AddressUnavailableError, HttpFront, kubeconfig
from kubedsm.cluster.kubernetes import KubernetesCluster
from kubedsm.cluster.port import ClusterError
from kubedsm.config import Configuration, load_file
from kubedsm.config_fields import ConfigurationError
from kubedsm.demo.run import create_services, demo_scenario, demo_world, watch_demo
from kubedsm.demo.view import Frame, LineByLine, as_json, render, summary
from kubedsm.replay.command import replay
from kubedsm.runtime import Runtime
from kubedsm.tables import bench_table, placement_tables

#: what goes wrong outside of us: a line for the user, exit code 1
PROBLEMS = (
    AddressUnavailableError,
    ClusterError,
    ClusterFileError,
    ConfigurationError,
    CredentialsError,
    DumpError,
    OSError,
)
STARTUP_TIMEOUT = 10.0

output = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
config_file = click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False),
    help="Configuration file (docs/configuration.md); defaults apply without one.",
)


def main() -> NoReturn:
    """Run the command line. Every error is one line on stderr: exit code 2 usage, 1 the rest."""
    try:
        commands.main(prog_name="kubedsm", standalone_mode=False)
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        _fail(error.format_message() + where, 2)
    except click.ClickException as error:
        _fail(error.format_message(), 1)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.exit(141)
    except PROBLEMS as error:
        _fail(str(error), 1)
    except BaseExceptionGroup as group:
        problems, rest = group.split(PROBLEMS)
        if rest is not None or problems is None:
            raise
        _fail(str(_first(problems)), 1)
    sys.exit(0)


def _first(group: BaseExceptionGroup) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"kubedsm: error: {' '.join(message.split())}", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="kubedsm")
def commands() -> None:
    """Schedule pods on the nodes of an edge-cloud cluster, as many at the edge as asked for."""


@commands.command()
@config_file
@click.option(
    "--kubeconfig", "kubeconfig_path", type=click.Path(path_type=Path), help="Kubeconfig file."
)
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--namespace",
    default="kubedsm",
    show_default=True,
    help="Where the ConfigMap `kubedsm` with the pause switch is.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@output
def run(
    config_path: str | None,
    kubeconfig_path: Path | None,
    context: str | None,
    namespace: str,
    verbose: bool,
    output: str,
) -> None:
    """Run the scheduler until interrupted.

    Inside a cluster it uses its service account; elsewhere a kubeconfig. Its log goes to stderr;
    with -o json it goes to stdout, one object a line.
    """
    _log_to(json=output == "json", verbose=verbose)
    configuration = _configuration(config_path)

    async def serve() -> None:
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            version = await verbs.version(cluster, timeout=STARTUP_TIMEOUT)
            structlog.get_logger().info("connected", version=version, kubedsm=__version__)
            await Runtime(
                cluster,
                configuration,
                SystemClock(),
                random.Random(),
                instance=socket.gethostname(),
                namespace=namespace,
            ).run()

    _until_interrupted(serve())


@commands.command()
@click.option(
    "--cluster",
    "cluster_name",
    default="paper",
    show_default=True,
    help="`paper`, or a file: Node objects, or the short form {nodes: [{name, tier, cpu, ..}]}.",
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0 takes any."
)
@click.option("--token", help="Ask clients for this bearer token; without it everybody is let in.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of names and uids.")
@click.option(
    "--kubeconfig", "kubeconfig_path", type=click.Path(), help="Where to write the kubeconfig."
)
@output
def emulate(
    cluster_name: str,
    host: str,
    port: int,
    token: str | None,
    seed: int,
    kubeconfig_path: str | None,
    output: str,
) -> None:
    """Serve an emulated Kubernetes cluster, for kubectl and other clients, until interrupted."""
    spec = paper_cluster() if cluster_name == "paper" else load(cluster_name)

    async def serve() -> None:
        clock = SystemClock()
        async with (
            EmulatedCluster(spec, clock, random.Random(seed), token=token) as cluster,
            HttpFront(cluster.routes, host, port) as front,
        ):
            with _kubeconfig_file(front.url, token, kubeconfig_path) as path:
                if output == "json":
                    _print_json({"server": front.url, "kubeconfig": str(path)})
                else:
                    click.echo(f"Emulated cluster at {front.url}\nexport KUBECONFIG={path}")
                await asyncio.Event().wait()

    _until_interrupted(serve())


@commands.command()
@click.option(
    "--from",
    "dump_path",
    required=True,
    type=click.Path(allow_dash=True),
    help="What `kubectl get nodes,pods -A -o json` printed; - for standard input.",
)
@config_file
@output
def place(dump_path: str, config_path: str | None, output: str) -> None:
    """Decide, offline, where the waiting pods of a dump would go."""
    configuration = _configuration(config_path)
    text = sys.stdin.buffer.read() if dump_path == "-" else Path(dump_path).read_bytes()
    dump = dumps.read(text, "standard input" if dump_path == "-" else dump_path)
    for remark in (*dump.remarks, *map(str, dump.malformed)):
        _remark(remark)
    started = time.perf_counter()
    placement = offline.place(dump, configuration)
    elapsed = 1000 * (time.perf_counter() - started)
    if placement.foreign:
        _remark(
            f"{placement.foreign} waiting pods are left alone:"
            f" their schedulerName is not {configuration.scheduler_name}"
        )
    if output == "json":
        _print_json(placement.as_json() | {"elapsedMs": round(elapsed, 3)})
    else:
        Console().print(placement_tables(placement, elapsed))


@commands.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the scenario.")
@click.option(
    "--cycles", type=click.IntRange(1, 60), default=12, show_default=True, help="Of 5 s each."
)
@click.option(
    "--picture", type=click.Path(dir_okay=False), help="Also save the last table, as SVG."
)
@output
def demo(seed: int, cycles: int, picture: str | None, output: str) -> None:
    """Watch KubeDSM place the paper's services on the paper's cluster, emulated, for a minute."""
    _log_to(json=False, verbose=False, level="ERROR")
    console = Console(stderr=output == "json")
    frame = asyncio.run(_demo(seed, cycles, console))
    if picture is not None:
        recorded = Console(record=True, width=100, file=io.StringIO())
        recorded.print(summary(frame))
        recorded.save_svg(picture, title="kubedsm demo")
    if output == "json":
        _print_json(as_json(frame))
    else:
        console.print(summary(frame))


async def _demo(seed: int, cycles: int, console: Console) -> Frame:
    clock, rng = SystemClock(), random.Random(seed)
    async with (
        demo_world(demo_scenario(seed, cycles), clock, rng) as world,
        HttpFront(world.cluster.routes) as front,
    ):
        with _kubeconfig_file(front.url, None, None) as path:
            console.print(
                f"An emulated cluster serves at {front.url}. Watch it from another terminal:\n"
                f"  kubectl --kubeconfig {path} get pods -o wide -w\n",
                soft_wrap=True,
            )
            async with (
                await KubernetesCluster.connect(path) as client,
                asyncio.TaskGroup() as tasks,
            ):
                runtime = Runtime(client, Configuration(), clock, random.Random(seed))
                scheduler = tasks.create_task(runtime.run())
                await runtime.synced.wait()
                create_services(world)
                with _live(console) as show:
                    frame = await watch_demo(world, show)
                scheduler.cancel()
    return frame


@contextlib.contextmanager
def _live(console: Console) -> Iterator[Callable[[Frame], None]]:
    """A table that changes in place; without a terminal, a line a cycle."""
    if not console.is_terminal:
        yield LineByLine(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda frame: live.update(render(frame), refresh=True)


commands.add_command(replay)


@commands.group()
def bench() -> None:
    """Measure one side beside the other on this machine, and print the ratio."""


@bench.command("match")
@click.option("--pods", type=click.IntRange(1, 18), default=16, show_default=True)
@click.option("--nodes", type=click.IntRange(1, 10), default=3, show_default=True)
@output
def bench_match_command(pods: int, nodes: int, output: str) -> None:
    """Algorithm 8: the count-vector form beside the plain-Python bitmask (about 10 s)."""
    _report(bench_match.run(pods=pods, nodes=nodes).as_json(), output)


@bench.command("ingest")
@click.option("--events", type=click.IntRange(1, 100_000), default=400, show_default=True)
@output
def bench_ingest_command(events: int, output: str) -> None:
    """Watch lines to pods: ours beside the typed models of kubernetes_asyncio."""
    from kubedsm.bench import ingest  # noqa: PLC0415  the typed models take a while to load

    _report(ingest.run(events=events).as_json(), output)


@bench.command("burst")
@click.option("-n", "--pods", type=click.IntRange(1, 5000), default=200, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 50), default=5, show_default=True)
@output
def bench_burst_command(pods: int, rounds: int, output: str) -> None:
    """Pods of one Deployment at once over HTTP: KubeDSM beside a bare loop that posts binds.

    The API server is `kubedsm emulate` in a process of its own.
    """
    _log_to(json=False, verbose=False, level="ERROR")
    _report(asyncio.run(_burst(pods, rounds)).as_json(), output)


async def _burst(pods: int, rounds: int) -> burst.BurstResult:
    async with (
        burst.server(pods) as path,
        await KubernetesCluster.connect(path) as cluster,
    ):
        return await burst.run(cluster, SystemClock(), random.Random(0), pods=pods, rounds=rounds)


def _report(rows: dict[str, Any], output: str) -> None:
    if output == "json":
        _print_json(rows)
    else:
        Console().print(bench_table(rows))


def _configuration(path: str | None) -> Configuration:
    return load_file(path) if path else Configuration()


def _log_to(*, json: bool, verbose: bool, level: str = "") -> None:
    """Logs are for people on stderr, or the very output, one JSON object a line, on stdout."""
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.dict_tracebacks if json else structlog.dev.set_exc_info,
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
    ]
    lowest = level or ("DEBUG" if verbose else "INFO")
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout if json else sys.stderr),
    )


def _until_interrupted(serving: Coroutine[Any, Any, None]) -> None:
    """Run until SIGINT or SIGTERM, then let everything close in good order."""

    async def serve() -> None:
        task = asyncio.ensure_future(serving)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(serve())


@contextlib.contextmanager
def _kubeconfig_file(url: str, token: str | None, path: str | None) -> Iterator[Path]:
    """A kubeconfig for that server: where asked for, or in a folder that goes when we do."""
    content = orjson.dumps(kubeconfig(url, token), option=orjson.OPT_INDENT_2)
    if path is not None:
        Path(path).write_bytes(content)
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="kubedsm-") as folder:
        made = Path(folder) / "kubeconfig"
        made.write_bytes(content)
        yield made


def _remark(text: str) -> None:
    click.echo(f"kubedsm: {' '.join(text.split())}", err=True)


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
    sys.stdout.buffer.flush()
