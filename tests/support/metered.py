"""Metrics of a scheduler in an emulated world."""

from contextlib import asynccontextmanager

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kubedsm.observability.gauges import families
from kubedsm.observability.instruments import Families, Instruments
from kubedsm.observability.reading import Leadership, read


def samples(text):
    return [each for family in text_string_to_metric_families(text) for each in family.samples]


def total(text, name, /, **labels):
    """Return the sum of a metric's series with the given labels; None if there are none."""
    found = [
        each.value
        for each in samples(text)
        if each.name == name and labels.items() <= each.labels.items()
    ]
    return sum(found) if found else None


class Metered:
    def __init__(self, world):
        self.world = world
        self.instruments = Instruments(world.clock, "kubedsm", "server:443")
        self.leadership = Leadership()

    def text(self):
        reading = read(self.world.runtime, self.leadership, self.world.clock.wall())
        gauges = generate_latest(Families(tuple(families(reading))))
        return (generate_latest(self.instruments.registry) + gauges).decode()

    def __call__(self, name, /, **labels):
        return total(self.text(), name, **labels)


@asynccontextmanager
async def metering(making, faults=None, **scheduler):
    """Run a scheduler in the world that is entered; yield the world, and its metrics."""
    async with making as world:
        metered = Metered(world)
        async with world.scheduler(faults, instruments=metered.instruments, **scheduler):
            yield world, metered
