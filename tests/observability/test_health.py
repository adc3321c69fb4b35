"""What a kubelet is told: when to start the process anew, and when it does its work."""

import pytest

from kubedsm.config.current import CurrentConfiguration
from kubedsm.observability.health import HOPELESS_AFTER, alive, readiness, ready
from kubedsm.observability.reading import Leadership
from support.worlds import CLOUD, EDGE, emulated

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


def test_a_loop_that_fails_for_long_makes_the_process_unhealthy():
    assert alive({}).text(verbose=False) == "ok"
    assert alive({}).text(verbose=True).startswith("[+]event-loop ok\n[+]loops ok\n")
    failing = alive({"recorder": HOPELESS_AFTER - 1})
    assert failing.well
    assert "[+]loops/recorder ok: has failed repeatedly for 299 s" in failing.text(verbose=False)
    hopeless = alive({"recorder": HOPELESS_AFTER, "suggester": 1.0})
    assert not hopeless.well
    assert "[-]loops/recorder failed: " in hopeless.text(verbose=False)


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_scheduler_is_ready_once_it_has_listed_everything():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        text = readiness(world.runtime, LEADING).text(verbose=False)
        assert "Node, Pod, Namespace" in text
        await world.runtime.synced.wait()
        assert readiness(world.runtime, LEADING).well
