"""Requests through the proxies of Services to pods, which here are servers of this process."""

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from yarl import URL

from kubedsm.model.model import Tier
from kubedsm_lab.emulator.api.resources import ENDPOINTS, SERVICES
from kubedsm_lab.emulator.processes.pod_processes import PodProcess
from kubedsm_lab.emulator.processes.service_proxies import Forwarding, ServiceProxies
from kubedsm_lab.emulator.processes.usage import Accounts
from support.fixed_clock import FixedClock
from support.loopback import Server

pytestmark = pytest.mark.http
TIERS = {"e1": Tier.EDGE, "c1": Tier.CLOUD}
NETWORK = {Tier.EDGE: 0.02, Tier.CLOUD: 0.08}


class Clock(FixedClock):
    """Whoever sleeps has the time go on."""

    async def sleep(self, seconds):
        self.seconds += seconds


class Running:
    def __init__(self, url):
        self.url = url


class Lab:
    """Services, pods behind them, and who asks."""

    def __init__(self, api):
        self.api, self.pods, self.calls = api, {}, []
        self.clock, self.accounts, self.registry = Clock(), Accounts(), CollectorRegistry()

    def pod(self, uid, url, node="e1", namespace="default"):
        metadata = {"namespace": namespace, "name": f"pod-{uid}", "uid": uid}
        pod = {"metadata": metadata, "spec": {"nodeName": node}}
        running = url and Running(url)
        self.pods[uid] = PodProcess(pod, "c", (), lambda: None, process=running)

    def service(self, name, *uids, namespace="default"):
        spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
        self.api.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, namespace=namespace)
        addresses = [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "uid": uid}} for uid in uids]
        subsets = [{"addresses": addresses, "ports": [{"port": 80}]}] if uids else []
        metadata = {"name": name}
        self.api.create(ENDPOINTS, {"metadata": metadata, "subsets": subsets}, namespace=namespace)

    async def get(self, url, **options):
        async with self.http.request(options.pop("method", "GET"), url, **options) as answer:
            return answer.status, await answer.text()

    def observed(self, part, **labels):
        name = f"kubedsm_lab_request_duration_seconds_{part}"
        return self.registry.get_sample_value(name, labels)

    @asynccontextmanager
    async def open(self):
        rng, changed = random.Random(1), asyncio.Event()
        async with (
            aiohttp.ClientSession() as self.http,
            Forwarding(self.clock, self.accounts, NETWORK, TIERS.get, self.registry) as forward,
            ServiceProxies(self.api.store, self.pods, forward, rng, changed.set) as self.proxies,
            asyncio.TaskGroup() as tasks,
        ):
            self.forget_others = forward.forget_others
            following = tasks.create_task(self.proxies.follow())
            await changed.wait()
            changed.clear()
            yield changed
            following.cancel()


@pytest.fixture
def lab(api):
    return Lab(api)


async def says(request):
    body = await request.text()
    told = f"{request.method} {request.raw_path} {request.headers.get('X-User')} {body}"
    return web.Response(text=told, status=201, headers={"X-Own": "kept"})


async def test_all_of_a_request_and_of_its_answer_pass(lab):
    async with Server(says) as pod:
        lab.pod("a", pod.url)
        lab.service("cart", "a")
        async with lab.open():
            url = URL(f"{lab.proxies.urls['default', 'cart']}/x%20y?z=%2F", encoded=True)
            headers = {"X-User": "ann"}
            async with lab.http.put(url, data=b"body", headers=headers) as answer:
                assert await answer.text() == "PUT /x%20y?z=%2F ann body"
                assert (answer.status, answer.headers["X-Own"]) == (201, "kept")
                assert answer.headers["X-Served-By"] == "pod-a"


async def test_requests_go_to_pods_with_equal_chances_and_take_their_tiers_time(lab):
    async with Server(says) as pod:
        for uid, node in {"a": "e1", "b": "c1", "c": "c1"}.items():
            lab.pod(uid, pod.url, node)
        lab.pod("d", None)
        lab.service("cart", "a", "b", "c", "d", "unknown")
        async with lab.open():
            for _ in range(60):
                await lab.get(lab.proxies.urls["default", "cart"])
    counts = Counter()
    for uid, tier, network in (("a", "edge", 0.02), ("b", "cloud", 0.08), ("c", "cloud", 0.08)):
        labels = {"namespace": "default", "pod": f"pod-{uid}", "tier": tier, "service": "cart"}
        counts[uid] = lab.observed("count", **labels)
        assert lab.observed("sum", **labels) == pytest.approx(counts[uid] * network)
        assert 12 <= counts[uid] <= 28
    assert counts.total() == 60


async def test_where_no_pod_is_ready_it_is_said(lab):
    lab.pod("a", None)
    lab.service("cart", "a")
    lab.service("video")
    async with lab.open():
        for name in ("cart", "video"):
            why = f"no Ready endpoint of Service default/{name}\n"
            assert await lab.get(lab.proxies.urls["default", name]) == (503, why)


async def test_a_pod_that_does_not_answer_is_an_error_of_the_proxy(lab):
    async with Server(says) as pod:
        lab.pod("a", pod.url)
    lab.service("cart", "a")
    async with lab.open():
        status, text = await lab.get(lab.proxies.urls["default", "cart"])
    assert status == 502
    assert text.startswith("pod default/pod-a: ")


async def test_a_service_that_goes_has_no_proxy_any_more(lab):
    lab.service("cart")
    async with lab.open() as changed:
        url = lab.proxies.urls["default", "cart"]
        lab.api.delete(SERVICES, "default", "cart")
        await changed.wait()
        assert lab.proxies.urls == {}
        with pytest.raises(aiohttp.ClientConnectorError):
            await lab.get(url)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("cart", True),
        ("cart.shop", True),
        ("cart.shop.svc.cluster.local", True),
        ("cart.default", False),
    ],
)
async def test_pods_find_services_by_their_names_in_the_clusters_dns(lab, host, found):
    async with Server(says) as pod:
        lab.pod("a", pod.url, namespace="shop")
        lab.pod("b", pod.url, namespace="shop")
        lab.service("cart", "a", namespace="shop")
        async with lab.open():
            proxy = lab.proxies.environment("b")["http_proxy"]
            answer = await lab.get(f"http://{host}/x", proxy=proxy)
    missing = (502, "no Service default/cart\n")
    assert answer == ((201, "GET /x None ") if found else missing)


async def test_bytes_count_for_who_asks_and_for_who_is_asked(lab):
    async with Server(lambda _: _answer(b"x" * 5000)) as pod:
        lab.pod("a", pod.url, "e1")
        lab.pod("b", pod.url, "c1")
        lab.service("cart", "a")
        async with lab.open():
            proxy = lab.proxies.environment("b")["http_proxy"]
            await lab.get("http://cart/", method="POST", data=b"y" * 3000, proxy=proxy)
    asked, asks = lab.accounts.pods["a"], lab.accounts.pods["b"]
    assert 3000 < asked.received == asks.sent < 3500
    assert 5000 < asked.sent == asks.received < 5500
    assert (lab.accounts.nodes["e1"], lab.accounts.nodes["c1"]) == (asked, asks)


async def _answer(body):
    return web.Response(body=body)
