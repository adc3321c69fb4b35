"""What it takes to hear of pods, beside kubernetes_asyncio's typed models of the same bytes.

The models are made as its `Watch` and a list call make them, and nothing comes of them; our list
goes on to the mirror. Of the list the models are made of one page, scaled to all.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import orjson
from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.watch import Watch

from kubedsm.kube.watching.reflector import PAGE_SIZE
from kubedsm.kube.wire import decoding
from kubedsm.model.events import PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm_lab.bench.scale.paired import Paired, paired, spent
from kubedsm_lab.bench.scale.world import Size
from kubedsm_lab.bench.watched_pods import watch_line

LINES = 200


def read(size: Size, rounds: int) -> Iterator[Paired]:
    """Watch lines, and so many pods listed by a mirror that knows none.

    Not to be called from a running event loop: `Watch` wants one of its own.
    """
    yield asyncio.run(_lines(rounds))
    yield asyncio.run(_list(size.pods))


async def _lines(rounds: int) -> Paired:
    rng = random.Random(0)
    lines = [watch_line(rng) for _ in range(LINES)]
    async with Watch("V1Pod") as watch:

        def ours() -> None:
            for line in lines:
                decoding.pod_line(line)

        def models() -> None:
            for line in lines:
                watch.unmarshal_event(line.decode("utf8"), "V1Pod")

        return paired(f"parse {LINES:,} watch lines", rounds, ours, models)


async def _list(pods: int) -> Paired:
    rng, known, ours = random.Random(0), ClusterMirror(), 0.0
    for first in range(0, pods, PAGE_SIZE):
        body = _page(rng, min(PAGE_SIZE, pods - first))
        ours += spent(partial(_take, known, body))[1]
    count = min(PAGE_SIZE, pods)
    async with ApiClient() as client:
        page = SimpleNamespace(data=_page(rng, count))
        models = spent(partial(client.deserialize, page, "V1PodList"))[1] * pods / count
    sampled = (count, pods) if count < pods else None
    return Paired("list all pods", 1, ours, models, models / ours, sampled)


def _take(known: ClusterMirror, body: bytes) -> None:
    for item in decoding.page("PodList", body).items:
        known.apply(PodApplied(decoding.pod_item(item).object))


def _page(rng: random.Random, count: int) -> bytes:
    items = [orjson.loads(watch_line(rng))["object"] for _ in range(count)]
    return orjson.dumps({"metadata": {"resourceVersion": "1"}, "items": items})
