"""Synthetic cluster for the page: rows of any number, with every state represented."""

import random
import time
from itertools import cycle

from kubedsm.dashboard.rows import MoveRow, NodeRow, PodRow, StatusRow, WorkloadRow

GIB = 2**30
STATES = ("cordoned", "stabilising", "not ready", "unreachable", "partitioned")
WORDS = ("cart", "front", "orders", "search", "mail", "ads", "stock", "pay", "geo", "users")
#: migrations, of which one is planned
MOVING = 3


def made_rows(nodes, pods, sites=0, domain=""):
    """Return the rows by table; `domain` ends the nodes' names, like a cloud provider's does."""
    count = min(40, 2 + pods // 25)
    workloads = [f"shop/{WORDS[n % 10]}{n // 10 or ''}" for n in range(count)]
    rows = {
        "status": {"now": StatusRow(headline="made up", waiting=4)},
        "nodes": dict(_node(number, nodes, sites, domain) for number in range(nodes)),
        "workloads": dict.fromkeys(workloads, WorkloadRow("Deployment", 2, 3, 0.5, 1.0)),
        "pods": {},
        "moves": {},
        "news": {},
    }
    names = cycle(rows["nodes"])
    full = 0.75 * sum(row.cpu for row in rows["nodes"].values()) / pods
    for number in (*range(pods - 4), *range(pods, pods + 4)):
        node = next(names) if number < pods else ""
        workload = workloads[number // 3 % count]
        share = full * (rows["nodes"][node].cpu / 12_000 if node else 1)
        rows["pods"][f"{workload}-{number:05x}"] = PodRow(
            workload,
            ("ready", "ready", "ready", "starting")[number % 4] if node else "waiting",
            created=time.time(),
            cpu=int(share),
            memory=int(share / 1000 * 2 * GIB),
            node=node,
            message="" if node else "0/4 nodes are available: 4 Insufficient cpu.",
        )
    rng, edges = random.Random(1), [name for name in rows["nodes"] if name.startswith("edge")]
    placed = [key for key, pod in rows["pods"].items() if pod.node]
    for number, key in enumerate(rng.sample(placed, MOVING)):
        pod = rows["pods"][key]
        rows["moves"][f"plan-1/{key}"] = MoveRow(
            key, pod.workload, pod.node, rng.choice(edges), "cloud-to-edge",
            "1 of 3 pods missing at the edge", "moving" if number else "planned",
            at=time.time(), step=f"waiting for {key}x to be Ready", done=number + 1, steps=7,
            decision=1,
        )  # fmt: skip
    return rows


def _node(number, nodes, sites, domain):
    cloud = max(1, nodes // 5)
    state = STATES[number // 7 % len(STATES)] if number % 7 == 5 and nodes > 8 else ""
    load = {} if number % 3 else {"cpu_used": 0.1 + number % 8 / 10, "memory_used": 0.6}
    if number < cloud:
        row = NodeRow("cloud", 32_000, 64 * GIB, 110, state=state, **load)
        return f"cloud-{number + 1}{domain}", row
    site = f"site-{number % sites + 1}" if sites else ""
    cpu = (4_000, 8_000, 8_000, 16_000)[number % 4]
    row = NodeRow("edge", cpu, cpu * GIB // 500, 110, site=site, state=state, **load)
    return f"edge-{number - cloud + 1}{domain}", row
