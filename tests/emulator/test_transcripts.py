"""The emulated cluster answers as a real Kubernetes did, exchange by exchange.

Each recording is played once, scene after scene in a fresh namespace, over real sockets. What is
compared, and what is not, is in `comparison`.
"""

import asyncio
import random
from functools import partial

import aiohttp
import attrs
import looptime
import pytest

from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.access.rbac import User
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.http.routes import Routes
from kubedsm_lab.emulator.http.server import HttpFront
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.playing import Player, Write
from support.recorded import MORE_OF_API_SERVER
from support.transcripts import load

pytestmark = pytest.mark.http
TOKEN = "the administrator's"  # noqa: S105 - nobody's
JSON = "application/json"


async def play(spec, exchanges, access, elsewhere, *, token=None, **how):
    """Play a recording; `elsewhere` has the headers of requests to a server with that access."""
    async with (
        EmulatedCluster(spec, VirtualClock(), random.Random(0), token=token) as cluster,
        HttpFront(Routes(cluster.api) if token else cluster.routes) as front,
        HttpFront(Routes(cluster.api, access(cluster))) as guarded,
        aiohttp.ClientSession() as session,
    ):
        player = Player(
            session=session,
            url=front.url,
            revision=lambda: cluster.api.store.revision,
            exchanges=exchanges,
            elsewhere={at: (guarded.url, headers) for at, headers in elsewhere.items()},
            **how,
        )
        return await player.play()


FIRST = load()
#: as the recorder named it
NAMESPACE = FIRST[10].body["metadata"]["name"]
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


def recorded_nodes():
    """The nodes that the recorder registered, as it did: it was their kubelet too."""
    for node in FIRST[11].response["items"]:
        metadata = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        status = {key: node["status"][key] for key in ("capacity", "allocatable", "conditions")}
        kind = {"apiVersion": "v1", "kind": "Node"}
        yield {**kind, "metadata": metadata, "spec": node["spec"], "status": status}


#: what the cluster says it is, which is another version than this recording is of
OUR_VERSION = next(e for e in FIRST if e.path == "/version").response
MORE = [
    attrs.evolve(e, response=OUR_VERSION) if e.path == "/version" else e
    for e in load(MORE_OF_API_SERVER)
]
ACCESS = [e for e in MORE if e.scene == "access"]
DELETION = next(e for e in MORE if e.method == "DELETE" and e not in ACCESS)
DELETED = DELETION.response["metadata"]["name"]
ALICE = User("alice", groups=("system:authenticated",))
#: what each who asks shows; the recorder wrote this for the token that the server made
TOKENS = {"": TOKEN, "alice": "alice's", "a wrong token": "nobody's", "service account": "<a JWT>"}
#: what was there already when the recorder came to the exchange
THERE = {
    ACCESS[0].index: [Write("POST", "/api/v1/namespaces", JSON, {"metadata": {"name": DELETED}})],
    DELETION.index: [
        # In the recording a pod on a lost node kept the namespace from going at once.
        Write(
            "POST",
            f"/api/v1/namespaces/{DELETED}/pods",
            JSON,
            {
                "metadata": {"name": "lost", "finalizers": ["example.com/held"]},
                "spec": {"containers": [{"name": "c", "image": "pause"}]},
            },
        )
    ],
}


def with_alice(cluster):
    """Return the cluster's access, which lets in nobody without a token."""
    users = {**cluster.access.users, TOKENS["alice"]: ALICE}
    return attrs.evolve(cluster.access, users=users, anonymous=False)


def shown_by(exchange):
    token = TOKENS.get(exchange.asker)
    return {"Authorization": f"Bearer {token}"} if token else {}


RECORDINGS = {
    "1.36": partial(
        play,
        ClusterSpec(tuple(recorded_nodes()), TIMING),
        FIRST,
        lambda cluster: Access.enforced(cluster.api, TOKEN),
        {126: {}, 127: {"Authorization": "Bearer the wrong one"}},
        opened_before=OPENED_BEFORE,
        unlogged=UNLOGGED,
    ),
    "1.35": partial(
        play,
        ClusterSpec(()),
        MORE,
        with_alice,
        {e.index: shown_by(e) for e in ACCESS},
        token=TOKEN,
        unlogged=THERE,
    ),
}


@pytest.mark.parametrize("version", RECORDINGS)
def test_each_scene_of_a_recording_is_answered_as_it_was(version):
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        differences = runner.run(RECORDINGS[version]())
    assert len(differences) > 1
    assert {scene: found for scene, found in differences.items() if found} == {}
