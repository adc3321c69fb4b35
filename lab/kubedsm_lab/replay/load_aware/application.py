"""Application of the load-aware experiment: 16 microservices, their functions and call graph.

Source of the numbers: the paper on load-aware placing and descheduling whose authors are at
unict-cclab. Values that it does not state are marked as ours in docs/explanation/load-aware.md.
"""

import enum
from collections.abc import Mapping
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SERVICES = tuple(f"m{number}" for number in range(1, 17))
ENTRY, REPLICAS = SERVICES[0], 2
NODES = tuple(f"worker-{number}" for number in range(1, 6))


class Resource(enum.IntEnum):
    """Resource of a node (CPU, memory, ...); the value is the index in arrays."""

    CPU = 0
    MEMORY = 1
    NET = 2
    DISK = 3


#: capacity of a node: cores, bytes, and bytes a second of a Gigabit network and of a disk
CAPACITY = np.array([2.0, 8e9, 125e6, 500e6])
#: memory of every pod, in bytes
POD_MEMORY = 100e6
#: CPU seconds for 1000 decimals of pi, by a spigot in Python; quadratic in the decimals
_PI_SECONDS = 0.03
#: bytes a second at which memory is written
_MEMORY_SPEED = 10e9


@attrs.frozen
class Function:
    """Synthetic function that a microservice runs, with most consumption on one resource."""

    resource: Resource
    #: core-seconds or bytes per request; memory is held all the time
    amount: float
    #: duration of a request on an idle node
    seconds: float

    @property
    def held(self) -> Floats:
        """Return the constant consumption of a pod that runs the function: one number per resource,
        in units of CAPACITY.
        """
        held = np.zeros(len(CAPACITY))
        held[Resource.MEMORY] = POD_MEMORY
        if self.resource is Resource.MEMORY:
            held[Resource.MEMORY] += self.amount
        return held

    @property
    def asked(self) -> Floats:
        """Return the consumption of one request: one number per resource, in units of CAPACITY
        times seconds.
        """
        asked = np.zeros(len(CAPACITY))
        if self.resource is not Resource.MEMORY:
            asked[self.resource] = self.amount
        return asked


@attrs.frozen
class Scenario:
    """Sizes of the application's functions in one scenario of the paper."""

    decimals: int
    #: bytes
    memory: float
    returned: float
    written: float

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Return the application's four functions in the paper's order, f1 to f4."""
        cpu = _PI_SECONDS * (self.decimals / 1000) ** 2
        net, disk = CAPACITY[Resource.NET], CAPACITY[Resource.DISK]
        return (
            Function(Resource.CPU, cpu, cpu),
            Function(Resource.MEMORY, self.memory, self.memory / _MEMORY_SPEED),
            Function(Resource.NET, self.returned, self.returned / net),
            Function(Resource.DISK, self.written, self.written / disk),
        )

    @property
    def of_services(self) -> list[Function]:
        """Return the function of each of the 16 services: four run f1, the next four f2, ..."""
        return [function for function in self.functions for _ in range(4)]


SCENARIOS: Mapping[int, Scenario] = {
    1: Scenario(1000, 100e6, 10e3, 10e6),
    2: Scenario(1500, 200e6, 20e3, 20e6),
    3: Scenario(2000, 400e6, 40e3, 40e6),
}

#: calls of a service: sequential stages, with all calls of a stage in parallel
Graph = Mapping[str, tuple[tuple[str, ...], ...]]

#: m1 calls m2 to m5 at once, and each of these begins a chain: m2, m6, m10, m14, and so on
_TREE: Graph = {
    "m1": (("m2", "m3", "m4", "m5"),),
    **{f"m{n}": ((f"m{n + 4}",),) for n in range(2, 13)},
}
#: m1 calls the services of one function after those of the other
_GROUPS: Graph = {
    "m1": tuple(SERVICES[max(first, 1) : first + 4] for first in range(0, 16, 4)),
}
GRAPHS: Mapping[str, Graph] = {"tree": _TREE, "groups": _GROUPS}
