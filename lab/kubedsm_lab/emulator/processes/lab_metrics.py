"""What pods and emulated nodes use, as cAdvisor and node-exporter would tell Prometheus.

Prometheus must be told to keep the label `instance`, which is the node: `honor_labels: true`.
"""

from collections.abc import Iterator, Mapping

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kubedsm.model.quantities import parse_units
from kubedsm_lab.emulator.api.resources import NODES, Object
from kubedsm_lab.emulator.api.store import Store
from kubedsm_lab.emulator.processes.accounts import Accounts, Look, held_by, used_by
from kubedsm_lab.emulator.processes.pod_processes import PodProcess, PodProcesses

_INTERFACE, _DEVICE = "eth0", "sda"
#: by metric without its suffix `_bytes_total`: what it counts
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
    """A collector of a registry of prometheus_client."""

    store: Store
    pods: PodProcesses
    accounts: Accounts

    def look(self) -> None:
        """At all processes that run now."""
        self.accounts.take(
            Look(pod.uid, pod.node, process.pid, used)
            for pod, process in self.pods.running()
            if (used := used_by(process.pid)) is not None
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
