"""Why, and what if, in a real browser: asked by a click, followed by links, closed by a key."""

import asyncio
import re

import aiohttp

from kubedsm.dashboard.single_file import Recorded, one_file
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from support.browser import expect, in_browser, keep, violations
from support.watched import watched

pytestmark = in_browser


async def test_a_pod_that_waits_is_asked_about_and_what_it_hangs_together_with(browser):
    async with watched() as (there, url), browser.page(url) as page:
        there.world.deploy("large", 1, cpu="100")
        there.world.deploy("half", 2)
        await expect(page.get_by_text("No node is large enough").first).to_be_visible()
        pod = page.get_by_role("button", name="default/large-").first
        await pod.click()
        panel = page.get_by_role("complementary", name="Pod default/large-")
        await expect(panel).to_contain_text("NodeResourcesFit rejects 2 nodes.")
        await keep(page, "why-pod")
        await expect(panel.get_by_role("heading", name="Pod default/large-")).to_be_focused()
        assert [each for each in await violations(page) if "why" in each] == []
        await panel.get_by_role("button", name="e1").first.click()
        node = page.get_by_role("complementary", name="Node e1")
        await expect(node).to_contain_text("e1 is an edge node; it holds")
        await node.get_by_role("button", name="Back").click()
        await expect(panel).to_be_visible()
        await panel.get_by_text("Each node").click()
        await expect(panel.get_by_role("row", name="e1 edge NodeResourcesFit")).to_be_visible()
        # Of a moment that is past, what was so then and what is known now.
        await panel.get_by_role("button", name=re.compile(r"^\d\d:\d\d:\d\d$")).click()
        await expect(panel).to_contain_text(re.compile(r"At \d\d:\d\d:\d\d:"))
        await expect(panel).to_contain_text("By the current state of the scheduler:")
        await expect(panel).to_contain_text("NodeResourcesFit rejects 2 nodes.")
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)


async def test_a_move_is_followed_by_its_arc_and_a_click_tells_its_story(browser):
    async with watched() as (there, url), browser.page(url) as page:
        there.cordon("e1")
        there.world.deploy("web", 1)
        await there.world.until_bound_of("web", 1, 10)
        arc = page.get_by_role("img", name=re.compile(r"default.web-.+ from c1 to e1"))
        await expect(page.get_by_label("c1").first).to_be_visible()
        await expect(arc).to_have_count(0)
        there.cordon("e1", cordoned=False)
        await expect(arc).to_be_visible()
        # The arc says how far it is, and the header what is waited for.
        await expect(arc).to_have_accessible_name(re.compile(r"\d of \d: wait"))
        await expect(page.get_by_role("banner")).to_contain_text("migrating default/web-")
        await there.world.until(lambda: there.world.placed("web") == {"e1": 1}, 10)
        # It stays for as long as it takes to be seen.
        await expect(arc).to_have_accessible_name(re.compile("completed$"))
        await expect(arc).to_have_count(0)
        moves = page.get_by_role("region", name="Migrations")
        await expect(moves).to_contain_text("completed")
        await moves.get_by_role("button").first.click()
        why = page.get_by_role("complementary")
        await expect(why).to_contain_text("1 of 1 pod missing at the edge")
        await expect(why).to_contain_text("evicted")
        await keep(page, "why-move")


async def test_of_a_recording_is_told_what_its_rows_say_and_nothing_can_be_imagined(
    browser, tmp_path
):
    async with watched() as (there, url), aiohttp.ClientSession() as session:
        there.world.deploy("large", 1, cpu="100")
        film = b""
        while b"NodeResourcesFit" not in film:
            # Not compressed: of that, there is a new one every five seconds.
            plain = {"Accept-Encoding": "identity"}
            async with session.get(f"{url.rstrip('/')}/page/recording", headers=plain) as answer:
                film = await answer.read()
            await asyncio.sleep(0.1)
    path = tmp_path / "recorded.html"
    path.write_text(one_file("one", "of a test", [Recorded("KubeDSM", film.strip())]))
    async with browser.page(path.as_uri()) as page:
        await page.get_by_role("slider", name="Moment that is shown").press("End")
        await page.get_by_role("button", name="default/large-").first.click()
        panel = page.get_by_role("complementary", name="Pod default/large-")
        await expect(panel).to_contain_text("0/2 nodes are available: 2 Insufficient cpu.")
        await expect(panel).to_contain_text("Rejected by NodeResourcesFit.")
        await expect(panel).to_contain_text("This is a recording")
        await expect(page.get_by_role("button", name="What if?")).to_have_count(0)


def state(there):
    """What a question must not change: what is to run, where it does, and what is targeted."""
    pods = {pod["metadata"]["name"]: pod["spec"] for pod in there.world.pods()}
    wanted = [each["spec"] for each in there.world.api.list(DEPLOYMENTS, "default")]
    return pods, wanted, there.runtime.configuration.current


async def test_what_if_is_answered_and_nothing_is_changed(browser):
    async with watched() as (there, url), browser.page(url) as page:
        there.cordon("e1")
        there.world.deploy("half", 2)
        await there.world.until_bound_of("half", 2, 10)
        there.cordon("e1", cordoned=False)
        await there.world.until(lambda: there.world.placed("half") == {"c1": 1, "e1": 1}, 20)
        await expect(page.get_by_role("banner")).to_contain_text("every QoS target is met")
        before = state(there)
        await page.get_by_role("button", name="What if?").click()
        panel = page.get_by_role("complementary", name="What if?")
        await expect(panel).to_contain_text("Nothing would be migrated")
        factor = panel.get_by_role("slider", name="QoS factor of default/half")
        for _ in range(10):
            await factor.press("ArrowRight")
        await expect(panel).to_contain_text("1 pod would be migrated")
        await panel.get_by_label("pods added to default/half").fill("3")
        row = panel.get_by_role("row", name=re.compile(r"half \d of 2 \d of 5 5 "))
        await expect(row).to_be_visible()
        await keep(page, "what-if")
        await panel.get_by_text("Lines for the ConfigMap").click()
        await expect(panel.locator("pre")).to_have_text(re.compile("default/half:\n    qos: 1"))
        assert [each for each in await violations(page) if "why" in each] == []
        assert state(there) == before
