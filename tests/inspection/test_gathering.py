"""Gathering of an emulated cluster with different rights; the page and `status` tell the same."""

import asyncio

import pytest
from click import ClickException
from prometheus_client import generate_latest

from kubedsm import __version__
from kubedsm.cli.cluster import read_snapshot, select_pods
from kubedsm.inspection.checks import parts_needed, run_checks
from kubedsm.inspection.gathering import Gatherer
from kubedsm.inspection.overview import PARTS, Scope, summarise
from kubedsm.kube.calls import leases
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.client.port import ClusterFront, ObjectName, Response, Unreachable
from kubedsm.model.model import Workload
from kubedsm.observability.gauges import families
from kubedsm.observability.health import readiness
from kubedsm.observability.instruments import Families
from kubedsm.observability.reading import Leadership, read
from kubedsm_lab.emulator.api.resources import NODES, SERVICE_ACCOUNTS
from kubedsm_lab.emulator.front import EmulatedFront
from support.answering_cluster import AnsweringCluster
from support.proposals import OWN
from support.rights import ADMIN_TOKEN, Right, install, token_of
from support.viewing import Viewer
from support.worlds import CLOUD, EDGE, emulated

EVICT = Right("ClusterRole", "", "pods/eviction", "create")
FORMER = "suggester: {period: 9s, minGain: 0.5}"
PROXY = "/api/v1/namespaces/kubedsm/pods/kubedsm-0:10271/proxy/"


class Proxied(ClusterFront):
    """Cluster whose API server passes requests on to the scheduler's metrics port, as real ones do;
    `answer` gives the response of the pod to a path.
    """

    def __init__(self, cluster, answer):
        super().__init__(cluster)
        self.answer = answer

    async def request(self, request, *, timeout):
        if request.path.startswith(PROXY):
            return self.answer(request.path.removeprefix(PROXY))
        return await self.cluster.request(request, timeout=timeout)


def gatherer(world, token=ADMIN_TOKEN):
    front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01, token=token)
    cluster = ExplainedCluster(front, "https://api")
    return Gatherer(cluster, ObjectName(), world.clock, "0.1.0", read_snapshot)


def verdicts(state, **options):
    return {(each.group, each.verdict, each.text) for each in run_checks(state, **options)}


def texts(state, verdict, **options):
    return sorted(text for _, found, text in verdicts(state, **options) if found == verdict)


async def test_an_administrator_reads_everything_of_an_installation():
    async with emulated(EDGE, CLOUD, admin_token=ADMIN_TOKEN) as world:
        world.token = install(world.cluster)
        world.config_map(**{"config.yaml": FORMER})
        async with world.scheduler():
            world.deploy("web", 2)
            world.deploy("huge", 1, cpu="64")
            await world.until_bound(2, 5)
            term = leases.term_of("kubedsm-0_1", 15.0, world.clock.wall(), 0)
            await leases.write(gatherer(world).cluster, ObjectName(), None, term)
            state = await gatherer(world).gather(parts_needed())
    assert state.user == "admin"
    assert abs(state.skew) < 1
    assert state.configuration.suggester.period == 9
    assert [line.partition(" ")[0] for line in state.deprecated] == ["suggester.minGain"]
    assert state.leader == "kubedsm-0"
    assert not any(state.denied.values())
    assert state.denied.keys() >= {"placing", "migrations", "leader-election"}
    assert [pod.name.startswith("huge-") for pod in state.waiting] == [True]
    assert state.waiting[0].message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    # No process runs in an emulated pod.
    assert state.errors.keys() == {"scheduler"}
    assert summarise(state, Scope()).health.state in ("healthy", "degraded")


async def test_a_mistyped_pause_is_named():
    async with emulated(EDGE, CLOUD, admin_token=ADMIN_TOKEN) as world:
        install(world.cluster)
        world.config_map(paused="ture")
        state = await gatherer(world).gather(["configuration"])
        assert (state.configured, state.pause_reason) == (
            False,
            "paused: 'ture' is neither true nor false; migrations are paused until it is",
        )


async def test_a_missing_right_is_found_by_the_administrator_and_by_the_account_itself():
    async with emulated(EDGE, CLOUD, admin_token=ADMIN_TOKEN) as world:
        own = install(world.cluster, EVICT)
        for token in (ADMIN_TOKEN, own):
            state = await gatherer(world, token).gather(["user", "configuration", "rights"])
            assert state.denied["migrations"] == ["create pods/eviction"]
            assert state.denied["placing"] == []
            assert "rights" not in state.errors


