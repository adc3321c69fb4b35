"""Whatever is done to it, the cluster comes to what its specs say, and then to rest."""

import random

import pytest

from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import is_active
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, SERVICES
from support.actor_world import NODE_NAMES, NS, condition, emulated, owner_of, set_node_ready
from support.drawing import drawn_cases

APPS = ("a", "b", "c")


class Chaos:
    """Things that operators, schedulers and nodes do, at random."""

    def __init__(self, world, seed):
        self._world = world
        self._rng = random.Random(seed)

    async def act(self):
        deed = self._rng.choice(
            (
                self._scale,
                self._roll,
                self._delete_pod,
                self._detach,
                self._put_back,
                self._evict,
                self._fail,
                self._recreate,
                self._flip_node,
            )
        )
        try:
            deed(self._rng.choice(APPS))
        except ApiError as refused:
            # A budget that refuses, a pod that is bound or gone: as in life.
            if refused.status not in (404, 409, 429):
                raise
        await self._world.pass_time(self._rng.choice((0.0, 0.01, 0.1, 0.5)))

    def _pod(self, app):
        return self._rng.choice(self._world.pods(app) or [None])

    def _scale(self, app):
        self._world.scale(app, self._rng.randrange(6))

    def _roll(self, app):
        annotations = {"v": str(self._rng.randrange(3))}
        template = {"metadata": {"annotations": annotations}}
        self._world.patch(DEPLOYMENTS, app, {"spec": {"template": template}})

    def _delete_pod(self, app):
        if pod := self._pod(app):
            self._world.api.delete(PODS, NS, pod["metadata"]["name"])

    def _detach(self, app):
        pod = self._pod(app)
        suffix = pod and pod["metadata"]["labels"].get("pod-template-hash")
        if suffix:
            labels = {"pod-template-hash": None, "kubedsm.io/migrating": suffix}
            self._world.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": labels}})

    def _put_back(self, app):
        for pod in self._world.pods(app):
            if suffix := pod["metadata"]["labels"].get("kubedsm.io/migrating"):
                labels = {"pod-template-hash": suffix, "kubedsm.io/migrating": None}
                self._world.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": labels}})

    def _evict(self, app):
        if pod := self._pod(app):
            name = pod["metadata"]["name"]
            self._world.api.evict(NS, name, {"metadata": {"name": name}})

    def _fail(self, app):
        if pod := self._pod(app):
            failed = {"status": {"phase": "Failed", "conditions": []}}
            self._world.patch(PODS, pod["metadata"]["name"], failed, subresource="status")

    def _recreate(self, app):
        policy = self._rng.choice(("Background", "Foreground", "Orphan"))
        self._world.api.delete(DEPLOYMENTS, NS, app, propagation=policy)
        self._world.deployment(app, self._rng.randrange(1, 5))

    def _flip_node(self, _):
        set_node_ready(
            self._world, self._rng.choice(NODE_NAMES), self._rng.choice(("True", "Unknown"))
        )

    async def calm(self):
        for name in NODE_NAMES:
            set_node_ready(self._world, name, "True")
        await self._world.pass_time(30.0)
        for app in APPS:
            self._put_back(app)
            if app not in self._world.names(DEPLOYMENTS):
                self._world.deployment(app)
        await self._world.pass_time(5.0)
        for pod in self._world.pods():
            if not owner_of(pod):
                # Detached from a ReplicaSet that is gone: nothing in Kubernetes would remove it.
                self._world.api.delete(PODS, NS, pod["metadata"]["name"])


def furnish(world):
    for app in APPS:
        world.deployment(app, 3)
        budget = {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": 1}
        world.create(POD_DISRUPTION_BUDGETS, app, spec=budget)
        spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
        world.create(SERVICES, app, spec=spec)


@pytest.mark.parametrize("seed", drawn_cases(range(25)))
async def test_it_converges_and_then_is_quiet(seed):
    async with emulated(cpu="100", seed=seed) as world:
        world.schedule_always()
        furnish(world)
        chaos = Chaos(world, seed)
        for _ in range(60):
            await chaos.act()
        await chaos.calm()
        await world.pass_time(60.0)
        for app in APPS:
            deployment = world.get(DEPLOYMENTS, app)
            wanted = deployment["spec"]["replicas"]
            active = [pod for pod in world.pods(app) if is_active(pod)]
            assert len(active) == wanted
            assert deployment["status"].get("availableReplicas", 0) == wanted
            assert sum(rs["spec"]["replicas"] for rs in world.replica_sets(app)) == wanted
            assert condition(deployment, "Available")[0] == "True"
            budget = world.get(POD_DISRUPTION_BUDGETS, app)["status"]
            assert (budget["expectedPods"], budget["currentHealthy"]) == (wanted, wanted)
        revision = world.api.store.revision
        await world.pass_time(700.0)
        assert world.writes_since(revision) == []
