"""A configuration edited meanwhile holds at once or is refused; replicas of different versions."""

import asyncio
import json
from contextlib import asynccontextmanager

import attrs
import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from kubedsm.app.live_configuration import KEY, ConfigurationFile, ConfigurationNews
from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.settings import Configuration, list_deprecated, load
from kubedsm.execution.migration_record import ANNOTATION
from kubedsm.kube.calls import leases
from kubedsm.kube.client.port import ObjectName
from kubedsm.kube.wire.annotations import MoveRequest, RequestAnswer, answer_in, request_in
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, EVENTS, LEASES, PODS
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.command_line import kubedsm
from support.full_clusters import urgent
from support.move_scenes import LARGE_CLOUD, is_detached, migrating, open_edge
from support.processes import write
from support.worlds import CLOUD, EDGE, emulated

NAME = ObjectName("kubedsm", "kubedsm")
#: seconds within which a change must show
AT_ONCE = 2.0
GOOD = "services: {default/web: {weight: 2}}"


@attrs.frozen
class Edited:
    """A world whose scheduler follows a ConfigMap."""

    world: object

    @property
    def holds(self):
        return self.world.runtime.configuration

    def edit(self, text):
        self.patch(**{KEY: text})

    def patch(self, **data):
        self.world.patch(CONFIGMAPS, NAME.name, {"data": data}, namespace=NAME.namespace)

    def write(self, text=GOOD):
        self.world.config_map(**{KEY: text})

    def delete(self):
        self.world.api.delete(CONFIGMAPS, NAME.namespace, NAME.name)

    def refusals(self):
        listed = self.world.api.list(EVENTS, NAME.namespace)
        return [e for e in listed if e["reason"] == "ConfigurationRefused"]

    async def holds_soon(self, text):
        await self.world.until(lambda: self.holds.current == load(text, "x"), AT_ONCE)
        assert self.holds.valid


async def churn(world):
    """Pods that come and go, a burst every second."""
    world.deploy("burst", 1, cpu="100m", memory="1Mi")
    for number in range(1000):
        world.scale("burst", 3 if number % 2 else 6)
        await asyncio.sleep(1)


@asynccontextmanager
async def edited(*nodes, text=GOOD, churning=True):
    configuration = load(text, "test")
    async with emulated(*nodes, configuration=configuration, source=NAME) as world:
        scene = Edited(world)
        scene.write(text)
        async with world.scheduler() as runtime:
            coming_and_going = asyncio.ensure_future(churn(world)) if churning else None
            await asyncio.sleep(3)
            yield scene
            if coming_and_going is not None:
                coming_and_going.cancel()
            assert not runtime.supervisor.caught


REFUSED = {
    "suggester: {perod: 1s}": "suggester.perod: unknown key; did you mean period?",
    "schedulerName: other": "schedulerName: 'other' needs a restart; until then it is 'kubedsm'",
    "x" * 1_000_000: "longer than 65536 bytes",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=lambda text: text[:30])
async def test_a_bad_one_is_refused_with_an_event_and_the_last_good_one_stays(text, why):
    async with edited(EDGE, CLOUD) as scene:
        world, good = scene.world, scene.holds.current
        scene.edit(text)
        await world.until(scene.refusals, AT_ONCE)
        [event] = scene.refusals()
        assert event["type"] == "Warning"
        assert event["involvedObject"]["kind"] == "ConfigMap"
        assert event["involvedObject"]["name"] == NAME.name
        assert event["message"].startswith("ConfigMap kubedsm/kubedsm, config.yaml: ")
        assert why in event["message"]
        assert len(event["message"]) < 400
        assert scene.holds.refusal == event["message"]
        assert scene.holds.current is good
        assert scene.holds.generation == 1
        # Nothing stalls, and nothing is said again.
        with capture_logs() as logs:
            scene.patch(paused="false")
            await world.bring_up("web", 2, within=AT_ONCE, cpu="100m", memory="1Mi")
            await asyncio.sleep(20)
        assert [log for log in logs if log["event"] == "configuration refused"] == []
        assert [refusal.get("series") for refusal in scene.refusals()] == [None]
        better = "services: {default/web: {weight: 3}}"
        scene.edit(better)
        await scene.holds_soon(better)
        assert scene.holds.generation == 2


@pytest.mark.parametrize(("gone", "why"), [("map", "not there"), ("key", "has no key config.yaml")])
async def test_when_it_is_gone_the_last_one_stays_and_that_is_told_once(gone, why):
    async with edited(EDGE, CLOUD) as scene:
        good = scene.holds.current
        if gone == "map":
            scene.delete()
        else:
            scene.patch(**{KEY: None, "paused": "false"})
        await scene.world.until(scene.refusals, AT_ONCE)
        await asyncio.sleep(30)
        [event] = scene.refusals()
        assert event["message"] == f"ConfigMap kubedsm/kubedsm: {why}" == scene.holds.refusal
        assert scene.holds.current is good
        if gone == "map":
            scene.write()
        else:
            scene.edit(GOOD)
        await scene.world.until(lambda: scene.holds.valid, AT_ONCE)
        assert scene.holds.generation == 1


