"""Tables of `kubedsm watch`: whole at every size, most urgent first, from a site to a pod."""

import re

import msgspec
import pytest

from kubedsm.cli.live_view import NewsCursor, news_line
from kubedsm.dashboard.rows import NewsRow, Snapshot, StatusRow, WorkloadRow
from kubedsm.dashboard.terminal.browser import NUMBERED, VIEWS, Browser
from kubedsm.dashboard.terminal.cells import format_memory
from kubedsm.dashboard.terminal.seen import SPAN, ShareHistory, news_text
from kubedsm.dashboard.terminal.summary import clock_of
from kubedsm.dashboard.terminal.views import Scope
from kubedsm.explain.explanation import Link
from support.dashboard_rows import HEADLINE, NOW, REFUSED, SITES, WHERE, crowded, small
from support.printed import printed, spans

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def browsing(snapshot=None, view="services"):
    browser = Browser(WHERE)
    browser.observe(small() if snapshot is None else snapshot)
    browser.show(view)
    return browser


def drawn(browser, width=100, height=40):
    return printed(browser.render(NOW, width, height), width)


def rows_of(browser, width=100, height=40):
    """The first words of the rows of the table, without those around it."""
    lines = drawn(browser, width, height).splitlines()
    [views] = [at for at, line in enumerate(lines) if line.startswith("1 services")]
    return [line.split()[0] for line in lines[views + 3 : views + 3 + browser._page]]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("width", "height"), [(40, 16), (80, 23), (120, 39), (200, 50)])
def test_a_small_cluster_fits_and_nothing_in_it_is_cut(view, width, height):
    said = drawn(browsing(view=view), width, height)
    lines = said.splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    # Long sentences are whole in wider terminals.
    assert ELLIPSIS not in said or width == 40
    words = " ".join(said.split())
    assert f"degraded: {HEADLINE}" in words
    assert "Site north is partitioned." in words


@pytest.mark.parametrize(("nodes", "services"), [(50, 30), (300, 100)])
@pytest.mark.parametrize("names", ["EKS", "short", "unlike"])
@pytest.mark.parametrize(("width", "height"), [(80, 23), (120, 39)])
@pytest.mark.parametrize("view", ["services", "nodes", "pods"])
def test_a_crowded_cluster_fills_the_terminal(view, width, height, names, nodes, services):
    browser = browsing(crowded(nodes, services, names), view)
    lines = drawn(browser, width, height).splitlines()
    assert height - 1 <= len(lines) <= height
    assert max(map(len, lines)) <= width
    shown = rows_of(browser, width, height)
    assert len(shown) >= height // 2 - 2
    assert len(set(shown)) == len(shown)
    if names == "EKS" and view != "services":
        assert "nodes: ip-10-23-7-*.eu-central-1.compute.internal" in lines
    assert "and 5 more reasons: press 7" in lines or height > 30


def test_the_header_says_how_things_stand():
    browser = browsing()
    words = " ".join(drawn(browser).split())
    for said in (
        f"KubeDSM at {WHERE}, standby, other-host leads, migrations are paused",
        "7.5 of 8 cores and 7 of 8 Gi free at the edge",
        "3/8 shop/cart-6 from n9 to e1: waiting for shop/cart-7 to be Ready, 4 s",
        "placed 2 pods",
    ):
        assert said in words
    assert words.index("was not migrated") < words.index("placed 2 pods")
    colours = dict(spans(browser.render(NOW, 100, 40)))
    assert colours["degraded"] == colours["Site north is partitioned."] == "yellow"
    browser.observe(small(StatusRow("idle", mode="suggest", proposal="3f2a91c0", cluster="prod")))
    words = " ".join(drawn(browser).split())
    assert f"KubeDSM prod at {WHERE}, migrations are only proposed healthy: idle" in words
    assert "kubedsm approve 3f2a91c0" in words


def test_every_view_lists_what_needs_attention_first():
    browser = browsing(crowded(12, 30))
    assert rows_of(browser)[:2] == ["team-2/svc-29", "team-1/svc-28"]
    assert [rows_of(browsing(view=view))[:4] for view in NUMBERED] == [
        ["shop/cart", "bulk/big"],
        ["edge", "edge", "cloud"],
        ["e2", "e1", "n9"],
        ["bulk/big-1", "bulk/big-2", "bulk/big-3", "shop/cart-2"],
        ["moving"],
        [clock_of(NOW - 10), clock_of(NOW - 20)],
        ["problem", "figure", "figure"],
    ]
    empty = browsing(Snapshot(1, NOW, {}, "run"))
    assert "services: 0" in drawn(empty)
    empty.move(1)
    assert empty.open() is None


def test_cells_have_the_units_people_read():
    said = drawn(browsing(view="nodes"), 120)
    assert re.search("e2 +edge north +partitioned +0.5/4 .* 300.0 of 512 Mi", said)
    assert re.search("n9 +cloud +0.5/16 .* 1.0 of 16 Gi .* 1 +1$", said, re.MULTILINE)
    said = drawn(browsing(view="pods"), 120)
    # The first row is selected; the reason is below the table.
    assert f"bulk/big-1: {REFUSED} (NodeResourcesFit)" in " ".join(said.split())
    assert re.search("shop/cart-6 +ready +n9 +cloud +2h +0.5", said)
    assert re.search("shop/cart-1 +ready +e2 +edge north +1m", said)
    said = drawn(browsing())
    assert "edge ms" not in said
    assert re.search("shop/cart +2 of 3 +67% +100% +1 missing", said)
    [other] = [line for line in said.splitlines() if line.startswith("bulk/big ")]
    assert "missing" not in other
    assert "met" not in other


