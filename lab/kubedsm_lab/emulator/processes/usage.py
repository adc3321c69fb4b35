"""Resource consumption of pods and nodes, from /proc and the Service proxies.

A node's counters continue when a pod ends, as a real node's do: a rate over them must not jump.
Prometheus must keep the label `instance`, which is the node: `honor_labels: true`.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kubedsm.model.quantities import parse_units
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.resources import NODES, Object
from kubedsm_lab.emulator.api.store import Store
from kubedsm_lab.emulator.processes.pod_processes import PodProcess, PodProcesses

_TICK = 1 / os.sysconf("SC_CLK_TCK")
#: fields of /proc/PID/stat after the program's name: utime and stime
_USER, _SYSTEM = 11, 12
_KIBI = 1024
PROC = Path("/proc")


@attrs.frozen
class Counters:
    """Consumption counters, which only grow: CPU seconds, and bytes of disk and network."""

    user: float = 0.0
    system: float = 0.0
    read: int = 0
    written: int = 0
    received: int = 0
    sent: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return Counters(*(a + b for a, b in zip(mine, others, strict=True)))

    def __sub__(self, other: "Counters") -> "Counters":
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return Counters(*(a - b for a, b in zip(mine, others, strict=True)))


def measure_usage(pid: int, proc: Path = PROC) -> Counters | None:
    """Return the accumulated consumption of a process since its start; None if the process has
    ended.

    Unknown values are 0.
    """
    try:
        # The program's name may contain spaces and parentheses.
        stat = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    io = _amounts(proc / str(pid) / "io")
    return Counters(
        user=int(stat[_USER]) * _TICK,
        system=int(stat[_SYSTEM]) * _TICK,
        read=io.get("read_bytes", 0),
        written=io.get("write_bytes", 0),
    )


def held_by(pid: int, proc: Path = PROC) -> int:
    """Return the memory used by a process in bytes, as proportional set size (PSS)."""
    return _amounts(proc / str(pid) / "smaps_rollup").get("Pss", 0) * _KIBI


def _amounts(path: Path) -> Mapping[str, int]:
    """Parse a /proc file with lines such as `Pss: 120 kB`; return the number (120) by name."""
    found = {}
    with suppress(OSError):
        for line in path.read_text().splitlines():
            name, colon, rest = line.partition(":")
            if colon and rest.split()[:1] and rest.split()[0].isdecimal():
                found[name] = int(rest.split()[0])
    return found


@attrs.frozen
class Look:
    """Measurement of one pod's process at one time: accumulated CPU, disk and network
    consumption.
    """

    uid: str
    node: str
    pid: int
    used: Counters


class Accounts:
    """Accumulated consumption (CPU, disk, network) by pod and by node.

    Consumption between a process's last measurement and its end is lost.
    """

    def __init__(self) -> None:
        self.pods: defaultdict[str, Counters] = defaultdict(Counters)
        self.nodes: defaultdict[str, Counters] = defaultdict(Counters)
        self._last: dict[tuple[str, int], Counters] = {}

    def take(self, looks: Iterable[Look]) -> None:
        """Add the consumption since the previous measurement, given one measurement per running
        process.
        """
        last, self._last = self._last, {}
        for look in looks:
            process = look.uid, look.pid
            self._last[process] = look.used
            self.add(look.uid, look.node, look.used - last.get(process, Counters()))
        for uid in self.pods.keys() - {uid for uid, _ in self._last}:
            del self.pods[uid]

    def add(self, uid: str, node: str, used: Counters) -> None:
        self.pods[uid] += used
        self.nodes[node] += used


@attrs.frozen
class _CpuSample:
    pid: int
    #: seconds by the clock, and of CPU time
    at: float
    cpu: float


class PodUsage:
    """Source of metrics-server: CPU and memory of pods with a process; none for other pods."""

    def __init__(self, pods: PodProcesses, clock: Clock, proc: Path = PROC) -> None:
        self._pods = pods
        self._clock = clock
        self._proc = proc
        self._last: WeakKeyDictionary[PodProcess, _CpuSample] = WeakKeyDictionary()

    def __call__(self, namespace: str, pod: str, resource: str) -> float | None:
        for each, process in self._pods.running():
            if each.name == (namespace, pod):
                if resource == "memory":
                    return float(held_by(process.pid, self._proc))
                return self._cores(each, process.pid) if resource == "cpu" else None
        return None

    def _cores(self, pod: PodProcess, pid: int) -> float | None:
        """Return the process's mean CPU cores since the last call; None at the first call."""
        used = measure_usage(pid, self._proc)
        if used is None:
            return None
        before = self._last.get(pod)
        look = self._last[pod] = _CpuSample(pid, self._clock.monotonic(), used.user + used.system)
        if before is None or before.pid != pid or look.at <= before.at:
            return None
        return (look.cpu - before.cpu) / (look.at - before.at)


