"""The page, from inside, and `kubedsm status`, from outside, tell the same state."""

import asyncio

from prometheus_client import generate_latest

from kubedsm import __version__
from kubedsm.cli.cluster import read_snapshot
from kubedsm.inspection.gathering import Gatherer
from kubedsm.inspection.overview import PARTS, Scope, summarise
from kubedsm.kube.calls import leases
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.port import ObjectName, Response
from kubedsm.model.model import Workload
from kubedsm.observability.gauges import families
from kubedsm.observability.health import readiness
from kubedsm.observability.instruments import Families
from kubedsm.observability.reading import Leadership, read
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.front import EmulatedFront
from support.proposals import OWN
from support.proxied import Proxied
from support.viewing import Viewer
from support.worlds import CLOUD, EDGE, emulated


def answers_of(world):
    """Return the function that answers as the scheduler of the world."""

    def answer(path):
        if path == "readyz":
            health = readiness(world.runtime, Leadership())
            return Response(200 if health.well else 503, health.text(verbose=True).encode())
        reading = read(world.runtime, Leadership(), world.clock.wall())
        return Response(200, generate_latest(Families(tuple(families(reading)))))

    return answer


async def look_from_outside(world):
    """Return the overview that `kubedsm status` prints."""
    front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
    cluster = ExplainedCluster(Proxied(front, answers_of(world)), "https://api")
    term = leases.term_of("kubedsm-0_1", 15.0, world.clock.wall(), 0)
    known = await leases.read(cluster, ObjectName())
    await leases.write(cluster, ObjectName(), known, term)
    gatherer = Gatherer(cluster, ObjectName(), world.clock, __version__, read_snapshot)
    return summarise(await gatherer.gather(PARTS), Scope())


async def test_both_tell_the_same_state_and_the_same_reasons():
    async with emulated(EDGE, CLOUD) as world:
        world.namespace(OWN)
        viewer = Viewer(world)
        async with world.scheduler(listener=viewer.scene) as runtime:
            await runtime.synced.wait()

            async def agree(state, *rules):
                viewer.look()
                overview = await look_from_outside(world)
                assert overview.state.errors == {}
                assert overview.health.state == state
                assert viewer.status.get("state", "healthy") == state
                assert {p.rule for p in overview.health.problems} == set(rules)
                page = [*viewer.status.get("troubles", ()), *viewer.status.get("notices", ())]
                assert len(page) == len(overview.health.problems)
                assert viewer.status.get("edgeCpuFree", 0) == overview.facts.edge.cpu_free
                return overview

            world.deploy("web", 2)
            await world.until_bound(2, 5)
            await asyncio.sleep(1)
            overview = await agree("healthy")
            process = overview.state.scheduler
            assert (process.ready, process.version) == (True, __version__)
            assert process.targets == {Workload("default", "Deployment", "web"): 1.0}
            for name in ("kubedsm_configuration_valid", "kubedsm_paused"):
                assert name in process.metrics
            world.deploy("huge", 1, cpu="64")
            await asyncio.sleep(15)
            await agree("degraded", "PodsPending")
            world.deploy("many", 6)
            await asyncio.sleep(15)
            await agree("degraded", "PodsPending", "BelowTarget")
            patch = {"metadata": {"labels": {"kubedsm.io/tier": "cloud", "nodetype": "cloud"}}}
            world.patch(NODES, "e1", patch)
            await asyncio.sleep(15)
            await agree("degraded", "PodsPending", "BelowTarget", "TierEmpty")
