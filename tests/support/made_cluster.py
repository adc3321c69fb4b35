"""Synthetic cluster for the page: rows of any number, with every state represented."""

import asyncio
import random
import time
from contextlib import asynccontextmanager
from itertools import cycle

import attrs

from kubedsm.dashboard.rows import MoveRow, NodeRow, PodRow, Snapshot, StatusRow, WorkloadRow
from kubedsm.process.clock import SystemClock
from support.serving_pages import page_showing, served
from support.told_scene import stream_of

GIB = 2**30
STATES = ("cordoned", "stabilising", "not ready", "unreachable", "partitioned")


@attrs.define(slots=False)
class MadeCluster:
    nodes: int
    pods: int
    sites: int = 0
    moving: int = 3
    #: end of the nodes' names, such as a cloud provider's domain
    domain: str = ""
    rng: random.Random = attrs.field(factory=lambda: random.Random(1))
    stirred: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __attrs_post_init__(self):
        cloud = max(1, self.nodes // 5)
        self._workloads = [f"shop/{name}" for name in _names(min(40, 2 + self.pods // 25))]
        self._tables = {"nodes": {}, "pods": {}, "workloads": {}, "moves": {}, "news": {}}
        self._tables["status"] = {"now": StatusRow(headline="made up", waiting=4)}
        for number in range(self.nodes):
            self._tables["nodes"].update(self._node(number, cloud))
        names = cycle(self._tables["nodes"])
        for number in range(self.pods - 4):
            self._new_pod(number, next(names))
        for number in range(4):
            self._new_pod(self.pods + number, "")
        for workload in self._workloads:
            self._tables["workloads"][workload] = WorkloadRow("Deployment", 2, 3, 0.5, 1.0)
        self._new_moves()

    def _node(self, number, cloud):
        state = STATES[number // 7 % len(STATES)] if number % 7 == 5 and self.nodes > 8 else ""
        load = {} if number % 3 else {"cpu_used": 0.1 + number % 8 / 10, "memory_used": 0.6}
        if number < cloud:
            row = NodeRow("cloud", 32_000, 64 * GIB, 110, state=state, **load)
            return {f"cloud-{number + 1}{self.domain}": row}
        site = f"site-{number % self.sites + 1}" if self.sites else ""
        cpu = (4_000, 8_000, 8_000, 16_000)[number % 4]
        row = NodeRow("edge", cpu, cpu * GIB // 500, 110, site=site, state=state, **load)
        return {f"edge-{number - cloud + 1}{self.domain}": row}

    def _new_pod(self, number, node):
        workload = self._workloads[number // 3 % len(self._workloads)]
        full = 0.75 * sum(row.cpu for row in self._tables["nodes"].values()) / self.pods
        room = self._tables["nodes"][node].cpu / 12_000 if node else 1
        key = f"{workload}-{number:05x}"
        self._tables["pods"][key] = PodRow(
            workload,
            ("ready", "ready", "ready", "starting")[number % 4] if node else "waiting",
            created=time.time(),
            cpu=int(full * room),
            memory=int(full * room / 1000 * 2 * GIB),
            node=node,
            message="" if node else "0/4 nodes are available: 4 Insufficient cpu.",
        )

    def _new_moves(self):
        placed = [key for key, pod in self._tables["pods"].items() if pod.node]
        edges = [name for name in self._tables["nodes"] if name.startswith("edge")]
        for number, key in enumerate(self.rng.sample(placed, self.moving)):
            pod = self._tables["pods"][key]
            self._tables["moves"][f"plan-1/{key}"] = MoveRow(
                key, pod.workload, pod.node, self.rng.choice(edges), "cloud-to-edge",
                "1 of 3 pods missing at the edge", "moving" if number else "planned",
                at=time.time(), step=f"waiting for {key}x to be Ready", done=number + 1, steps=7,
                decision=1,
            )  # fmt: skip

    def snapshot(self):
        rows = {table: dict(rows) for table, rows in self._tables.items()}
        return Snapshot(1, time.time(), rows)

    def look(self):
        """Return None: the rows never change."""


def _names(count):
    words = ("cart", "front", "orders", "search", "mail", "ads", "stock", "pay", "geo", "users")
    return [f"{words[n % 10]}{n // 10 or ''}" for n in range(count)]


@asynccontextmanager
async def page_of_made(cluster):
    """Serve the page of a synthetic cluster; yield the URL."""
    clock = SystemClock()
    stream = stream_of(cluster, clock)
    async with served(page_showing(stream, clock)) as url, asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(stream.run())
        yield url
        looking.cancel()
