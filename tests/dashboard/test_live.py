"""What one sees of a scheduler that runs, as it happens."""

from contextlib import AsyncExitStack

from kubedsm.dashboard.server import stream as streams
from support.browser import expect, in_browser
from support.processes import free_port
from support.watched import scheduling

pytestmark = in_browser
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
        # Another scheduler counts its versions from the start, and knows nothing of what was told.
        async with scheduling() as another, another.page(port):
            another.world.deploy("other", 1, cpu="100")
            await expect(page.get_by_role("button", name="other-").first).to_be_visible()
            await expect(page.get_by_role("button", name="early-")).to_have_count(0)


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
