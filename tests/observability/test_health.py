"""What a kubelet is told: when to start the process anew, and when it does its work."""

import asyncio

import attrs
import pytest
from prometheus_client import Histogram, generate_latest
from prometheus_client.registry import CollectorRegistry
from structlog.testing import capture_logs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.kube.calls.explained_cluster import right_for
from kubedsm.kube.client.port import OutcomeUnknown, Request, Unreachable
from kubedsm.kube.watching.reflector import PAGE_SIZE
from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import QosTarget
from kubedsm.observability.gauges import MOST, choose_workloads, qos_gap, workload_families
from kubedsm.observability.health import HOPELESS_AFTER, alive, readiness, ready
from kubedsm.observability.instruments import SAMPLE, Families, watch_the_loop
from kubedsm.observability.measured_cluster import MeasuredCluster
from kubedsm.observability.reading import Leadership
from kubedsm_lab.emulator.front import RequestFault
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.answering_cluster import AnsweringCluster
from support.faults import Failing
from support.metered import samples, total
from support.worlds import EDGE, emulated

LEADING = Leadership()


def test_readiness_is_one_word_unless_something_fails_or_more_is_asked_for():
    health = ready([], LEADING, CurrentConfiguration())
    assert (health.well, health.text(verbose=False)) == (True, "ok")
    assert health.text(verbose=True).splitlines() == [
        "[+]synced ok",
        "[+]leader-election ok",
        "[+]configuration ok",
        "readyz check passed",
    ]
    health = ready(["Pod", "Node"], LEADING, CurrentConfiguration())
    assert not health.well
    assert "[-]synced failed: not listed yet: Pod, Node\n" in health.text(verbose=False)
    assert health.text(verbose=False).endswith("readyz check failed\n")


def test_a_standby_and_a_refused_configuration_are_told_and_leave_it_ready():
    standby = ready([], Leadership(leading=False, holder="other-pod"), CurrentConfiguration())
    assert standby.well
    assert "[+]leader-election ok: other-pod leads" in standby.text(verbose=False)
    lost = ready([], Leadership(leading=False), CurrentConfiguration())
    assert not lost.well
    assert "[-]leader-election failed: no leader is known" in lost.text(verbose=False)
    configuration = CurrentConfiguration(generation=2)
    configuration.refuse("batch.idle: 5 is no")
    health = ready([], LEADING, configuration)
    assert health.well
    said = "[+]configuration ok: generation 2 stays, a newer one is refused: batch.idle: 5 is no"
    assert said in health.text(verbose=False).splitlines()


async def is_not_ready_while(late, kind, others=0):
    """Check that a scheduler is ready, and binds, once requests for a kind no longer fail; there
    are pods of another scheduler, too.
    """
    async with emulated(EDGE) as world:
        for number in range(others):
            world.create_pod(f"other-{number}", schedulerName="other")
        async with world.scheduler(faults=late) as runtime:
            world.deploy("web", 1)
            await asyncio.sleep(20)
            assert late.count
            health = readiness(runtime, LEADING)
            assert not health.well
            assert f"[-]synced failed: not listed yet: {kind}\n" in health.text(verbose=False)
            assert world.placed("web") == {None: 1}
            late.on = False
            await world.until_bound(1, 60)
            assert readiness(runtime, LEADING).well


@pytest.mark.parametrize(
    ("plural", "kind"), [("nodes", "Node"), ("pods", "Pod"), ("csinodes", "CSINode")]
)
async def test_it_is_not_ready_and_binds_nothing_before_every_kind_is_listed(plural, kind):
    refused = RequestFault(Unreachable("refused"))
    late = Failing(lambda request: request.path.endswith(f"/{plural}"), refused)
    await is_not_ready_while(late, kind)


async def test_nor_before_the_last_page_of_a_long_list():
    late = Failing(
        lambda request: "continue" in request.query, RequestFault(Unreachable("refused"))
    )
    await is_not_ready_while(late, "Pod", others=PAGE_SIZE)


def test_a_loop_that_fails_for_long_makes_the_process_unhealthy():
    assert alive({}).text(verbose=False) == "ok"
    assert alive({}).text(verbose=True).startswith("[+]event-loop ok\n[+]loops ok\n")
    failing = alive({"recorder": HOPELESS_AFTER - 1})
    assert failing.well
    assert "[+]loops/recorder ok: has failed repeatedly for 299 s" in failing.text(verbose=False)
    hopeless = alive({"recorder": HOPELESS_AFTER, "suggester": 1.0})
    assert not hopeless.well
    assert "[-]loops/recorder failed: " in hopeless.text(verbose=False)


@attrs.define
class Late:
    """A clock whose sleeps last longer, each by the next of these."""

    lags: list
    clock: VirtualClock = attrs.field(factory=VirtualClock)

    def monotonic(self):
        return self.clock.monotonic()

    async def sleep(self, seconds):
        await asyncio.sleep(seconds + (self.lags.pop(0) if self.lags else 0.0))


