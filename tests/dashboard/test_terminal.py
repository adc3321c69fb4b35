"""The picture of `kubedsm watch`: whole at every size, with what one has to know of first."""

import re

import attrs
import msgspec
import pytest

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
from kubedsm.dashboard.terminal.picture import (
    NewsCursor,
    TypedSnapshot,
    news_line,
    news_text,
    render_picture,
)
from kubedsm.model.model import Tier
from support.printed import printed, spans

SIZES = [(40, 16), (50, 24), (80, 24), (100, 40), (200, 50)]
WHERE = "http://127.0.0.1:10270"
HEADLINE = "moving 1 of 2: waiting for shop/cart-7 to be Ready, 4 s"
REFUSED = "0/4 nodes are available: 3 Insufficient cpu, 1 node(s) were unschedulable."
MOVE = MoveRow(
    "shop/cart-6", "shop/cart", "n9", "e1", "cloud-to-edge", "1 of 3 pods missing at the edge",
    "moving", 90.0, step="waiting for shop/cart-7 to be Ready", since=96.0, done=3, steps=8,
)  # fmt: skip
SEEN = TypedSnapshot(
    at=100.0,
    status=StatusRow(
        HEADLINE, ("site north is partitioned",), role="standby", leader="other-host", paused=True
    ),
    nodes={
        "e1": NodeRow(Tier.EDGE, 4000, 4_000_000_000, 110),
        "e2": NodeRow(Tier.EDGE, 4000, 4_000_000_000, 110, site="north", state="partitioned"),
        "n9": NodeRow(Tier.CLOUD, 16000, 16_000_000_000, 110),
    },
    pods={
        "shop/cart-6": PodRow("shop/cart", "ready", 1.0, 500, 1_000_000_000, "n9", "m"),
        "shop/cart-1": PodRow("shop/cart", "ready", 1.0, 500, 1_000_000_000, "e1"),
        **{
            f"shop/big-{number}": PodRow(
                "shop/big", "waiting", 1.0, 9000, message=REFUSED, rules=("NodeResourcesFit",)
            )
            for number in (1, 2, 3)
        },
    },
    workloads={
        "shop/cart": WorkloadRow("Deployment", 1, 3, 0.67, 1.0, missing=1),
        "shop/big": WorkloadRow("Deployment", 0, 3, 1.0, 1.0, missing=3, waiting=3),
    },
    moves={"m": MOVE},
    news={
        "9": NewsRow(80.0, "batch", "placed 2 pods"),
        "10": NewsRow(
            90.0, "event", "shop/cart-6 could not be moved", pod="shop/cart-6", warning=True
        ),
    },
)


def drawn(seen=SEEN, width=100, height=40, away=""):
    return printed(render_picture(seen, 102.0, WHERE, away, width, height), width)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_fits_and_nothing_in_it_is_cut(width, height):
    said = drawn(width=width, height=height)
    lines = said.splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in said
    words = " ".join(said.split())
    for whole in (HEADLINE, "shop/cart", "1 missing", "shop/big", "3 missing", "partitioned"):
        assert whole in words


def test_it_says_how_each_thing_stands():
    words = " ".join(drawn().split())
    for said in (
        f"KubeDSM at {WHERE}, standby, other-host leads, migrations are paused",
        "site north is partitioned",
        "0.5/4",
        "3/8 shop/cart-6 from n9 to e1: waiting for shop/cart-7 to be Ready, 6 s",
        f"shop/big-1 and 2 more {REFUSED} (NodeResourcesFit)",
        "placed 2 pods",
    ):
        assert said in words


def test_the_last_news_come_first_and_warnings_stand_out():
    said = drawn()
    assert said.index("could not be moved") < said.index("placed 2 pods")
    colours = dict(spans(render_picture(SEEN, 102.0, WHERE, "", 100, 40)))
    assert colours["shop/cart-6 could not be moved"] == "yellow"
    assert colours["3 missing"] == colours["partitioned"] == "red"


def test_of_many_nodes_those_are_shown_that_somebody_has_to_know_of():
    others = {f"e{n}": NodeRow(Tier.EDGE, 1000, 10**9, 110) for n in range(10, 400)}
    seen = attrs.evolve(SEEN, nodes={**others, **SEEN.nodes})
    said = drawn(seen, height=30)
    shown = [line.split()[0] for line in said.splitlines() if line[:1] in "en" and " edge" in line]
    assert "e1" in shown
    assert any(line.startswith("e2 ") for line in said.splitlines())
    assert any(line.startswith("n9 ") for line in said.splitlines())
    rows = [line for line in said.splitlines() if re.match("[en][0-9]+ ", line)]
    assert f"and {len(seen.nodes) - len(rows)} more nodes" in said
    assert len(said.splitlines()) <= 30


#: short names, long ones with shared parts as clouds give them, and long ones without
NAMES = {
    "short": "node-{:02}",
    "EKS": "ip-10-23-7-{}.eu-central-1.compute.internal",
    "unlike": "{:02}-a-node-whose-name-has-some-41-letters-{:02}",
}


