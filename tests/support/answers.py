"""What a Prometheus would have the scheduler know of response times, fed in by hand."""

from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured
from kubedsm.model.model import Tier, Workload

WEB = Workload("default", "Deployment", "web")


def sample(at, edge=None, cloud=None, *, rates=(10.0, 10.0), window=30.0):
    """What requests take, ms, in tiers of so many requests/s, at a time since the epoch."""
    answers = {
        tier: Answers(rate, milliseconds / 1000)
        for tier, milliseconds, rate in zip(Tier, (edge, cloud), rates, strict=True)
        if milliseconds is not None
    }
    return Measured(at, answers={WEB: answers}, window=window)


def tell(world, edge=None, cloud=None, **said):
    """A sample of now."""
    measured = sample(world.clock.wall(), edge, cloud, **said)
    world.runtime.handler.handle(MeasuredApplied(measured))


def tell_nothing(world):
    world.runtime.handler.handle(MeasuredApplied(NOTHING_MEASURED))
