"""Where the search in a large cloud goes on from batch to batch, and what is told of it."""

import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.model import node_index
from kubedsm.optimizer.placing.cloud import SampledNodes
from kubedsm.planner.worker import dump_response, load_response
from kubedsm_lab.emulator.paper import node
from support.asked import as_sent
from support.metered import Metered
from support.printed import printed
from support.slow_planning import hard, slow_batches
from support.worlds import emulated

SOME = 'suggester: {mode: "off"}\ncloud: {percentageOfNodes: 10}'
#: seconds
THOUGHT = 3.0


@pytest.fixture(autouse=True)
def small_clouds_are_large(monkeypatch):
    monkeypatch.setattr(node_index, "_FEWEST_NODES", 2)
    hard(monkeypatch)


def clouded(text=SOME):
    nodes = [node(f"c{at}", "cloud", "4", "8Gi") for at in range(5)]
    return emulated(*nodes, configuration=load(text, "test"))


def turn(runtime):
    return runtime.scheduler.sampling_start


def looked_at(runtime):
    """By each batch, the oldest first."""
    entries = list(runtime.decisions.record.newest_first())
    return [entry.looked_at for entry in reversed(entries)]


async def placed_in_turn(world, *names):
    for name in names:
        await world.bring_up(name, 1, within=5)


async def test_each_batch_goes_on_where_the_last_one_looked():
    async with clouded() as world, world.scheduler() as runtime:
        await placed_in_turn(world, "a", "b", "c", "d")
        assert looked_at(runtime) == [SampledNodes(first, 2, 5) for first in (0, 2, 4, 1)]
        assert turn(runtime) == 3
        assert set(world.placed("a")) <= {"c0", "c1"}
        assert set(world.placed("b")) <= {"c2", "c3"}


async def test_a_batch_that_is_thought_about_goes_on_from_where_it_was_asked():
    async with clouded() as world, world.scheduler() as runtime:
        answers = []
        planner = slow_batches(runtime, THOUGHT, meanwhile=answers.append)
        await placed_in_turn(world, "a", "hard-1", "b")
        assert [question.start for question in planner.asked] == [2]
        assert [each.first for each in looked_at(runtime)] == [0, 2, 4]
        # As a planner process sends it.
        answer = load_response(dump_response(answers[0]), runtime.mirror.pod)
        assert answer.decision.looked_at == SampledNodes(2, 2, 5)


async def test_it_is_told_which_nodes_were_not_looked_at():
    async with clouded() as world:
        metered = Metered(world)
        with capture_logs() as logs:
            async with world.scheduler(instruments=metered.instruments) as runtime:
                await placed_in_turn(world, "a", "b")
                decisions = runtime.decisions
                ((uid, name),) = decisions.find_pods(world.pods("b")[0]["metadata"]["name"]).items()
                said = decisions.explain(decisions.recall(uid, name))
                entry = as_sent(next(decisions.record.newest_first()).facts())
    unseen = {each["node"] for each in as_sent(said)["nodes"] if not each["lookedAt"]}
    assert unseen == {"c0", "c1", "c4"}
    assert all(each.feasible and each.score is None for each in said.nodes if not each.looked_at)
    assert shown(said).count("not sampled: cloud.percentageOfNodes") == 3
    assert "2 of 5 cloud nodes sampled" in said.summary
    assert (entry["cloudNodes"], entry["proven"]) == ({"lookedAt": 2, "of": 5}, False)
    batches = [line for line in logs if line["event"] == "batch"]
    assert [line["cloud_nodes"] for line in batches] == [{"lookedAt": 2, "of": 5}] * 2
    assert metered("kubedsm_cloud_nodes_looked_at_sum") == 4


def shown(said):
    return printed(render_text(explain_pod(said)), 120)
