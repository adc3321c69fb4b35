"""What is not proven of a decision, in all the places where it is told."""

from structlog.testing import capture_logs

from kubedsm.config.settings import load
from support.asked import as_sent
from support.metered import Metered
from support.worlds import emulated, node

#: alone, KubeDSM asks nobody, and its heuristics do not depend on how fast this machine is
ALONE = load("solver: {kind: 'off'}\nbatch: {idle: 1s, max: 2s}", "test")


async def test_the_log_the_metrics_and_the_explanation_have_the_gap():
    nodes = [node(f"e{at}", "edge", "9500m", "16Gi") for at in range(5)]
    async with emulated(*nodes, node("c1", "cloud", "9", "16Gi"), configuration=ALONE) as world:
        metered = Metered(world)
        with capture_logs() as logs:
            async with world.scheduler(instruments=metered.instruments):
                for at in range(8):
                    world.deploy(f"w{at}", 10, f"{500 + 130 * at}m", f"{2000 - 150 * at}Mi")
                await world.until(lambda: any(each["event"] == "batch" for each in logs), 5)
                batch = next(each for each in logs if each["event"] == "batch")
                pod = next(iter(world.runtime.mirror.snapshot().placed))
                said = world.runtime.decisions.summary(world.runtime.mirror.pod(pod))
                entry = next(world.runtime.decisions.record.newest_first())
                entry = as_sent(entry.facts())
    assert batch["proven"] is False
    placed = batch["unproven"].partition(";")[0]
    assert placed.startswith(f"pods placed: {batch['bound']} of at most ")
    assert f"not proven, {placed}" in said
    assert entry["certificates"][0]["goal"] == "pods placed"
    assert metered("kubedsm_unproven_decisions_total", kind="batch") >= 1
    assert metered("kubedsm_decision_gap_ratio_count", kind="batch", goal="pods_placed") >= 1
