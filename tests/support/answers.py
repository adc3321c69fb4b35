"""What a Prometheus would have the scheduler know of response times, fed in by hand."""

from kubedsm.core.world.events import MeasuredApplied
from kubedsm.core.world.measured import NOTHING_MEASURED, Answers, Measured
from kubedsm.core.world.model import Tier, Workload

WEB = Workload("default", "Deployment", "web")


def tell(world, edge=None, cloud=None, *, rates=(10.0, 10.0), window=30.0, workload=WEB):
    """A sample of now: what requests to the workload take, ms, in tiers of so many requests/s."""
    answers = {
        tier: Answers(rate, milliseconds / 1000)
        for tier, milliseconds, rate in zip(Tier, (edge, cloud), rates, strict=True)
        if milliseconds is not None
    }
    sample = Measured(world.clock.wall(), answers={workload: answers}, window=window)
    world.runtime._handler.handle(MeasuredApplied(sample))


def tell_nothing(world):
    world.runtime._handler.handle(MeasuredApplied(NOTHING_MEASURED))
