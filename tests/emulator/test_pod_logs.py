"""What kubectl logs, exec and their like are answered where no process runs, and where one does."""

import asyncio

from kubedsm_lab.emulator.actors.kubelet import ContainerRuntime
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.http.pod_logs import LogStream
from kubedsm_lab.emulator.http.routes import ApiRequest
from support.actor_world import NS, emulated
from support.api_cases import asked

LOG = f"/api/v1/namespaces/{NS}/pods/a/log"
SAID = (
    "kubedsm emulate: container c (pause) is reported as running on n1 since "
    "2026-01-01T00:00:00Z. No process runs in it, so it writes nothing.\n"
)


class Talking(ContainerRuntime):
    said = b"one\ntwo\n"

    def output(self, pod, container):
        return self.said


def log(world, name="a", **query):
    return asked(world.routes, "GET", f"/api/v1/namespaces/{NS}/pods/{name}/log", query=query)


def refusal(world, **query):
    status, body = log(world, **query)
    assert status == 400
    return body["message"]


async def test_it_says_since_when_and_that_nothing_runs():
    async with emulated() as world:
        world.pod("a", on="n1")
        await world.pass_time(5.0)
        assert log(world) == log(world, container="c") == (200, SAID)
        assert log(world, tailLines="0") == (200, "")
        assert log(world, tailLines="3") == (200, SAID)
        assert log(world, limitBytes="7") == (200, "kubedsm")


async def test_what_cannot_be_told_is_refused_in_a_sentence():
    async with emulated() as world:
        world.pod("a", on="n1")
        assert "waiting to start: ContainerCreating" in refusal(world)
        await world.pass_time()
        assert "not valid for pod a" in refusal(world, container="x")
        for option in ("previous", "timestamps", "sinceTime", "sinceSeconds"):
            assert refusal(world, **{option: "1"}).startswith(f"{option} has no answer here")
        world.pod("b")
        assert log(world, "b")[1]["message"] == (
            "pod b is on no node yet, so it has no log: it waits for its scheduler, kubedsm"
        )
        assert log(world, "ghost")[0] == 404
        both = world.pod("two")["spec"]["containers"][0]
        pod = {"metadata": {"name": "d"}, "spec": {"containers": [both, {**both, "name": "e"}]}}
        asked(world.routes, "POST", f"/api/v1/namespaces/{NS}/pods", pod)
        assert "choose one of: [c e]" in log(world, "d")[1]["message"]


def following(world):
    answer = world.routes.handle(ApiRequest("GET", LOG, {"follow": "true"}))
    assert isinstance(answer, LogStream)
    return answer


async def rest_of(stream):
    async with asyncio.timeout(60):
        return [piece async for piece in stream]


async def test_following_ends_with_the_pod():
    async with emulated() as world:
        world.pod("a", on="n1")
        await world.pass_time()
        stream = following(world)
        assert (await anext(stream)).decode() == SAID
        world.api.delete(PODS, NS, "a")
        assert await rest_of(stream) == []


async def test_what_a_process_said_is_shown_and_followed():
    runtime = Talking()
    async with emulated(runtime=runtime) as world:
        world.pod("a", on="n1")
        await world.pass_time()
        assert log(world) == (200, "one\ntwo\n")
        assert log(world, tailLines="1") == (200, "two\n")
        stream = following(world)
        await anext(stream)
        runtime.said += b"three\n"
        assert await anext(stream) == b"three\n"
        await stream.aclose()
