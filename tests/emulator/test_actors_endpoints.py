from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.api.resources import ENDPOINTS, PODS, SERVICES
from support.actor_world import NS, emulated


def service(world, name="web", target_port="http", **spec):
    ports = [{"name": "http", "port": 80, "targetPort": target_port}]
    spec = {"selector": {"app": name}, "ports": ports, **spec}
    world.create(SERVICES, name, labels={"team": "a"}, spec=spec)


async def test_ready_and_not_ready_addresses():
    async with emulated() as world:
        service(world)
        ready = world.pod("ready", on="n1", labels={"app": "web"})
        world.pod("slow", on="n2", labels={"app": "web"}, annotations={NEVER_READY: "true"})
        world.pod("other", on="n2", labels={"app": "other"})
        await world.pass_time()
        endpoints = world.get(ENDPOINTS, "web")
        (subset,) = endpoints["subsets"]
        (address,) = subset["addresses"]
        assert address == {
            "ip": world.get(PODS, "ready")["status"]["podIP"],
            "nodeName": "n1",
            "targetRef": {
                "kind": "Pod",
                "namespace": NS,
                "name": "ready",
                "uid": ready["metadata"]["uid"],
            },
        }
        assert [a["targetRef"]["name"] for a in subset["notReadyAddresses"]] == ["slow"]
        assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert endpoints["metadata"]["labels"]["team"] == "a"


async def test_a_terminating_pod_is_no_endpoint():
    async with emulated(stop_delay=5.0) as world:
        service(world, target_port=9000)
        world.pod("p", on="n1", labels={"app": "web"})
        await world.pass_time()
        assert world.get(ENDPOINTS, "web")["subsets"][0]["ports"][0]["port"] == 9000
        world.api.delete(PODS, NS, "p", grace_seconds=30)
        await world.pass_time()
        assert "subsets" not in world.get(ENDPOINTS, "web")


async def test_a_detached_pod_is_still_served():
    async with emulated() as world:
        service(world)
        await world.bring_up(2)
        name = world.pods("web")[0]["metadata"]["name"]
        world.patch(PODS, name, {"metadata": {"labels": {"pod-template-hash": None}}})
        await world.pass_time(1.0)
        (subset,) = world.get(ENDPOINTS, "web")["subsets"]
        assert len(subset["addresses"]) == 3
