"""What the page says of rows, in a real browser: troubles, moves, what waits, and promises."""

import re
from contextlib import asynccontextmanager

import msgspec

from kubedsm.dashboard.rows import MoveRow, PodRow, StatusRow, WorkloadRow
from kubedsm.dashboard.server.access import Access, TokenFile
from kubedsm.process.clock import SystemClock
from support.browser import expect, in_browser, violations
from support.serving_pages import page_showing, served
from support.told_scene import ToldScene, stream_of

pytestmark = in_browser

#: of a scene whose moment is 1
MOVE = MoveRow("a/p", "a/w", "c1", "e1", "cloud-to-edge", "a/w lacks 1 pod of 3", "moving", 1.0)


@asynccontextmanager
async def told(rows, access=None):
    """Enter the URL of a page of these rows."""
    clock = SystemClock()
    stream = stream_of(ToldScene(rows), clock)
    async with served(page_showing(stream, clock, access)) as url:
        yield url


def moved(**fields):
    return msgspec.structs.replace(MOVE, **fields)


def workload(edge, promise, missing=0):
    return WorkloadRow("Deployment", edge, 4, promise, 1.0, missing=missing)


def pod(created, message, *rules):
    return PodRow("a/w", "waiting", created, message=message, rules=rules)


async def test_what_is_wrong_moved_and_waits_is_said_in_words(browser):
    status = StatusRow(
        "moving 1 of 1, 4 s",
        ("Site north is cut off.",),
        role="standby",
        leader="other-host",
        paused=True,
        proposal="p-1",
        moving=1,
    )
    moves = {
        "over": moved(state="rolled back", ended=1.0, reason="it was not Ready in time"),
        "proposed": moved(state="proposed", pod="a/q"),
        "moving": moved(step="waiting for a/x to be Ready", since=-8.0, done=2, steps=6),
    }
    pods = {
        "a/late": pod(0.0, "0/2 nodes are available: 2 Insufficient cpu.", "NodeResourcesFit"),
        "a/first": pod(-90.0, "0/2 nodes are available, 2 lack cpu.", "NodeResourcesFit"),
        "a/other": pod(-9.0, "It is to be elsewhere.", "NodeAffinity"),
    }
    rows = {"status": {"now": status}, "moves": moves, "pods": pods, "workloads": {}}
    async with told(rows) as url, browser.page(url) as page:
        await expect(page.get_by_role("list", name="What is wrong")).to_contain_text("north is cut")
        await expect(page.get_by_text("standby; other-host leads")).to_be_visible()
        await expect(page).to_have_title("trouble, migrating 1 - KubeDSM")
        await expect(page.get_by_role("status")).to_have_text("moving 1 of 1")
        under_way, proposed, over = await page.locator(".moves li").all_inner_texts()
        assert re.search(r"waiting for a/x to be Ready, (9|1\d) s", under_way)
        assert "a/q" in proposed
        assert "it was not Ready in time" in over
        await expect(page.get_by_text("kubedsm approve p-1")).to_be_visible()
        first, other = await page.locator(".waiting > ul > li").all_inner_texts()
        assert re.match(r"a/first for 1 min [34]\d s\n+.*2 lack cpu", first)
        assert "and 1 more of a/w" in first
        assert "Rejected by NodeAffinity" in other
        assert await violations(page) == []


async def test_workloads_that_lack_most_come_first_and_what_is_cut_is_found(browser):
    workloads = {f"team/service-{number:03}": workload(4, 1.0) for number in range(300)}
    workloads |= {"z/half": workload(1, 0.5, 1), "z/none": workload(0, 0.75, 3)}
    async with told({"workloads": workloads}) as url, browser.page(url) as page:
        rows = page.locator(".workloads li")
        await expect(rows).to_have_count(12)
        texts = [text.replace("\n", " ") for text in await rows.all_inner_texts()]
        assert texts[0].startswith("z/none 0 of 4, 3 missing, target 75%")
        assert texts[1].startswith("z/half 1 of 4, 1 missing, target 50%")
        await expect(rows.first.get_by_label("0% at the edge, target 75%")).to_be_visible()
        await expect(page.get_by_role("button", name="and 290 more")).to_be_visible()
        await page.keyboard.press("/")
        await page.keyboard.type("service-2")
        await expect(page.get_by_role("option")).to_have_count(12)
        await page.keyboard.type("99")
        await expect(page.get_by_role("option")).to_have_text(re.compile("team/service-299"))
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="team/service-299")).to_be_visible()


async def test_where_nothing_is_yet_it_is_said_what_will_be(browser):
    async with told({}) as url, browser.page(url, width=390) as page:
        await expect(page.get_by_text("No pod has schedulerName kubedsm yet.")).to_be_visible()
        await expect(page.get_by_text("There are no pods.")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") == 390


async def test_a_workload_keeps_its_look_whoever_comes_beside_it(browser):
    async with told({}) as url, browser.page(url) as page:
        looks = await page.evaluate(
            """async () => {
              const { looks } = await import("./page/palette.js");
              const of = (name, ...all) => JSON.stringify(looks(name, all));
              const first = of("b", "b", "c");
              const many = Array.from({ length: 40 }, (_, index) => `w${index}`);
              return [first === of("b", "a", "b", "c"), of("none", "a") === of("others"),
                new Set(many.map((name) => of(name, ...many))).size];
            }"""
        )
        assert looks == [True, True, 40]


async def test_who_has_no_token_is_asked_for_it(browser, tmp_path):
    (tmp_path / "token").write_text("right")
    access = Access(token=TokenFile(tmp_path / "token"))
    refusal = ["401 (Unauthorized)"]
    async with told({}, access) as url, browser.page(url, failing=refusal) as page:
        token = page.get_by_label("Token")
        assert await violations(page) == []
        await token.fill("wrong")
        await token.press("Enter")
        await expect(page.get_by_text("Wrong token")).to_be_visible()
        await token.fill("right")
        await token.press("Enter")
        await expect(page.get_by_role("status")).to_have_text("begun")


async def test_a_standby_says_why_it_shows_nothing_and_who_leads(browser):
    status = StatusRow("standby: kubedsm-1 leads", role="standby", leader="kubedsm-1")
    async with told({"status": {"now": status}}) as url, browser.page(url) as page:
        said = "This replica is a standby and remembers no decisions and no migrations; kubedsm-1"
        for part in (".news", ".moves"):
            await expect(page.locator(part)).to_contain_text(f"{said} leads: open its page.")
        await expect(page.get_by_text("No news yet")).to_have_count(0)


async def test_a_workload_whose_target_is_not_known_has_no_figure_of_one(browser):
    row = WorkloadRow("Deployment", 1, 4)
    rows = {"status": {"now": StatusRow("", role="watching")}, "workloads": {"a/w": row}}
    async with told(rows) as url, browser.page(url) as page:
        part = page.locator(".workloads")
        await expect(part).to_contain_text("1 of 4")
        await expect(part).not_to_contain_text("target")
        await expect(part.get_by_role("img", name="25% at the edge", exact=True)).to_be_visible()