async def test_what_is_meant_by_the_tiers_changes_for_nodes_that_are_there():
    near = node("near1", "near", "4", "8Gi")
    async with edited(CLOUD, near) as scene:
        world = scene.world
        scene.edit("tiers: {edge: [near]}")
        await asyncio.sleep(AT_ONCE)
        world.deploy("web", 2)
        await world.until(lambda: world.placed("web") == {"near1": 2}, 5)
        labels = {pod["metadata"]["labels"]["kubedsm.io/tier"] for pod in world.pods("web")}
        assert labels == {"edge"}


async def test_a_changed_qos_factor_decides_the_next_batch():
    """Two pods compete for the only place at the edge."""
    text = "{suggester: {mode: 'off'}, services: {default/a: {qos: %d}, default/b: {qos: %d}}}"
    edge = node("e1", "edge", "1", "8Gi")
    async with edited(edge, CLOUD, text=text % (1, 0), churning=False) as scene:
        world = scene.world
        for name in "ab":
            world.deploy(name, 0, cpu="700m")
        for first in "ab":
            for name in "ab":
                world.scale(name, 1)
            await world.until_bound(2, 5)
            assert world.placed(first) == {"e1": 1}
            for name in "ab":
                world.scale(name, 0)
            scene.edit(text % (0, 1))
            await world.until(lambda: not world.pods(), 10)


async def test_a_pod_that_no_node_takes_gets_room_once_preemption_is_enabled():
    async with edited(node("c1", "cloud", "4", "8Gi"), churning=False) as scene:
        world = scene.world
        await world.bring_up("low", 2, within=5, cpu="1800m")
        urgent(world, "high", cpu="1800m")
        await asyncio.sleep(10)
        assert world.placed("high") == {None: 1}
        scene.edit("preemption: enabled")
        await world.until(lambda: world.placed("high") == {"c1": 1}, 10)


async def test_the_suggester_is_turned_off_and_on_and_waits_as_told():
    async with edited(CLOUD, text="suggester: {mode: off}") as scene:
        world = scene.world
        await world.bring_up("web", 1, within=5)
        open_edge(world, EDGE)
        await asyncio.sleep(20)
        assert world.placed("web") == {"c1": 1}
        scene.edit("suggester: {period: 24h}")
        await asyncio.sleep(20)
        assert world.placed("web") == {"c1": 1}
        scene.edit("suggester: {period: 1s}")
        await world.until(lambda: world.placed("web") == {"e1": 1}, 10)


async def test_a_lower_price_is_considered_at_once_however_quiet_the_cluster_is():
    text = "{suggester: {period: 1s}, migration: {price: %s}}"
    async with edited(CLOUD, text=text % "20m", churning=False) as scene:
        world = scene.world
        await world.bring_up("web", 1, within=5)
        open_edge(world, EDGE)
        await asyncio.sleep(600)
        assert world.placed("web") == {"c1": 1}
        scene.edit(text % "0s")
        await world.until(lambda: world.placed("web")["e1"], 10)


@asynccontextmanager
async def following(path):
    """Follow a file, in virtual time."""
    holds = CurrentConfiguration(Configuration())
    news = ConfigurationNews(holds, VirtualClock())
    running = asyncio.ensure_future(ConfigurationFile(path, news).run())
    yield holds
    running.cancel()


async def test_a_file_is_read_again_when_it_has_changed(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("batch: {size: 1}")
    async with following(path) as holds:
        await asyncio.sleep(AT_ONCE)
        assert holds.current.batch.size == 1
        path.write_text("batch: {size: 22}")
        await asyncio.sleep(AT_ONCE)
        assert holds.current.batch.size == 22
        path.write_text("batch: {size: 0}")
        await asyncio.sleep(AT_ONCE)
        assert holds.refusal == f"{path}: batch.size: 0 is not between 1 and 10000"
        path.unlink()
        await asyncio.sleep(AT_ONCE)
        assert holds.refusal == f"{path}: No such file or directory"
        path.write_text("batch: {size: 22}")
        await asyncio.sleep(AT_ONCE)
        assert (holds.valid, holds.generation, holds.current.batch.size) == (True, 3, 22)


async def test_a_mounted_config_map_is_read_again_when_its_link_is_exchanged(tmp_path):
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "config.yaml").write_text(f"batch: {{size: {number}}}")
    link, path = tmp_path / "..data", tmp_path / "config.yaml"
    link.symlink_to("..1")
    path.symlink_to("..data/config.yaml")
    async with following(path) as holds:
        await asyncio.sleep(AT_ONCE)
        assert holds.current.batch.size == 1
        (tmp_path / "..new").symlink_to("..2")
        (tmp_path / "..new").rename(link)
        await asyncio.sleep(AT_ONCE)
        assert holds.current.batch.size == 2


async def test_a_file_that_is_being_written_is_read_when_it_stands_still(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("batch: {size: 7}")
    async with following(path) as holds:
        await asyncio.sleep(AT_ONCE)
        written = ""
        for part in ("batch:\n", "  size: 9\n", "  idle: 1ms\n", "# the end\n"):
            path.write_text(written)  # an empty document means the defaults
            await asyncio.sleep(0.3)
            assert holds.current.batch.size == 7
            written += part
        path.write_text(written)
        await asyncio.sleep(AT_ONCE)
        assert (holds.current.batch.size, holds.current.batch.idle) == (9, 0.001)
        assert holds.generation == 3


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
            await world.bring_up("web", 2, within=3)
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