def crowded(nodes, services, names="short", *, qos_target=1.0):
    """A cluster in which each node runs pods of most services, and pods are migrated."""
    name = [NAMES[names].format(number, number) for number in range(nodes)]
    workloads = [f"team-{number % 3}/svc-{number:02}" for number in range(services)]
    return TypedSnapshot(
        at=100.0,
        status=StatusRow("degraded: some services below their edge target", ("A trouble.",) * 5),
        nodes={
            each: NodeRow(Tier.CLOUD if number % 3 else Tier.EDGE, 8000, 16 << 30, 110)
            for number, each in enumerate(name)
        },
        pods={
            f"{workload}-{pod}": PodRow(
                workload, "ready", 1.0, 200, 200 << 20, name[(number * 7 + pod) % nodes]
            )
            for number, workload in enumerate(workloads)
            for pod in range(33)
        },
        workloads={
            workload: WorkloadRow("Deployment", 10, 33, qos_target, 1.0, missing=number)
            for number, workload in enumerate(workloads)
        },
        moves={str(number): move_between(name[-1 - number], name[number]) for number in range(6)},
        news={str(number): NewsRow(80.0, "batch", "placed a pod") for number in range(20)},
    )


def move_between(source, target):
    return msgspec.structs.replace(MOVE, source=source, target=target)


@pytest.mark.parametrize(("nodes", "services"), [(12, 4), (50, 30), (300, 100)])
@pytest.mark.parametrize(("width", "names"), [(60, "EKS"), (80, "short"), (120, "unlike")])
@pytest.mark.parametrize("height", [16, 24, 40, 60])
def test_a_crowded_cluster_fills_the_terminal(width, height, nodes, services, names):
    seen = crowded(nodes, services, names)
    said = drawn(seen, width=width, height=height)
    rows = said.splitlines()
    assert (height - 4 if nodes >= height else 16) <= len(rows) <= height
    assert max(map(len, rows)) <= width
    assert sum(not row.strip() for row in rows) <= 6
    listed = [row for row in rows if "pods of" in row or re.search("[0-9] svc-", row)]
    least = 3 if height >= 24 else 1
    assert len(listed) >= least
    assert len(listed) == nodes or f"and {nodes - len(listed)} more node" in said
    targets = [row for row in rows if row.startswith("team-")]
    assert len(targets) >= least
    assert all("100%" in row and "of 33" in row for row in targets)
    left = services - len(targets)
    assert not left or f"and {left} more workload" in said
    assert "3/8" in said
    words = " ".join(said.split())
    assert "shop/cart-6 from" in words
    if names == "EKS":
        assert "nodes: ip-10-23-7-*.eu-central-1.compute.internal" in words


def test_amounts_have_the_units_people_read():
    node = NodeRow(Tier.EDGE, 8000, 16 << 30, 110)
    small = msgspec.structs.replace(node, memory=512 << 20)
    pods = {
        str(at): PodRow("a/b", "ready", 1.0, 500, memory, name)
        for at, (name, memory) in enumerate([("big", 7945689498), ("small", 300 << 20)])
    }
    said = drawn(TypedSnapshot(0.0, StatusRow(""), nodes={"big": node, "small": small}, pods=pods))
    assert "7.4 of 16 Gi" in said
    assert "300.0 of 512 Mi" in said


def test_what_is_away_proposed_empty_or_without_targets_is_a_picture_too():
    said = drawn(away=f"no response from {WHERE}")
    assert f"no response from {WHERE}; this is the last state" in said
    assert HEADLINE in said
    said = drawn(TypedSnapshot(0.0, StatusRow("all is quiet", mode="suggest", proposal="3f2a91c0")))
    assert "migrations are only proposed" in said
    assert "kubedsm approve 3f2a91c0" in said
    quiet = TypedSnapshot(0.0, StatusRow("all is quiet"))
    assert drawn(quiet).splitlines()[1] == "all is quiet"
    said = drawn(crowded(12, 4, qos_target=None))
    assert "10 of 33" in said
    for wrong in ("target ", "0.00", "0%", " met", "missing"):
        assert wrong not in said


def test_news_are_told_once_and_another_scheduler_s_anew():
    def snapshot(run, *numbers):
        rows = {str(n): NewsRow(float(n), "state", f"{run}{n}") for n in numbers}
        return Snapshot(1, 1.0, {"news": rows}, run)

    news = NewsCursor()
    told = [
        [row.text for row in news.since(snapshot(run, *numbers))]
        for run, numbers in [
            ("a", (9, 10)),
            ("a", (9, 10, 11)),
            ("a", ()),
            ("b", (1,)),
            ("b", (1,)),
        ]
    ]
    assert told == [["a9", "a10"], ["a11"], [], ["b1"], []]


def test_a_line_of_news_says_when_of_what_and_whether_it_is_a_warning():
    assert news_line(SEEN.news["10"]) == (
        "1970-01-01T00:01:30.000000Z  warning: shop/cart-6 could not be moved"
    )
    row = NewsRow(1.0, "event", "Migrated: moved to e1", pod="shop/cart-6")
    assert news_text(row) == "Migrated: moved to e1 (shop/cart-6)"
    assert news_text(SEEN.news["10"]) == SEEN.news["10"].text


def test_sites_with_demand_are_listed_most_missing_first():
    sites = SiteRow("berlin", 1.0, 1.0, 3), SiteRow("munich", 0.5, 0.75, 2, 1)
    seen = attrs.evolve(SEEN, status=msgspec.structs.replace(SEEN.status, sites=sites))
    lines = drawn(seen).splitlines()
    [head] = [at for at, line in enumerate(lines) if line.startswith("site  ")]
    assert [line.split() for line in lines[head + 1 : head + 3]] == [
        ["munich", "50%", "75%", "2", "1", "missing"],
        ["berlin", "100%", "100%", "3", "met"],
    ]
    assert "berlin" not in drawn()
