"""The page is for everybody: axe-core finds nothing, and the keyboard does all."""

import pytest

from support.browser import expect, in_browser, keep, violations
from support.watched import all_there_is

pytestmark = in_browser

WIDTHS = (1440, 1024, 390)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_finds_nothing(browser, dark):
    async with all_there_is() as (_, url), browser.page(url, dark=dark) as page:
        look = "dark" if dark else "light"
        waiting = page.get_by_role("region", name="Waiting").get_by_role("button").first
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            await expect(waiting).to_be_visible()
            await page.wait_for_timeout(500)
            await keep(page, f"{look}-{width}")
            assert await violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await waiting.click()
        await expect(page.get_by_role("heading", name="large-")).to_be_visible()
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            await page.wait_for_timeout(500)
            await keep(page, f"{look}-{width}-why")
            assert await violations(page) == []
        await page.set_viewport_size({"width": 1440, "height": 900})
        for _ in range(3):
            await page.get_by_role("slider", name="Moment").press("ArrowLeft")
        await keep(page, f"{look}-1440-past")
        assert await violations(page) == []