async def watched(lags, seconds):
    registry = CollectorRegistry()
    lag = Histogram("lag", "lag", buckets=(0.01, 0.05, 0.5), registry=registry)
    with capture_logs() as logs:
        watching = asyncio.ensure_future(watch_the_loop(Late(lags), lag.observe))
        await asyncio.sleep(seconds)
        watching.cancel()
    counts = [
        registry.get_sample_value("lag_bucket", {"le": le}) for le in ("0.01", "0.05", "+Inf")
    ]
    return counts, [(line["milliseconds"], line["more"]) for line in logs]


async def test_lags_are_counted_and_the_long_ones_said_once_a_minute():
    assert await watched([], 100.5 * SAMPLE) == ([100, 100, 100], [])
    counts, said = await watched([0.04, 0.2, 0.6], 62.0)
    assert counts[1] - counts[0] == 1
    assert counts[2] - counts[1] == 2
    assert said == [(600, 0)]
    _, said = await watched([0.6, 0.55, 0.45] + [0.0] * 1300 + [0.7], 75.0)
    assert said == [(600, 0), (700, 1)]


def workloads(namespace, count):
    return {Workload(namespace, "Deployment", f"w{n:05}"): Share(0, 2) for n in range(count)}


def text_of(shares):
    families = workload_families(shares, lambda _: QosTarget())
    return generate_latest(Families(tuple(families))).decode()


def test_many_workloads_of_one_namespace_leave_room_for_others_and_count_in_sums():
    shares = workloads("greedy", 10 * MOST) | workloads("shop", 3) | workloads("zoo", 1)
    taken = choose_workloads(shares)
    assert len(taken) == MOST
    assert set(workloads("shop", 3)) | set(workloads("zoo", 1)) <= set(taken)
    assert choose_workloads(dict(reversed(shares.items()))) == taken
    shares = workloads("greedy", 2 * MOST)
    text = text_of(shares)
    assert len([s for s in samples(text) if s.name == "kubedsm_workload_qos_gap"]) == MOST
    assert total(text, "kubedsm_workloads") == 2 * MOST
    assert total(text, "kubedsm_workloads_below_promise") == 2 * MOST
    assert total(text, "kubedsm_workloads_without_series") == MOST


def test_odd_names_surpluses_and_no_workloads_make_no_odd_series():
    odd = {Workload("a", "Pod", 'x"} 1\nevil{a="\\'): Share(1, 1)}
    [series] = [s for s in samples(text_of(odd)) if s.name == "kubedsm_workload_pods"]
    assert series.labels["workload"] == 'x"} 1\nevil{a="\\'
    assert "\nevil" not in text_of(odd)
    assert qos_gap(Share(4, 4), 0.5) == 0
    assert qos_gap(Share(1, 4), 0.5) == 0.25
    assert total(text_of({}), "kubedsm_edge_share") == 0


NAMED = [
    (Request("GET", "/api/v1/pods", {"limit": "500"}), "list", "pods"),
    (Request("GET", "/api/v1/pods", {"watch": "1"}), "watch", "pods"),
    (Request("GET", "/api/v1/namespaces/shop/pods"), "list", "pods"),
    (Request("GET", "/api/v1/namespaces/shop/pods/cart-1"), "get", "pods"),
    (Request("POST", "/api/v1/namespaces/shop/pods/cart-1/binding"), "create", "pods/binding"),
    (Request("POST", "/api/v1/namespaces/shop/pods/c/eviction"), "create", "pods/eviction"),
    (Request("PATCH", "/api/v1/namespaces/shop/pods/cart-1/status"), "patch", "pods/status"),
    (Request("POST", "/apis/events.k8s.io/v1/namespaces/shop/events"), "create", "events"),
    (Request("GET", "/apis/apps/v1/namespaces/shop/deployments/cart"), "get", "deployments"),
    (Request("GET", "/api/v1/namespaces"), "list", "namespaces"),
    (Request("GET", "/apis/storage.k8s.io/v1/csinodes"), "list", "csinodes"),
    (Request("PUT", "/apis/coordination.k8s.io/v1/namespaces/k/leases/k"), "update", "leases"),
    (Request("GET", "/version"), "get", "/version"),
]


def test_a_request_is_named_as_rbac_does():
    for request, verb, resource in NAMED:
        right, _ = right_for(request)
        assert (right.verb, right.resource) == (verb, resource)


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        ({}, 200, "200"),
        ({}, 409, "409"),
        (Unreachable("no"), 0, "<error>"),
        (OutcomeUnknown("late"), 0, "<error>"),
    ],
)
async def test_a_request_is_told_with_its_code(answer, status, code):
    told = []
    cluster = MeasuredCluster(
        AnsweringCluster(answer, status), VirtualClock(), lambda _, code, __: told.append(code)
    )
    if isinstance(answer, Exception):
        with pytest.raises(type(answer)):
            await cluster.request(Request("GET", "/version"), timeout=1)
    else:
        assert (await cluster.request(Request("GET", "/version"), timeout=1)).status == status
    assert told == [code]
