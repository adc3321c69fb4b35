"""The emulated cluster answers as a real Kubernetes 1.35 did, in the scenes recorded of that."""

import asyncio
import random

import aiohttp
import attrs
import pytest

from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.access.rbac import User
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.http.routes import Routes
from kubedsm_lab.emulator.http.server import HttpFront
from support.playing import Player, Write
from support.recorded import MORE_OF_API_SERVER
from support.transcripts import load

pytestmark = pytest.mark.http

#: what the cluster says it is, which is another version than this recording is of
OUR_VERSION = next(e for e in load() if e.path == "/version").response
EXCHANGES = [
    attrs.evolve(e, response=OUR_VERSION) if e.path == "/version" else e
    for e in load(MORE_OF_API_SERVER)
]
SCENES = list(dict.fromkeys(exchange.scene for exchange in EXCHANGES))
ACCESS = [e for e in EXCHANGES if e.scene == "access"]
DELETION = next(e for e in EXCHANGES if e.method == "DELETE" and e not in ACCESS)
NAMESPACE = DELETION.response["metadata"]["name"]
JSON = "application/json"
ADMIN_TOKEN = "the administrator's"  # noqa: S105 - nobody's
ALICE = User("alice", groups=("system:authenticated",))
#: what each who asks shows; the recorder wrote this for the token that the server made
TOKENS = {
    "": ADMIN_TOKEN,
    "alice": "alice's",
    "a wrong token": "nobody's",
    "service account": "<a JWT>",
}

#: what was there already when the recorder came to the exchange
UNLOGGED = {
    ACCESS[0].index: [Write("POST", "/api/v1/namespaces", JSON, {"metadata": {"name": NAMESPACE}})],
    DELETION.index: [
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


def with_alice(access):
    users = {**access.users, TOKENS["alice"]: ALICE}
    return attrs.evolve(access, users=users, anonymous=False)


def shown_by(exchange):
    token = TOKENS.get(exchange.asker)
    return {"Authorization": f"Bearer {token}"} if token else {}


async def play():
    async with (
        EmulatedCluster(
            ClusterSpec(()), SystemClock(), random.Random(0), token=ADMIN_TOKEN
        ) as cluster,
        HttpFront(Routes(cluster.api)) as front,
        # The recorded server let in nobody without a token.
        HttpFront(Routes(cluster.api, with_alice(cluster.access))) as guarded,
        aiohttp.ClientSession() as session,
    ):
        player = Player(
            session=session,
            url=front.url,
            revision=lambda: cluster.api.store.revision,
            exchanges=EXCHANGES,
            opened_before={},
            unlogged=UNLOGGED,
            elsewhere={e.index: (guarded.url, shown_by(e)) for e in ACCESS},
        )
        return await player.play()


@pytest.fixture(scope="module")
def differences():
    return asyncio.run(play())


@pytest.mark.parametrize("scene", SCENES)
def test_scene(scene, differences):
    assert differences[scene] == []
