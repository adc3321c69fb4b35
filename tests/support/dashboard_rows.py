"""Rows of the dashboard: of a small cluster, of crowded ones, or with every state represented."""

import random
import time
from itertools import cycle

import msgspec

from kubedsm.dashboard.rows import (
    MoveRow,
    NewsRow,
    NodeRow,
    PodRow,
    SiteRow,
    Snapshot,
    StatusRow,
    WorkloadRow,
)
from kubedsm.model.model import Tier

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


WHERE = "http://127.0.0.1:10270"
#: time of all snapshots
NOW = 10_000.0
HEADLINE = "moving 1 of 2: waiting for shop/cart-7 to be Ready, 4 s"
REFUSED = "0/4 nodes are available: 3 Insufficient cpu, 1 node(s) were unschedulable."
MOVE = MoveRow(
    "shop/cart-6", "shop/cart", "n9", "e1", "cloud-to-edge", "1 of 3 pods missing at the edge",
    "moving", NOW - 10, step="waiting for shop/cart-7 to be Ready", since=NOW - 4, done=3, steps=8,
)  # fmt: skip
SITES = (SiteRow("berlin", 1.0, 1.0, 3), SiteRow("munich", 0.5, 0.75, 2, 1))
#: short names, long ones with shared parts as clouds give them, and long ones without
NAMES = {
    "short": "node-{:02}",
    "EKS": "ip-10-23-7-{}.eu-central-1.compute.internal",
    "unlike": "{:02}-a-node-whose-name-has-some-41-letters-{:02}",
}


def small(status=None, **tables):
    """A cluster of three nodes in which a migration runs, pods wait, and a site is partitioned."""
    status = status or StatusRow(
        HEADLINE,
        ("Site north is partitioned.",),
        state="degraded",
        role="standby",
        leader="other-host",
        paused=True,
        edge_cpu=8000,
        edge_cpu_free=7500,
        edge_memory=8 << 30,
        edge_memory_free=7 << 30,
    )
    rows = {
        "nodes": {
            "e1": NodeRow(Tier.EDGE, 4000, 16 << 30, 110),
            "e2": NodeRow(Tier.EDGE, 4000, 512 << 20, 110, site="north", state="partitioned"),
            "n9": NodeRow(Tier.CLOUD, 16000, 16 << 30, 110),
        },
        "pods": {
            "shop/cart-6": PodRow("shop/cart", "ready", NOW - 7300, 500, 1 << 30, "n9", "m"),
            "shop/cart-1": PodRow("shop/cart", "ready", NOW - 65, 500, 300 << 20, "e2"),
            "shop/cart-2": PodRow("shop/cart", "not ready", NOW - 65, 500, 300 << 20, "e1"),
            **{
                f"bulk/big-{number}": PodRow(
                    "bulk/big", "waiting", NOW, 9000, message=REFUSED, rules=("NodeResourcesFit",)
                )
                for number in (1, 2, 3)
            },
        },
        "workloads": {
            "shop/cart": WorkloadRow("Deployment", 2, 3, 1.0, 1.0, missing=1, ready=2),
            "bulk/big": WorkloadRow("Deployment", 0, 3, None, waiting=3),
        },
        "moves": {"m": MOVE},
        "news": {
            "9": NewsRow(NOW - 20, "batch", "placed 2 pods", decision=4),
            "10": NewsRow(
                NOW - 10, "event", "shop/cart-6 was not migrated", pod="shop/cart-6", warning=True
            ),
        },
    }
    return Snapshot(1, NOW, {**rows, **tables, "status": {"now": status}}, "run")


def crowded(nodes, services, names="short", pods=33):
    """A cluster in which each node runs pods of most services, and pods are migrated.

    pods: number of pods of each service.
    """
    name = [NAMES[names].format(number, number) for number in range(nodes)]
    workloads = [f"team-{number % 3}/svc-{number:02}" for number in range(services)]
    rows = {
        "nodes": {
            each: NodeRow(
                Tier.CLOUD if number % 3 else Tier.EDGE, 8000, 16 << 30, 110,
                site="" if number % 3 else f"site-{number % 4}",
            )
            for number, each in enumerate(name)
        },
        "pods": {
            f"{workload}-6f9c-{pod:03}": PodRow(
                workload, "ready", 1.0, 200, 200 << 20, name[(number * 7 + pod) % nodes]
            )
            for number, workload in enumerate(workloads)
            for pod in range(pods)
        },
        "workloads": {
            workload: WorkloadRow("Deployment", 10, pods, 1.0, 1.0, missing=number)
            for number, workload in enumerate(workloads)
        },
        "moves": {
            str(number): msgspec.structs.replace(
                MOVE, source=name[-1 - number], target=name[number]
            )
            for number in range(6)
        },
        "news": {str(number): NewsRow(80.0, "batch", "placed a pod") for number in range(20)},
    }  # fmt: skip
    status = StatusRow("some services below their edge target", ("A trouble.",) * 9, state="down")
    return Snapshot(1, NOW, {**rows, "status": {"now": status}}, "run")
