"""A scheduler that runs, a demo and recordings in a real browser: asked about, followed, played."""

import asyncio
import re
from contextlib import AsyncExitStack

import aiohttp
import pytest

from kubedsm.dashboard.server import stream as streams
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from kubedsm_lab.replay.runner import carry_out
from kubedsm_lab.replay.single_file import one_file
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import normal
from support.browser import expect, in_browser, keep, violations
from support.processes import free_port
from support.watched import scheduling, watched

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
        there.world.cordon("e1")
        await there.world.bring_up("web", 1, within=10)
        arc = page.get_by_role("img", name=re.compile(r"default.web-.+ from c1 to e1"))
        await expect(page.get_by_label("c1").first).to_be_visible()
        await expect(arc).to_have_count(0)
        there.world.cordon("e1", cordoned=False)
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
    path.write_text(one_file("one", "of a test", {"KubeDSM": film.strip()}))
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
        there.world.cordon("e1")
        await there.world.bring_up("half", 2, within=10)
        there.world.cordon("e1", cordoned=False)
        await there.world.until(lambda: there.world.placed("half") == {"c1": 1, "e1": 1}, 20)
        await expect(page.get_by_role("banner")).to_contain_text("every QoS target is met")
        before = state(there)
        await page.get_by_role("button", name="What if?").click()
        panel = page.get_by_role("complementary", name="What if?")
        await expect(panel).to_contain_text("Nothing would be migrated")

        async def assume(change, name, value=None):
            await panel.get_by_label("Change", exact=True).select_option(change)
            await panel.get_by_label(re.compile("^Name: ")).fill(name)
            if value:
                await panel.locator("form input").last.fill(value)
            await panel.get_by_role("button", name="Add").click()

        await assume("change the edge target of", "default/half", "1")
        await expect(panel).to_contain_text("1 pod would be migrated")
        await assume("add or remove replicas of", "default/half", "+3")
        row = panel.get_by_role("row", name=re.compile(r"half \d of 2 \d of 5 5 .* ms \d+ ms"))
        await expect(row).to_be_visible()
        await expect(panel).to_contain_text("Certificate: ")
        await keep(page, "what-if")
        await panel.get_by_text("Lines for the ConfigMap").click()
        await expect(panel.locator("pre")).to_have_text(re.compile("default/half:\n    qos: 1"))
        assert [each for each in await violations(page) if "why" in each] == []
        await panel.get_by_label(re.compile("^Remove: .*replicas")).click()
        await assume("drain node", "e1")
        await expect(panel).to_contain_text("1 pod would start again")
        # The question is in the address, a moment after it was asked: a link leads to it.
        await expect(page).to_have_url(re.compile("drain"))
        async with browser.page(page.url) as other:
            await expect(other.get_by_label("Assumed changes")).to_contain_text("drain node e1")
            await expect(other.locator(".why")).to_contain_text("1 pod would start again")
        assert state(there) == before


GONE = ("net::ERR",)


async def test_a_page_goes_on_when_the_server_is_back(browser):
    port = free_port()
    async with (
        scheduling() as there,
        AsyncExitStack() as server,
        browser.page(await server.enter_async_context(there.page(port)), failing=GONE) as page,
    ):
        there.world.deploy("early", 1, cpu="100")
        await expect(page.get_by_role("button", name="early-").first).to_be_visible()
        await server.aclose()
        await expect(page.get_by_text("not answered since")).to_be_visible()
        there.world.deploy("late", 1, cpu="100")
        async with there.page(port):
            await expect(page.get_by_role("button", name="late-").first).to_be_visible()
            await expect(page.get_by_text("not answered since")).to_have_count(0)
            await expect(page.get_by_role("button", name="early-").first).to_be_visible()
        # Another scheduler counts its versions from the start: of the one before, news stay.
        async with scheduling() as another, another.page(port):
            another.world.deploy("other", 1, cpu="100")
            await expect(page.get_by_role("button", name="other-").first).to_be_visible()
            waiting = page.get_by_role("region", name="Waiting")
            await expect(waiting.get_by_role("button", name="early-")).to_have_count(0)
            news = page.get_by_role("region", name="News")
            await expect(news.get_by_role("button", name="early-").first).to_be_visible()


