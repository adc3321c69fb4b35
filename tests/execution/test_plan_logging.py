"""Each line of the log about a plan names the plan, and no other line does."""

from structlog import contextvars
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from support.faults import OUTCOMES
from support.move_scenes import AtRequest, open_edge, quiet, settle_on_cloud
from support.worlds import CLOUD, emulated

#: the second move begins because the first one ended
ONE = load("suggester: {period: 1s}\nmigration: {maxConcurrent: 1, drainDelay: 1s}", "test")


async def test_the_lines_of_a_move_name_its_plan():
    faults = AtRequest(
        lambda request: request.path.endswith("/binding"), lambda: None, fault=OUTCOMES["403"]
    )
    with capture_logs(processors=[contextvars.merge_contextvars]) as lines:
        async with emulated(CLOUD, configuration=ONE) as world, world.scheduler(faults):
            await settle_on_cloud(world, "web", 2)
            open_edge(world)
            await world.until(lambda: world.placed("web") == {"e1": 2}, 90)
            await quiet(world)
    begun = [line["plan"] for line in lines if line["event"] == "migration begun"]
    ended = [line["plan"] for line in lines if line["event"] == "migration ended"]
    assert len(set(begun)) == 2
    assert sorted(begun) == sorted(ended)
    assert all(plan.startswith("plan-") for plan in begun)
    [refused] = [line["plan"] for line in lines if line["event"] == "bind refused"]
    assert refused.startswith("bind-")
    others = [line for line in lines if line["event"] in ("synced", "batch", "suggestion")]
    assert others
    assert not any("plan" in line for line in others)
