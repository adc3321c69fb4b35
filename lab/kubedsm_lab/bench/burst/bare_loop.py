"""Minimal scheduler for comparison: bind every pending pod round-robin, without any decision.

The loop uses aiohttp in the ordinary way, and does not verify binds. Connections are opened in
advance and kept, so no burst begins with a TLS handshake; or closed after an idle timeout, as
aiohttp does by default.

`python -m kubedsm_lab.bench.burst.bare_loop KUBECONFIG SECONDS` prints `watching` when ready.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

import aiohttp
import orjson

from kubedsm.execution.limits import Limits
from kubedsm_lab.bench.api import CORE

#: Idle timeout in seconds, longer than any benchmark.
FOREVER = 1e6
#: schedulerName of the pods
NAME = "bare-loop"


async def run(kubeconfig: Path, keepalive: float) -> None:
    """Watch pending pods and bind them round-robin to nodes, until cancelled."""
    from kubedsm.kube.client import credentials  # noqa: PLC0415  it takes long to load

    server = await credentials.from_kubeconfig(kubeconfig, None, os.environ)
    in_flight = Limits().binds_in_flight
    async with (
        aiohttp.ClientSession(
            server.server,
            connector=aiohttp.TCPConnector(
                limit=1 + in_flight,  # one more connection than binds, for the watch
                ssl=server.tls(),
                keepalive_timeout=keepalive,
            ),
            headers={"Authorization": await server.authorization() or ""},
            json_serialize=lambda body: orjson.dumps(body).decode(),
            timeout=aiohttp.ClientTimeout(),
            read_bufsize=2**20,
            raise_for_status=True,
        ) as session,
        asyncio.TaskGroup() as tasks,
    ):
        slots = asyncio.Semaphore(in_flight)
        async with session.get(f"{CORE}/nodes") as response:
            nodes = [node["metadata"]["name"] for node in (await response.json())["items"]]
        turn = itertools.cycle(nodes)

        async def bind(namespace: str, name: str, uid: str, node: str) -> None:
            body = {
                "metadata": {"name": name, "namespace": namespace, "uid": uid},
                "target": {"kind": "Node", "name": node},
            }
            path = f"{CORE}/namespaces/{namespace}/pods/{name}/binding"
            async with slots, session.post(path, json=body) as response:
                await response.read()

        async def open_connection() -> None:
            async with session.get("/version") as response:
                await response.read()

        await asyncio.gather(*(open_connection() for _ in range(in_flight)))
        async with session.get(f"{CORE}/pods", params={"watch": "1"}) as watch:
            print("watching", flush=True)  # noqa: T201  the parent waits for this line
            async for line in watch.content:
                event = orjson.loads(line)
                pod = event["object"]
                if event["type"] == "ADDED" and pod["spec"]["schedulerName"] == NAME:
                    metadata = pod["metadata"]
                    names = metadata["namespace"], metadata["name"], metadata["uid"]
                    tasks.create_task(bind(*names, next(turn)))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), float(sys.argv[2])))
