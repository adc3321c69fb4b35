"""Address, help and exports of the page, in a real browser."""

import asyncio
import json
import re
import shlex

from aiohttp import web

from kubedsm.dashboard.rows import StatusRow, WorkloadRow
from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.app import page_app, read_static_files
from kubedsm.process.clock import SystemClock
from support.browser import expect, in_browser, keep, violations
from support.dashboard_rows import made_rows
from support.told_scene import ToldScene, page_of, served, stream_of

pytestmark = in_browser
#: nothing answers questions about a cluster that is made up
UNKNOWN = ("404 (Not Found)",)


async def test_what_is_shown_has_an_address_and_back_leads_to_what_was_shown_before(browser):
    async with page_of(made_rows(14, 120)) as url, browser.page(url, failing=UNKNOWN) as page:
        panel = page.get_by_role("complementary")
        await page.locator("[data-node=edge-1]").focus()
        await page.keyboard.press("Enter")
        await expect(panel.get_by_role("heading", name="Node edge-1")).to_be_visible()
        await page.get_by_role("button", name="front", exact=True).first.click()
        await expect(panel.get_by_role("heading", name="Workload shop/front")).to_be_visible()
        await expect(page).to_have_url(re.compile("#workload=shop%2Ffront$"))
        await page.keyboard.press("/")
        await page.keyboard.type("orders")
        await expect(page).to_have_url(re.compile("find=orders$"))
        await page.get_by_role("slider", name="Moment").press("Home")
        await expect(page).to_have_url(re.compile(r"&at=\d+\.\d{3}&find=orders$"))
        # A page with fewer recordings than the address was made for shows the first.
        async with browser.page(f"{page.url}&recording=7", failing=UNKNOWN) as other:
            there = other.get_by_role("complementary")
            await expect(there.get_by_role("heading", name="Workload shop/front")).to_be_visible()
            await expect(other.get_by_role("combobox")).to_have_value("orders")
            await expect(other.get_by_text("The past:")).to_be_visible()
        for _ in range(2):
            await page.go_back()
        await expect(panel.get_by_role("heading", name="Node edge-1")).to_be_visible()
        await page.go_back()
        await expect(panel).to_have_count(0)


async def test_a_recording_whose_text_stalls_is_requested_again(browser):
    clock, requests = SystemClock(), []
    app = page_app(stream_of(ToldScene(begins=1.0), clock), clock, Access())

    @web.middleware
    async def stall(request, handler):
        if request.path == "/page/client.js":
            text = read_static_files()["client.js"].decode().replace("= 25;", "= 0.3;")
            return web.Response(text=text, content_type="text/javascript")
        if request.path == "/page/recording":
            requests.append(request)
            if len(requests) == 1:
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"{")
                await asyncio.Event().wait()
        return await handler(request)

    app.middlewares.append(stall)
    async with served(app) as url, browser.page(url) as page:
        await expect(page.get_by_text("begun").first).to_be_visible()


async def test_the_search_highlights_services_and_nodes(browser):
    async with page_of(made_rows(14, 120)) as url, browser.page(url) as page:
        # Keys are heard once the page is drawn.
        await expect(page.locator("[data-node=edge-3]")).to_be_visible()
        await page.keyboard.press("/")
        await page.keyboard.type("cart")
        await expect(page.locator(".group.chosen").first).to_be_attached()
        lit = await page.locator(".group.chosen").evaluate_all(
            "groups => [...new Set(groups.map((each) => each.dataset.workload))]"
        )
        assert lit == ["shop/cart"]
        assert await page.locator(".group.dim").count() > 0
        await page.get_by_role("combobox").fill("edge-3")
        await expect(page.locator(".found")).to_have_attribute("data-node", "edge-3")
        await expect(page.locator(".dim")).to_have_count(0)


async def test_an_answer_is_copied_as_a_command_and_saved_as_json_and_picture(browser):
    rights = {"permissions": ["clipboard-read", "clipboard-write"]}
    async with (
        page_of(made_rows(4, 30)) as url,
        browser.page(url, failing=UNKNOWN, **rights) as page,
    ):
        await page.locator("[data-node=edge-1]").focus()
        await page.keyboard.press("Enter")
        # This server has no explanations: its answer must be there before it is saved.
        await expect(page.locator(".why")).to_contain_text("no file why")
        for button, text in (
            ("Copy kubectl", "kubectl describe node edge-1"),
            ("Copy kubedsm", "kubedsm explain node/edge-1"),
            ("Copy link", f"{url.rstrip('/')}/#node=edge-1"),
        ):
            await page.get_by_role("button", name=button).click()
            await expect(page.locator(".share output")).to_contain_text("copied.")
            assert await page.evaluate("navigator.clipboard.readText()") == text
        saved = {}
        for button in ("JSON", "PNG"):
            async with page.expect_download() as download:
                await page.get_by_role("button", name=button).click()
            file = await download.value
            saved[file.suggested_filename] = (await file.path()).read_bytes()
        document = json.loads(saved["kubedsm-node-edge-1.json"])
        assert document["subject"]["key"] == "edge-1"
        assert document["row"]["tier"] == "edge"
        picture = saved["kubedsm-node-edge-1.png"]
        assert picture[:4] == b"\x89PNG"
        assert len(picture) > 10_000


async def test_no_command_that_is_copied_runs_what_a_pod_says_of_its_owner(browser):
    """Any tenant may write the kind and the name of a pod's owner."""
    kind, name = "Job;reboot $(id)", "w'`id`"
    async with page_of(made_rows(4, 30)) as url, browser.page(url) as page:
        said = await page.evaluate(
            """async ([kind, name]) => {
              const { commands } = await import("./page/share.js");
              const [workloads, moves] = [new Map([[`a/${name}`, { kind, total: 1 }]]), new Map()];
              const change = new URLSearchParams([["replicas", `a/${name}:+1`]]).toString();
              return [["workload", `a/${name}`], ["what-if", change]].map(
                ([about, key]) => commands({ kind: about, key }, { workloads, moves })[0]);
            }""",
            [kind, name],
        )
    owner = kind.lower()
    assert list(map(shlex.split, said)) == [
        ["kubectl", "-n", "a", "describe", owner, name],
        ["kubectl", "-n", "a", "scale", f"{owner}/{name}", "--replicas=2"],
    ]


async def test_a_first_visit_has_a_tour_and_a_question_mark_opens_the_help(browser):
    status = StatusRow("idle", cluster="shop-eu", role="leading", leader="kubedsm-1")
    rows = {"status": {"now": status}, "workloads": {"a/w": WorkloadRow("Deployment", 1, 4, 0.5)}}
    async with page_of(rows) as url, browser.page(url, width=1024, toured=False) as page:
        await expect(page.get_by_role("banner")).to_contain_text("shop-eu")
        await expect(page.get_by_role("banner")).to_contain_text("kubedsm-1 leads")
        tour = page.get_by_role("complementary", name="Tour")
        for step in ("1 of 3", "2 of 3", "3 of 3"):
            await expect(tour).to_contain_text(step)
            await tour.get_by_role("button").first.click()
        await expect(tour).to_have_count(0)
        await page.reload()
        await expect(page.get_by_role("banner")).to_contain_text("shop-eu")
        await expect(tour).to_have_count(0)
        await page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="KubeDSM")
        await expect(dialog).to_contain_text("back to now")
        await keep(page, "help")
        assert await violations(page) == []
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
