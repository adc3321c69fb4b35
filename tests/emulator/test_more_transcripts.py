"""The emulated cluster answers as a real Kubernetes 1.35 did, in the scenes recorded of that."""

import asyncio
import random

import aiohttp
import pytest

from kubedsm.clock import SystemClock
from kubedsm.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm.emulator.http.server import HttpFront
from support.playing import Player, Write
from support.recorded import MORE_OF_API_SERVER
from support.transcripts import load

pytestmark = pytest.mark.http

EXCHANGES = load(MORE_OF_API_SERVER)
SCENES = list(dict.fromkeys(exchange.scene for exchange in EXCHANGES))
DELETION = next(e for e in EXCHANGES if e.method == "DELETE")
NAMESPACE = DELETION.response["metadata"]["name"]
JSON = "application/json"

#: what was there already when the recorder came to the exchange
UNLOGGED = {
    DELETION.index: [
        Write("POST", "/api/v1/namespaces", JSON, {"metadata": {"name": NAMESPACE}}),
        # In the recording a pod on a lost node kept the namespace from going at once.
        Write(
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            JSON,
            {
                "metadata": {"name": "lost", "finalizers": ["example.com/held"]},
                "spec": {"containers": [{"name": "c", "image": "pause"}]},
            },
        ),
    ],
}


async def play():
    async with (
        EmulatedCluster(ClusterSpec(()), SystemClock(), random.Random(0)) as cluster,
        HttpFront(cluster.routes) as front,
        aiohttp.ClientSession() as session,
    ):
        player = Player(
            session=session,
            url=front.url,
            revision=lambda: cluster.api.store.revision,
            exchanges=EXCHANGES,
            opened_before={},
            unlogged=UNLOGGED,
            elsewhere={},
        )
        return await player.play()


@pytest.fixture(scope="module")
def differences():
    return asyncio.run(play())


@pytest.mark.parametrize("scene", SCENES)
def test_scene(scene, differences):
    assert differences[scene] == []
