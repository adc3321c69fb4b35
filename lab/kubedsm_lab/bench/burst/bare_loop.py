"""The bare loop: binds each pod that a watch shows, and nothing else.

It decides nothing, reserves nothing and verifies nothing. It speaks aiohttp as anyone would who
writes such a loop, on connections that it opens first and never lets go, so that no burst of its
begins with a handshake, however long the silence was. Or, if it is told to, lets go of what was
idle for some seconds, as aiohttp does unless it is told otherwise.

`python -m kubedsm_lab.bench.burst.bare_loop KUBECONFIG SECONDS` says `watching` when it does.
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

#: seconds; longer than any bench
FOREVER = 1e6
#: the schedulerName of its pods
NAME = "bare-loop"


async def run(kubeconfig: Path, keepalive: float) -> None:
    """Bind whatever comes to the nodes in turn, until cancelled."""
    from kubedsm.kube.client import credentials  # noqa: PLC0415  it takes long to load

    server = await credentials.from_kubeconfig(kubeconfig, None, os.environ)
    in_flight = Limits().binds_in_flight
    async with (
        aiohttp.ClientSession(
            server.server,
            connector=aiohttp.TCPConnector(
                limit=1 + in_flight,  # one is the watch's
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

        async def warm() -> None:
            async with session.get("/version") as response:
                await response.read()

        await asyncio.gather(*(warm() for _ in range(in_flight)))
        async with session.get(f"{CORE}/pods", params={"watch": "1"}) as watch:
            print("watching", flush=True)  # noqa: T201  who started us waits for it
            async for line in watch.content:
                event = orjson.loads(line)
                pod = event["object"]
                if event["type"] == "ADDED" and pod["spec"]["schedulerName"] == NAME:
                    about = pod["metadata"]
                    tasks.create_task(
                        bind(about["namespace"], about["name"], about["uid"], next(turn))
                    )


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), float(sys.argv[2])))
