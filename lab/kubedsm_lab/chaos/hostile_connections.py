"""Attack with hostile clients on every listener of a scheduler.

The scheduler must keep its Lease and bind pods. Sockets have no virtual time, so the attack runs on
loopback in real time, without judging times: after `_PATIENCE` seconds a scheduler counts as
unresponsive.
"""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import aiohttp
from structlog.testing import capture_logs
from yarl import URL

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.server.app import page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.explain.listener import Listeners
from kubedsm.explain.server import Diagnostics
from kubedsm.observability.instruments import Instruments
from kubedsm.observability.server import Monitoring
from kubedsm.process.clock import SystemClock
from kubedsm.process.http_limits import DIAGNOSTICS, METRICS, PAGE, Limits
from kubedsm.terminal.running import raise_file_limit
from kubedsm_lab.chaos.hands import Hands
from kubedsm_lab.chaos.process import LEASE, Process
from kubedsm_lab.emulator.api.object_state import node_of
from kubedsm_lab.emulator.api.resources import LEASES
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import node

_PATIENCE = 120.0
#: connections of each kind to each listener
_EACH = 60
_PODS = 20
#: most log lines caused by clients: a few causes for each listener
_LINES = 30
#: Linux' TCP_INFO begins with the state
_ESTABLISHED = b"\x01"
_ADDRESSES = [f"127.0.1.{last}" for last in range(1, 6)]
_LONG = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 8_000) for number in range(120))
#: bytes sent by each kind of client
_HOSTILE = (
    b"",
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + _LONG,
    b"GET /livez HTTP/9\r\nno header\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
    b"GET /page/stream HTTP/1.1\r\nHost: localhost\r\n\r\n",
)


def attack() -> list[str]:
    """Attack a scheduler on an emulated cluster; return the guarantees that it broke."""
    raise_file_limit()  # including the clients' sockets
    with capture_logs() as lines:
        violations = asyncio.run(_attack_scheduler())
    caused = [line for line in lines if "listener" in line]
    if len(caused) > _LINES:
        violations.append(f"clients wrote {len(caused)} lines into the log")
    violations += [f"logged: {line['event']}" for line in lines if line["log_level"] == "error"]
    return violations


async def _attack_scheduler() -> list[str]:
    clock, rng, timing = SystemClock(), random.Random(0), Timing(start_delay=0.1, stop_delay=0.1)
    spec = ClusterSpec(
        (node("e1", "edge", "40", "40Gi"), node("c1", "cloud", "40", "40Gi")), timing
    )
    async with EmulatedCluster(spec, clock, rng) as cluster, asyncio.TaskGroup() as tasks:
        hands, scene = Hands(cluster.api, cluster), Scene(clock)
        instruments = Instruments(clock, "kubedsm", "localhost")
        process = Process(
            "kubedsm-0",
            EmulatedFront(cluster.routes, clock, latency=0.01),
            tasks,
            Configuration(),
            times=LeaseTimes(),
            listener=Listeners(instruments, scene),
        )
        runtime, elector = process.runtime, process.elector
        stuck: list[str] = []
        async with (
            Monitoring(runtime, instruments, clock, ("127.0.0.1", 0)) as monitoring,
            page_of(runtime, scene, clock) as page,
            Diagnostics(runtime.explanations, port=0) as diagnostics,
            contextlib.AsyncExitStack() as clients,
        ):
            process.start()
            attacked = {monitoring.url: METRICS, page: PAGE, diagnostics.url: DIAGNOSTICS}
            for url, limits in attacked.items():
                opened = await clients.enter_async_context(_open_clients(URL(url)))
                too_many = f"{limits.listener}: more than {limits.connections} connections"
                stuck += await _wait_for(too_many, partial(_is_within_limit, limits, opened))
            hands.create_workload("web", _PODS)
            stuck += await _wait_for("not all pods are bound", lambda: _count_bound(hands) == _PODS)
            for url in (f"{monitoring.url}/livez", page, f"{diagnostics.url}/decisions"):
                stuck += await _check_response(url)
            stuck += await _wait_for(
                "the leader cannot renew", lambda: elector is not None and elector.leading
            )
            lease = cluster.api.get(LEASES, LEASE.namespace, LEASE.name)["spec"]
            if process.over or (lease["holderIdentity"], lease["leaseTransitions"]) != (
                process.name,
                0,
            ):
                stuck.append("the Lease was lost")
            process.stopping.set()
            await process.wait()
    return stuck


def _is_within_limit(limits: Limits, clients: Sequence[socket.socket]) -> bool:
    established = (c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) for c in clients)
    return sum(state == _ESTABLISHED for state in established) <= limits.connections


def _count_bound(hands: Hands) -> int:
    return sum(bool(node_of(pod)) for pod in hands.list_pods())


async def _wait_for(what: str, condition: Callable[[], bool]) -> list[str]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while not condition():
                await SystemClock().sleep(0.05)
            return []
    return [what]


async def _check_response(url: str) -> list[str]:
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            return [] if response.ok else [f"{url} responds with {response.status}"]
    except (aiohttp.ClientError, TimeoutError) as error:
        return [f"{url} does not respond: {error!r}"]


@contextlib.asynccontextmanager
async def _open_clients(url: URL) -> AsyncIterator[list[socket.socket]]:
    """Open connections that send the bytes of `_HOSTILE`, read nothing, and stay open."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as opened:
        clients = []
        for number in range(_EACH * len(_HOSTILE)):
            client = opened.enter_context(socket.socket())
            client.setblocking(False)
            clients.append(client)
            with contextlib.suppress(OSError):  # only Linux has all of 127.0.0.0/8
                client.bind((_ADDRESSES[number % len(_ADDRESSES)], 0))
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await loop.sock_connect(client, (url.host, url.port))
                    await loop.sock_sendall(client, _HOSTILE[number % len(_HOSTILE)])
        yield clients
