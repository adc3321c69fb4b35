"""The emulated cluster answers as a real Kubernetes 1.36 did, exchange by exchange.

The recording is played once, scene after scene in one fresh namespace, over real sockets; then
each scene is a case of its own. What is compared, and what is not, is in `comparison`.
"""

import asyncio
import random

import aiohttp
import pytest

from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.http.routes import Routes
from kubedsm_lab.emulator.http.server import HttpFront
from support.playing import Player, Write
from support.transcripts import Object, load

pytestmark = pytest.mark.http

EXCHANGES = load()
SCENES = list(dict.fromkeys(exchange.scene for exchange in EXCHANGES))
#: as the recorder named it
NAMESPACE = EXCHANGES[10].body["metadata"]["name"]

#: watch → the exchange before which it was opened: the first whose effect it shows
OPENED_BEFORE = {42: 16, 70: 64, 94: 87, 111: 109, 119: 116}

#: writes that were not logged, before the exchange that shows their effect
UNLOGGED = {
    # the recorder pushed resourceVersion 1 out of the watch cache with them
    44: [
        Write(
            "PATCH",
            f"/api/v1/namespaces/{NAMESPACE}/pods/w1",
            "application/merge-patch+json",
            {"metadata": {"annotations": {f"k{key}": str(turn) for key in range(40)}}},
        )
        for turn in range(60)
    ]
}
#: seconds; pods start sooner than the player takes the cluster for quiet
TIMING = Timing(start_delay=0.06, stop_delay=0.13, hpa_sync=0.3)
TOKEN = "the right one"  # noqa: S105 - nobody's


def recorded_nodes() -> tuple[Object, ...]:
    """The nodes that the recorder registered, as it did: it was their kubelet too."""
    nodes = []
    for node in EXCHANGES[11].response["items"]:
        metadata = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        status = {key: node["status"][key] for key in ("capacity", "allocatable", "conditions")}
        kind = {"apiVersion": "v1", "kind": "Node"}
        nodes.append({**kind, "metadata": metadata, "spec": node["spec"], "status": status})
    return tuple(nodes)


async def play() -> dict[str, list[str]]:
    spec = ClusterSpec(recorded_nodes(), TIMING)
    async with (
        EmulatedCluster(spec, SystemClock(), random.Random(0)) as cluster,
        HttpFront(cluster.routes) as front,
        HttpFront(Routes(cluster.api, Access.enforced(cluster.api, TOKEN))) as guarded,
        aiohttp.ClientSession() as session,
    ):
        wrong = {"Authorization": "Bearer the wrong one"}
        player = Player(
            session=session,
            url=front.url,
            revision=lambda: cluster.api.store.revision,
            exchanges=EXCHANGES,
            opened_before=OPENED_BEFORE,
            unlogged=UNLOGGED,
            elsewhere={126: (guarded.url, {}), 127: (guarded.url, wrong)},
        )
        return await player.play()


@pytest.fixture(scope="module")
def differences() -> dict[str, list[str]]:
    return asyncio.run(play())


@pytest.mark.parametrize("scene", SCENES)
def test_scene(scene: str, differences: dict[str, list[str]]) -> None:
    assert differences[scene] == []