async def test_a_page_asks_again_when_its_stream_ends_in_good_order(browser, monkeypatch):
    monkeypatch.setattr(streams, "LASTS", 0.1)
    monkeypatch.setattr(streams, "SILENCE", 0.05)
    async with scheduling() as there, there.page() as url, browser.page(url) as page:
        there.world.deploy("early", 1, cpu="100")
        await expect(page.get_by_role("button", name="early-").first).to_be_visible()
        async with page.expect_request(lambda request: "/page/stream?after" in request.url):
            pass
        there.world.deploy("late", 1, cpu="100")
        await expect(page.get_by_role("button", name="late-").first).to_be_visible()
        await expect(page.get_by_text("not answered since")).to_have_count(0)


async def test_a_page_that_nobody_sees_lets_go_of_the_server_and_catches_up(browser):
    async with scheduling() as there, there.page() as url, browser.page(url) as page:
        there.world.deploy("early", 1, cpu="100")
        await expect(page.get_by_role("button", name="early-").first).to_be_visible()
        await page.clock.install()

        async def hide(value):
            how = f"{{ value: {value}, configurable: true }}"
            await page.evaluate(f"Object.defineProperty(document, 'hidden', {how})")
            await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

        await hide("true")
        await page.clock.fast_forward(21_000)
        there.world.deploy("late", 1, cpu="100")
        await page.wait_for_timeout(400)
        await expect(page.get_by_role("button", name="late-")).to_have_count(0)
        await hide("false")
        await expect(page.get_by_role("button", name="late-").first).to_be_visible()


ABOUT = "short, seed 1, emulated: KubeDSM kept more."


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """The URL of a file with the runs of two policies."""
    scenario = normal(1.5, 0.4, seed=1, cycles=3)
    recorded = {
        title: carry_out(Run("short", scenario, policy, 1, Setup(), filmed=True)).film
        for policy, title in (
            ("objective.evenness=0", "KubeDSM"),
            ("kube-scheduler", "kube-scheduler"),
        )
    }
    path = tmp_path_factory.mktemp("films") / "films.html"
    path.write_text(one_file("kubedsm replay short, seed 1", ABOUT, recorded))
    return path.as_uri()


async def test_both_films_play_and_are_at_the_same_moment_whatever_it_is(browser, films):
    async with browser.page(films) as page:
        assert await page.title() == "kubedsm replay short, seed 1"
        await expect(page.get_by_role("status").first).to_have_text(ABOUT)
        sides = page.locator(".recording")
        await expect(sides).to_have_count(2)
        for at, title in enumerate(("KubeDSM", "kube-scheduler")):
            await expect(sides.nth(at).get_by_role("heading", name=title).first).to_be_visible()
        # It begins at the beginning, when nothing was moved yet.
        await expect(sides.first.locator(".moves")).to_contain_text("None yet")
        await keep(page, "recorded-begins")
        await page.get_by_role("slider").focus()
        await page.keyboard.press("End")
        await expect(sides.first.locator(".moves")).to_contain_text("completed")
        await expect(sides.last.locator(".moves")).to_contain_text("None yet")
        # There is neither a now nor a scheduler that could be away.
        await expect(page.get_by_text("the past")).to_have_count(0)
        await keep(page, "recorded-ends")
        await page.keyboard.press("Home")
        await expect(sides.first.locator(".moves")).to_contain_text("None yet")
        await page.get_by_role("button", name="Play", exact=True).click()
        # A quarter of an hour in a minute, unless somebody wants it slower.
        fast = page.get_by_role("button", name="Play 16 times as fast")
        await expect(fast).to_have_attribute("aria-pressed", "true")
        before = await page.get_by_role("slider").get_attribute("aria-valuenow")
        await expect(page.get_by_role("slider")).not_to_have_attribute("aria-valuenow", before)


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
async def test_nothing_about_it_keeps_anybody_out(browser, films, width, height):
    async with browser.page(films, width, height, dark=width == 390) as page:
        await expect(page.locator(".recording")).to_have_count(2)
        await keep(page, f"recorded-{width}")
        assert await violations(page) == []