_INTERFACE, _DEVICE = "eth0", "sda"
#: metric without its suffix `_bytes_total` → counter
_OF_PODS = {
    "container_network_receive": "received",
    "container_network_transmit": "sent",
    "container_fs_reads": "read",
    "container_fs_writes": "written",
}
_OF_NODES = {
    "node_network_receive": "received",
    "node_network_transmit": "sent",
    "node_disk_read": "read",
    "node_disk_written": "written",
}


@attrs.frozen
class LabMetrics:
    """Prometheus collector that exports the measured resource consumption of pods and nodes."""

    store: Store
    pods: PodProcesses
    accounts: Accounts

    def look(self) -> None:
        """Measure the consumption of all running pod processes and add the increase to the
        accounts.
        """
        self.accounts.take(
            Look(pod.uid, pod.node, process.pid, used)
            for pod, process in self.pods.running()
            if (used := measure_usage(process.pid)) is not None
        )

    def collect(self) -> Iterator[Metric]:
        self.look()
        held = {pod: held_by(process.pid) for pod, process in self.pods.running()}
        yield from _of_pods(held, self.accounts)
        nodes = self.store.list(NODES)
        memory = {node["metadata"]["name"]: 0 for node in nodes}
        for pod, held_here in held.items():
            memory[pod.node] = memory.get(pod.node, 0) + held_here
        yield from _of_nodes(nodes, memory, self.accounts)


def _of_pods(held: Mapping[PodProcess, int], accounts: Accounts) -> Iterator[Metric]:
    labels = ("namespace", "pod", "node")
    cpu = CounterMetricFamily(
        "container_cpu_usage_seconds", "CPU time of a pod's process.", labels=("container", *labels)
    )
    memory = GaugeMetricFamily(
        "container_memory_working_set_bytes",
        "Memory of a pod's process, with its part of what is shared.",
        labels=("container", *labels),
    )
    families = {
        name: CounterMetricFamily(
            f"{name}_bytes",
            "Of a pod, as its process or its proxy has it.",
            labels=("interface" if "network" in name else "container", *labels),
        )
        for name in _OF_PODS
    }
    for pod, memory_held in held.items():
        used, of = accounts.pods[pod.uid], (*pod.name, pod.node)
        cpu.add_metric((pod.container, *of), used.user + used.system)
        memory.add_metric((pod.container, *of), memory_held)
        for name, what in _OF_PODS.items():
            first = _INTERFACE if "network" in name else pod.container
            families[name].add_metric((first, *of), getattr(used, what))
    yield from (cpu, memory, *families.values())


def _of_nodes(nodes: list[Object], memory: dict[str, int], accounts: Accounts) -> Iterator[Metric]:
    cpu = CounterMetricFamily(
        "node_cpu_seconds", "CPU time of a node's pods.", labels=("instance", "cpu", "mode")
    )
    total = GaugeMetricFamily(
        "node_memory_MemTotal_bytes", "Memory of an emulated node.", labels=("instance",)
    )
    available = GaugeMetricFamily(
        "node_memory_MemAvailable_bytes", "What its pods leave of it.", labels=("instance",)
    )
    families = {
        name: CounterMetricFamily(
            f"{name}_bytes",
            "Of all pods that ever were on the node.",
            labels=("instance", "device"),
        )
        for name in _OF_NODES
    }
    for node in nodes:
        name = node["metadata"]["name"]
        used = accounts.nodes[name]
        for mode in ("user", "system"):
            cpu.add_metric((name, "0", mode), getattr(used, mode))
        capacity = parse_units((node["status"].get("capacity") or {}).get("memory", "0"))
        total.add_metric((name,), capacity)
        available.add_metric((name,), max(0, capacity - memory[name]))
        for family, what in _OF_NODES.items():
            device = _INTERFACE if "network" in family else _DEVICE
            families[family].add_metric((name, device), getattr(used, what))
    yield from (cpu, total, available, *families.values())