async def test_a_user_without_rights_is_told_what_was_not_checked():
    async with emulated(EDGE, CLOUD, admin_token=ADMIN_TOKEN) as world:
        install(world.cluster)
        world.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "guest"}}, namespace="default")
        guest = gatherer(world, token_of(world.cluster, "default", "guest"))
        state = await guest.gather(parts_needed())
        said = texts(state, "warn")
        for part in ("rights", "snapshot", "lease", "budgets"):
            assert any(text.startswith(f"{part} not checked: no right to") for text in said), part
        user = "system:serviceaccount:default:guest"
        assert texts(state, "fail") == [f"{user} may read nothing of the installation"]
        before = await guest.gather(parts_needed(before=True), installing=True)
        [denied] = texts(before, "fail", before=True)
        assert denied.startswith("system:serviceaccount:default:guest has no right to create")


METRICS = """\
# TYPE kubedsm_build_info gauge
kubedsm_build_info{version="0.2.0",python_version="3.12"} 1.0
# TYPE kubedsm_watch_troubled gauge
kubedsm_watch_troubled{kind="Pod"} 0.0
kubedsm_watch_troubled{kind="Node"} 1.0
# TYPE kubedsm_workload_promised_edge_share gauge
kubedsm_workload_promised_edge_share{namespace="shop",kind="Deployment",workload="web"} 0.5
# TYPE kubedsm_paused gauge
kubedsm_paused 1.0
"""


async def through_proxy(world, ready=200, metrics=METRICS):
    """Return the state with a leader whose answers come through the API server's proxy."""
    own = gatherer(world)
    world.namespace(OWN)
    term = leases.term_of("kubedsm-0_1", 15.0, world.clock.wall(), 0)
    await leases.write(own.cluster, ObjectName(), None, term)
    answers = {"readyz": Response(ready, b"[+]synced ok\n"), "metrics": Response(ready, metrics)}
    own.cluster.cluster = Proxied(own.cluster.cluster, answers.__getitem__)
    return await own.gather(["user", "lease", "scheduler"])


async def test_the_leaders_metrics_come_through_the_api_servers_proxy():
    async with emulated(EDGE, CLOUD) as world:
        state = await through_proxy(world, metrics=METRICS.encode())
    process = state.scheduler
    assert (process.where, process.ready, process.version) == ("pod kubedsm-0", True, "0.2.0")
    assert process.troubled == ("Node",)
    assert process.targets == {Workload("shop", "Deployment", "web"): 0.5}
    assert process.metrics["kubedsm_paused"] == 1
    assert state.errors == {}


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        (b'{"kind": "Status", "code": 503, "message": "no route"}', "503 ServiceUnavailable: no"),
        (b"<html>", "pod kubedsm-0 does not answer with metrics"),
    ],
)
async def test_a_proxy_that_answers_otherwise_is_an_error_of_that_part(metrics, why):
    async with emulated(EDGE, CLOUD) as world:
        state = await through_proxy(world, 503, metrics)
    assert state.scheduler is None
    assert why in state.errors["scheduler"]


async def test_a_leader_with_a_slow_clock_leads_and_a_dead_one_does_not():
    async with emulated(EDGE, CLOUD) as world:
        own = gatherer(world)
        world.namespace(OWN)
        term = leases.term_of("kubedsm-0_1", 15.0, world.clock.wall() - 100, 0)
        lease = await leases.write(own.cluster, ObjectName(), None, term)
        state = await own.gather(["user", "lease"])
        assert (state.is_led, state.leader) == (False, "")

        async def renew():
            await world.clock.sleep(1.0)
            again = term.renew_at(world.clock.wall() - 100)
            await leases.write(own.cluster, ObjectName(), lease, again)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(renew())
            state = await own.gather(["user", "lease"])
        assert (state.is_led, state.leader) == (True, "kubedsm-0")
        assert any("s behind the API server's" in text for text in texts(state, "warn"))


async def test_an_unreachable_server_and_a_bad_selector_are_errors():
    async with emulated(EDGE, CLOUD) as world:
        cluster = ExplainedCluster(
            AnsweringCluster(Unreachable("https://api: refused")), "https://api"
        )
        lost = Gatherer(cluster, ObjectName(), world.clock, "0.1.0", None)
        with pytest.raises(Unreachable, match="refused"):
            await lost.gather(PARTS)
        with pytest.raises(ClickException, match=r"^-l a=b=c: .*unable to parse"):
            await select_pods(gatherer(world).cluster, "a=b=c")
        world.deploy("web", 2)
        chosen = await select_pods(gatherer(world).cluster, "app=web")
        assert len(chosen) == 2
        assert all(name.startswith("default/web-") for name in chosen.values())


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

            await world.bring_up("web", 2, within=5)
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
