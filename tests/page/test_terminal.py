"""The picture of `kubedsm watch`: whole at every size, with what one has to know of first."""

import attrs
import pytest

from kubedsm.core.world.model import Tier
from kubedsm.page.messages import Snapshot
from kubedsm.page.rows import MoveRow, NewsRow, NodeRow, PodRow, StatusRow, WorkloadRow
from kubedsm.page.terminal.news_lines import News, line_of, text_of
from kubedsm.page.terminal.picture import picture
from kubedsm.page.terminal.rows_seen import Seen
from support.printed import printed, spans

SIZES = [(40, 16), (50, 24), (80, 24), (100, 40), (200, 50)]
WHERE = "http://127.0.0.1:10270"
HEADLINE = "moving 1 of 2: waiting for shop/cart-7 to be Ready, 4 s"
REFUSED = "0/4 nodes are available: 3 Insufficient cpu, 1 node(s) were unschedulable."
MOVE = MoveRow(
    "shop/cart-6", "shop/cart", "n9", "e1", "cloud-to-edge", "its promise lacks 1 pod of 3",
    "moving", 90.0, step="waiting for shop/cart-7 to be Ready", since=96.0, done=3, steps=8,
)  # fmt: skip
SEEN = Seen(
    at=100.0,
    status=StatusRow(
        HEADLINE, ("site north is cut off",), role="standby", leader="other-host", paused=True
    ),
    nodes={
        "e1": NodeRow(Tier.EDGE, 4000, 4_000_000_000, 110),
        "e2": NodeRow(Tier.EDGE, 4000, 4_000_000_000, 110, site="north", state="cut off"),
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
    return printed(picture(seen, 102.0, WHERE, away, width, height), width)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_fits_and_nothing_in_it_is_cut(width, height):
    said = drawn(width=width, height=height)
    lines = said.splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in said
    words = " ".join(said.split())
    for whole in (HEADLINE, "shop/cart", "lacks 1", "shop/big", "lacks 3", "cut off"):
        assert whole in words


def test_it_says_how_each_thing_stands():
    words = " ".join(drawn().split())
    for said in (
        f"KubeDSM at {WHERE}, standby, other-host leads, moving is paused",
        "site north is cut off",
        "0.5/4",
        "3/8 shop/cart-6 from n9 to e1: waiting for shop/cart-7 to be Ready, 6 s",
        f"shop/big-1 and 2 more {REFUSED} (NodeResourcesFit)",
        "placed 2 pods",
    ):
        assert said in words


def test_the_last_news_come_first_and_warnings_stand_out():
    said = drawn()
    assert said.index("could not be moved") < said.index("placed 2 pods")
    colours = dict(spans(picture(SEEN, 102.0, WHERE, "", 100, 40)))
    assert colours["shop/cart-6 could not be moved"] == "yellow"
    assert colours["lacks 3"] == colours["cut off"] == "red"


def test_of_many_nodes_those_are_shown_that_somebody_has_to_know_of():
    others = {f"e{n}": NodeRow(Tier.EDGE, 1000, 10**9, 110) for n in range(10, 400)}
    seen = attrs.evolve(SEEN, nodes={**others, **SEEN.nodes})
    said = drawn(seen, height=30)
    shown = [line.split()[0] for line in said.splitlines() if line[:1] in "en" and " edge" in line]
    assert "e1" in shown
    assert any(line.startswith("e2 ") for line in said.splitlines())
    assert any(line.startswith("n9 ") for line in said.splitlines())
    assert "and 383 more nodes" in said
    assert len(said.splitlines()) <= 30


def test_a_scheduler_that_does_not_answer_is_told_with_what_was_seen_last():
    said = drawn(away=f"nothing answers at {WHERE}")
    assert f"nothing answers at {WHERE}; this is how it was" in said
    assert HEADLINE in said


def test_nothing_at_all_is_a_picture_too():
    assert drawn(Seen(0.0, StatusRow("all is quiet"))).splitlines()[1] == "all is quiet"


def test_news_are_told_once_and_another_scheduler_s_anew():
    def snapshot(run, *numbers):
        rows = {str(n): NewsRow(float(n), "state", f"{run}{n}") for n in numbers}
        return Snapshot(1, 1.0, {"news": rows}, run)

    news = News()
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


def test_a_line_says_when_and_whether_it_is_a_warning():
    assert line_of(SEEN.news["10"]) == (
        "1970-01-01T00:01:30.000000Z  warning: shop/cart-6 could not be moved"
    )


def test_what_news_are_about_is_said_once():
    row = NewsRow(1.0, "event", "Migrated: moved to e1", pod="shop/cart-6")
    assert text_of(row) == "Migrated: moved to e1 (shop/cart-6)"
    assert text_of(SEEN.news["10"]) == SEEN.news["10"].text


def test_what_is_only_proposed_says_how_it_is_carried_out():
    said = drawn(Seen(0.0, StatusRow("all is quiet", mode="suggest", proposal="3f2a91c0")))
    assert "moves are only proposed" in said
    assert "kubedsm approve 3f2a91c0" in said
