"""Whatever happens in a cluster: a waiting pod that fits somewhere now is bound within a second."""

import asyncio
import random

import pytest

from kubedsm.plugins.feasibility import Feasibility
from kubedsm.scheduling.scheduling_queue import FLUSH_INTERVAL
from kubedsm_lab.emulator.api.resources import NODES, PODS
from support.waiting_pods import MERGE, TAINT, apart, near, pod, spread, term, zoned
from support.worlds import emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

#: so few that no flush comes to the help
EVENTS = int(FLUSH_INTERVAL / 1.5) - 2
APPS = "abc"


class Chaos:
    """Random pods and nodes that come, change and go."""

    def __init__(self, world, rng):
        self._api = world.api
        self._rng = rng
        self._serial = 0

    def node(self, name):
        rng = self._rng
        more = {"taints": [TAINT]} if rng.random() < 0.3 else {}
        labels = {"disk": "ssd"} if rng.random() < 0.5 else {}
        return zoned(name, rng.choice("xy"), cpu=rng.choice("123"), labels=labels, **more)

    def pod_comes(self):
        rng = self._rng
        self._serial += 1
        app = rng.choice(APPS)
        spec = rng.choice((
            {},
            {},
            {"ports": (80,)},
            {"nodeSelector": {"disk": "ssd"}},
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            near(term(rng.choice(APPS))),
            apart(term(rng.choice(APPS))),
            spread(app),
        ))  # fmt: skip
        made = pod(f"p{self._serial}", rng.choice(("300m", "1", "2")), {"app": app}, **spec)
        self._api.create(PODS, made, namespace="default")

    def pod_goes(self):
        name = self._pod()
        if name:
            self._api.delete(PODS, "default", name, grace_seconds=self._rng.choice((0, 1)))

    def pod_is_relabelled(self):
        name = self._pod()
        if name:
            self._patch(PODS, name, {"metadata": {"labels": {"app": self._rng.choice(APPS)}}})

    def pod_is_resized(self):
        name = self._pod()
        if name:
            resources = {"requests": {"cpu": "200m", "memory": "100Mi"}}
            patch = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
            kind = "application/strategic-merge-patch+json"
            self._api.patch(PODS, "default", name, patch, kind, subresource="resize")

    def node_comes(self):
        self._serial += 1
        self._api.create(NODES, self.node(f"n{self._serial}"))

    def node_changes(self):
        rng = self._rng
        name = rng.choice([n["metadata"]["name"] for n in self._api.list(NODES)])
        patch = rng.choice((
            {"metadata": {"labels": {"zone": rng.choice("xyz")}}},
            {"metadata": {"labels": {"disk": rng.choice(("ssd", None))}}},
            {"metadata": {"labels": {"kubedsm.io/tier": rng.choice(("edge", "cloud"))}}},
            {"spec": {"taints": rng.choice((None, [TAINT]))}},
            {"spec": {"unschedulable": rng.choice((None, None, True))}},
        ))  # fmt: skip
        self._patch(NODES, name, patch)

    def node_is_resized(self):
        name = self._rng.choice([n["metadata"]["name"] for n in self._api.list(NODES)])
        patch = {"status": {"allocatable": {"cpu": self._rng.choice("234")}}}
        self._api.patch(NODES, "", name, patch, MERGE, subresource="status")

    def _pod(self):
        names = [p["metadata"]["name"] for p in self._api.list(PODS, "default")]
        return self._rng.choice(names) if names else None

    def _patch(self, resource, name, patch):
        self._api.patch(resource, "default" if resource is PODS else "", name, patch, MERGE)

    def strike(self):
        makers = (
            (8, self.pod_comes), (4, self.pod_goes), (2, self.pod_is_relabelled),
            (1, self.pod_is_resized), (1, self.node_comes), (3, self.node_changes),
            (1, self.node_is_resized),
        )  # fmt: skip
        weights = [weight for weight, _ in makers]
        self._rng.choices([make for _, make in makers], weights)[0]()


@pytest.mark.parametrize("seed", range(16))
async def test_each_pod_that_fits_is_bound_within_a_second(seed):
    rng = random.Random(seed)
    async with emulated() as world:
        chaos = Chaos(world, rng)
        for number in range(3):
            world.api.create(NODES, chaos.node(f"n-{number}"))
        async with world.scheduler() as runtime:
            await runtime.synced.wait()
            for _ in range(6):
                chaos.pod_comes()
            waited = 0
            for _ in range(EVENTS):
                chaos.strike()
                # What goes takes up to half a second to be gone.
                await asyncio.sleep(1.5)
                snapshot = runtime.mirror.snapshot()
                waiting = snapshot.schedulable(snapshot.pods.values())
                feasibility = Feasibility.of(snapshot)
                for each in waiting:
                    assert not feasibility.feasible(each), f"{each} fits, and is not tried"
                waited += bool(waiting)
            assert waited > 0