def test_measured_response_times_are_columns():
    row = WorkloadRow("Deployment", 1, 2, edge_answers=12.34, cloud_answers=43.0)
    said = drawn(browsing(small(workloads={"shop/cart": row})), 120)
    assert re.search("edge ms +cloud ms\n.* 12.3 +43$", said, re.MULTILINE)


def test_a_table_sorted_by_a_column_that_disappears_stays():
    """Measured response times may end while the table is sorted by them."""
    row = WorkloadRow("Deployment", 1, 2, edge_answers=12.34, cloud_answers=1234.5)
    browser = browsing(small(workloads={"shop/cart": row}))
    assert re.search(" 1234$", drawn(browser, 120), re.MULTILINE)
    for _ in range(9):
        browser.sort()
    assert browser.level.column == 8
    browser.observe(small())
    assert rows_of(browser) == rows_of(browsing())


def test_a_node_of_a_terabyte_has_all_digits():
    assert format_memory(1 << 33, 1008 << 30) == "8.0 of 1008 Gi"


def test_sites_with_demand_show_the_share_served_there():
    status = StatusRow("idle", sites=SITES)
    said = drawn(browsing(small(status), "sites"))
    assert re.search(r"edge munich .* 50% +75% +1 missing", said)
    assert re.search(r"edge berlin .* 100% +100% +met", said)
    assert "shortfall" not in drawn(browsing(view="sites"))


def test_keys_lead_from_a_site_to_its_nodes_to_their_pods_and_back():
    browser = browsing(view="sites")
    assert "edge north" in drawn(browser)
    browser.move(1)
    assert browser.open() is None
    assert rows_of(browser) == ["e2"]
    assert "sites > nodes, edge north: 1" in drawn(browser)
    browser.open()
    assert rows_of(browser) == ["shop/cart-1"]
    assert browser.open() == Link("pod", "shop/cart-1")
    browser.go_back()
    browser.go_back()
    drawn(browser)
    assert browser.selected.key == "edge north"
    browser.show("sites", Scope(namespace="bulk"))
    for _ in range(2):
        drawn(browser)
        browser.open()
    assert "namespace bulk: 0" in drawn(browser)
    browser = browsing()
    drawn(browser)
    browser.open()
    assert rows_of(browser) == ["shop/cart-2", "shop/cart-1", "shop/cart-6"]


def test_a_filter_a_namespace_and_an_order_restrict_and_arrange_rows():
    browser = browsing(view="pods")
    browser.filter("CART edge")
    assert rows_of(browser) == ["shop/cart-2", "shop/cart-1"]
    assert 'pods, filter "cart edge": 2 of 6' in drawn(browser)
    browser.go_back()
    browser.choose_namespace()
    assert rows_of(browser) == ["all", "bulk", "shop"]
    browser.move(1)
    browser.open()
    assert rows_of(browser) == ["bulk/big-1", "bulk/big-2", "bulk/big-3"]
    browser.show("services")
    assert rows_of(browser) == ["bulk/big"]
    browser.go_back()
    assert rows_of(browser) == ["shop/cart", "bulk/big"]
    browser.sort()
    assert rows_of(browser) == ["bulk/big", "shop/cart"]
    browser.reverse()
    assert rows_of(browser) == ["shop/cart", "bulk/big"]
    for _ in drawn(browser):
        browser.sort()
        if browser.level.column is None:
            break
    assert browser.level.column is None


def test_the_selection_stays_on_its_row_and_on_the_screen():
    browser = browsing(crowded(50, 30), "nodes")
    drawn(browser, 80, 23)
    browser.move_pages(2)
    drawn(browser, 80, 23)
    chosen = browser.selected.key
    assert chosen in rows_of(browser, 80, 23)
    fewer = crowded(50, 30)
    fewer.rows["nodes"].pop("node-00")
    browser.observe(fewer)
    drawn(browser, 80, 23)
    assert browser.selected.key == chosen
    browser.move(10**9)
    assert browser.selected.key in rows_of(browser, 80, 23)
    fewer.rows["nodes"].clear()
    browser.observe(fewer)
    drawn(browser, 80, 23)
    assert browser.selected is None


def test_a_trend_shows_the_edge_share_of_ten_minutes():
    history = ShareHistory()
    assert history.draw_trend("a", 0.0, 4) == "    "
    step = SPAN / 4
    for at, edge, total in [(-9e9, 4, 4), (step * 2, 0, 4), (step * 3, 2, 4), (step * 4, 0, 0)]:
        history.observe(at, [("a", edge, total), ("b", 1, 1)])
    assert history.draw_trend("a", step * 3, 4) == "██▁▅"
    assert history.draw_trend("a", step * 4, 4) == "█▁▅ "
    assert history.draw_trend("b", step * 99, 4) == "████"
    history.observe(step * 99, [("a", 4, 4)])
    assert history.draw_trend("a", step * 99, 4) == "   █"
    assert len(history._shares["a"]) == 2


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
    warning = small().rows["news"]["10"]
    assert news_line(warning) == (
        "1970-01-01T02:46:30.000000Z  warning: shop/cart-6 was not migrated"
    )
    row = NewsRow(1.0, "event", "Migrated: moved to e1", pod="shop/cart-6")
    assert news_text(row) == "Migrated: moved to e1 (shop/cart-6)"
    assert news_text(warning) == msgspec.structs.asdict(warning)["text"]
