"""Replicas of neighbouring versions: keys of the former one, and objects of the next one."""

import json

import msgspec
import pytest
import structlog

from kubedsm.app.live_configuration import ConfigurationNews
from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.settings import Configuration, list_deprecated, load
from kubedsm.execution.migration_record import ANNOTATION
from kubedsm.kube.calls import leases
from kubedsm.kube.client.port import ObjectName
from kubedsm.kube.wire.annotations import MoveRequest, RequestAnswer, answer_in, request_in
from kubedsm_lab.emulator.api.resources import LEASES, PODS
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.command_line import kubedsm
from support.move_scenes import LARGE_CLOUD, is_detached, migrating, open_edge
from support.processes import write

FORMER = "suggester: {mode: suggest, minGain: 0.5}"
TOLD = "suggester.minGain is deprecated and ignored: migration.price is the benefit that a"


def test_a_key_that_was_removed_is_accepted_and_named_with_the_remedy(tmp_path):
    assert load(FORMER, "test") == load("suggester: {mode: suggest}", "test")
    (line,) = list_deprecated(FORMER)
    assert line.startswith(TOLD)
    done = kubedsm("config", "check", write(tmp_path, "config.yaml", FORMER))
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert TOLD in done.stderr
    done = kubedsm("config", "check", write(tmp_path, "config.yaml", FORMER), "-o", "json")
    assert json.loads(done.stdout)["deprecated"] == [line]


async def test_the_log_names_a_deprecated_key_once():
    news = ConfigurationNews(CurrentConfiguration(Configuration()), VirtualClock())
    with structlog.testing.capture_logs() as said:
        for text in (FORMER, FORMER, "{}", FORMER):
            assert news.apply_document(text, "test") == ""
    warned = [line for line in said if line["event"] == "configuration key deprecated"]
    assert len(warned) == 2


def extended(text):
    """A JSON object with a field that this version does not know."""
    return json.dumps({**json.loads(text), "future": {"a": [1]}})


def reduced(text):
    """The fields of a migration annotation that every version writes."""
    mark = json.loads(text)
    return json.dumps({"replicaSet": mark["replicaSet"], "uid": mark["uid"]})


@pytest.mark.parametrize("as_written", [extended, reduced])
async def test_a_migration_of_another_version_is_rolled_back_or_finished(as_written):
    async with migrating(LARGE_CLOUD) as world:
        async with world.scheduler():
            world.deploy("web", 2)
            await world.until_bound(2, 3)
            open_edge(world)
            await world.until(lambda: any(map(is_detached, world.pods())), 20)
        for pod in filter(is_detached, world.pods()):
            annotations = pod["metadata"]["annotations"]
            newer = {"kubedsm.io/move": as_written(annotations["kubedsm.io/move"])}
            patch = {"metadata": {"annotations": {**newer, "kubedsm.io/future": "1"}}}
            world.patch(PODS, pod["metadata"]["name"], patch)
        async with world.scheduler(seed=1):
            await world.until(lambda: not any(map(is_detached, world.pods())), 60)
            await world.until(lambda: world.placed("web") == {"e1": 2}, 60)


def test_requests_and_answers_of_a_newer_client_are_read():
    request = MoveRequest("r", 1.0, "p")
    assert request_in(extended(str(request))) == request
    answer = RequestAnswer("r", "ended", "done")
    assert answer_in(extended(str(answer))) == answer
    assert answer_in(extended(str(msgspec.structs.replace(answer, state="odd")))) is None


async def test_an_older_leader_keeps_annotations_of_a_newer_one_on_the_lease():
    async with migrating(LARGE_CLOUD) as world:
        world.namespace("kubedsm")
        newer = {"name": "kubedsm", "annotations": {"kubedsm.io/future": "1"}}
        world.api.create(LEASES, {"metadata": newer}, namespace="kubedsm")
        front, name = EmulatedFront(world.cluster.routes, world.clock), ObjectName()
        found = await leases.read(front, name)
        term = leases.term_of("us", 15.0, world.clock.wall(), 0)
        await leases.write(front, name, found, term, annotations={ANNOTATION: "[]"})
        kept = world.api.get(LEASES, "kubedsm", "kubedsm")["metadata"]["annotations"]
        assert kept == {"kubedsm.io/future": "1", ANNOTATION: "[]"}
