"""Why, of what is not a pod: a node, a workload, a move and a decision, all of one small story."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from kubedsm.dashboard.answers.why_decision import about_decision
from kubedsm.dashboard.answers.why_move import about_move
from kubedsm.dashboard.answers.why_node import about_node
from kubedsm.dashboard.answers.why_pod import about_pod
from kubedsm.dashboard.answers.why_workload import about_workload, workload_named

from kubedsm.config.settings import load
from kubedsm.dashboard.rows import MoveRow
from kubedsm.model.sites import NOTHING_AWAY, Away
from support.asked import lines_of, links_of, section
from support.worlds import CLOUD, EDGE, emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
#: the edge goes to `log` first, to which nothing is promised
CONFIGURATION = load(
    "services: {'*': {qos: 0}, default/web: {qos: 0.8, weight: 2}}\nsuggester: {period: 1s}", "test"
)


@asynccontextmanager
async def swapped():
    """Of a cluster where two pods were swapped for two others."""
    async with (
        emulated(EDGE, CLOUD, configuration=CONFIGURATION) as world,
        world.scheduler() as running,
    ):
        world.deploy("log", 4)
        await world.until_bound(4, 10)
        await asyncio.sleep(5)
        world.deploy("web", 2)
        await world.until_bound(6, 10)
        await world.until(lambda: world.placed("web") == {"e1": 2}, 60)
        await asyncio.sleep(5)
        yield running


async def test_each_is_told_with_its_reason_first():
    async with swapped() as runtime:
        decisions, snapshot = runtime.decisions, runtime.mirror.snapshot()

        node = about_node(decisions, "e1", NOTHING_AWAY, (), {})()
        assert lines_of(node)[0] == (
            "e1 is an edge node; it holds 4 pods, and 0 of 4 cpu and 4.29 of 8 GiB memory are free"
            " to be requested."
        )
        assert section(node, "What it holds")[1] == (
            "default/web | 2 | 2 cpu, 1.86 GiB memory | 2 of 2 at the edge (80 %): kept"
        )
        [rejected] = section(node, "Rejected by it lately")
        assert rejected.startswith("then | default/web-")
        assert rejected.endswith(" | NodeResourcesFit: Insufficient cpu | decision 2")
        assert len(section(node, "Moves from it and to it")) == 4
        away = Away(cut={"s": frozenset({"e1"})})
        cut = about_node(decisions, "e1", away, (), {})()
        assert lines_of(cut)[1] == "It takes no pods now: it is cut off."

        [batch, *_] = [e for e in decisions.record.newest_first() if e.pods]
        decision = about_decision(decisions.record, str(batch.number), {})()
        assert lines_of(decision)[0] == "Decision 2 at then put 2 new pods: 2 in the cloud."
        suggestion = about_decision(decisions.record, "3", {})()
        assert lines_of(suggestion)[0] == "Decision 3 at then was to move 2 pods: 2 completed."
        [first, _] = decisions.record.entry(3).moves
        row = MoveRow("p", "w", "e1", "c1", "edge-to-cloud", purpose="", state="moving", at=9.0)
        begun = about_decision(decisions.record, "3", {first.id: row})()
        assert lines_of(begun)[0].endswith("was to move 2 pods: 1 moving, 1 completed.")
        assert section(suggestion, "Edge shares") == [
            "default/log | 4 of 4 | 3 of 4",
            "default/web | 0 of 2 | 1 of 2",
        ]

        outcome = next(
            m for m in decisions.record.entry(3).moves if m.move.pod.workload.name == "web"
        )
        row = MoveRow(
            *(str(outcome.move.pod), "default/web", "c1", "e1", "cloud-to-edge"),
            purpose="its promise lacks 2 pods of 2",
            state="completed",
            at=9.0,
            began=10.0,
            ended=14.0,
            story=((10.0, "took it from its owner"),),
        )
        move = about_move(decisions.record, outcome.id, row, snapshot, CONFIGURATION)()
        assert lines_of(move)[0] == (
            f"{outcome.move.pod} was moved from c1 to e1: its promise lacks 2 pods of 2."
        )
        assert ("pod", str(outcome.replacement)) in links_of(move)
        assert section(move, "What it gains")[1] == (
            "default/web had 0 of its 2 pods at the edge; all moves of the decision together make"
            " that 1 of 2."
        )
        assert section(move, "What it costs")[1] == "It took 4 s, until then."
        assert section(move, "Its story") == ["then | took it from its owner"]
        assert "default/web has 2 of its 2 pods at the edge now." in section(
            move, "What it brought"
        )

        pod = about_pod(decisions, str(outcome.replacement))()
        assert (
            f"it took the place of {outcome.move.pod} on c1, its promise lacks 2 pods of 2"
            in lines_of(pod)[0]
        )
        assert ("move", outcome.id) in links_of(pod)

        web = about_workload(
            snapshot, CONFIGURATION, workload_named(snapshot, "default/web"), None
        )()
        [first, second] = lines_of(web)
        assert first == (
            "default/web has 2 of its 2 pods at the edge and is promised 2 (80 %): the promise is"
            " kept."
        )
        assert second == "Promised by services, default/web: qos."
        assert section(web, "Where its pods are") == ["e1 | edge | 2"]


async def test_what_keeps_the_missing_ones_away_is_told_of_each():
    async with swapped() as runtime:
        asked = load("services: {default/log: {qos: 1}, default/web: {qos: 0.8}}", "test")
        snapshot = runtime.mirror.snapshot()
        log = workload_named(snapshot, "default/log")
        found = await runtime.thinker.ask(runtime.suggester.what_if((), ()))
        answer = about_workload(snapshot, asked, log, found)()
        assert lines_of(answer)[0] == (
            "default/log has 2 of its 4 pods at the edge and is promised 4 (100 %): 2 pods missing."
        )
        assert all(" | c1 | " in row for row in section(answer, "What keeps the missing away"))
        without = about_workload(snapshot, asked, log, None)()
        assert {row.split(" | ")[2] for row in section(without, "What keeps the missing away")} == {
            "the edge rejects it: NodeResourcesFit on 1 node"
        }
