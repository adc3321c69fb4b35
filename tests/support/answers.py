"""Response latency measurements, as if read from Prometheus."""

from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured
from kubedsm.model.model import Tier, Workload

WEB = Workload("default", "Deployment", "web")


def sample(at, edge=None, cloud=None, *, rates=(10.0, 10.0)):
    """Return a measurement of response latencies by tier, in ms.

    `at` is the Unix time; `rates` are requests per second of both tiers.
    """
    answers = {
        tier: Answers(rate, milliseconds / 1000)
        for tier, milliseconds, rate in zip(Tier, (edge, cloud), rates, strict=True)
        if milliseconds is not None
    }
    return Measured(at, answers={WEB: answers}, window=30.0)


def tell(world, edge=None, cloud=None, **said):
    """Pass a measurement taken now to the scheduler of a world."""
    measured = sample(world.clock.wall(), edge, cloud, **said)
    world.runtime.handler.handle(MeasuredApplied(measured))


def tell_nothing(world):
    world.runtime.handler.handle(MeasuredApplied(NOTHING_MEASURED))
