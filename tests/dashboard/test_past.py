"""The past on the page: any moment is shown as it was, whatever goes on meanwhile."""

import re

from support.browser import expect, in_browser, keep
from support.watched import watched

pytestmark = in_browser


#: milliseconds in which somebody does something
MOMENT = 2000


async def test_scrubbing_back_gives_the_state_of_then(browser):
    async with watched() as (there, url), browser.page(url) as page:
        early, late, later = (
            page.get_by_role("button", name=f"{name}-") for name in ("early", "late", "newest")
        )
        moment = page.get_by_role("slider", name="Moment")
        await page.wait_for_timeout(MOMENT)
        for name, seen in (("early", early), ("late", late)):
            there.world.deploy(name, 1, cpu="100")
            await expect(seen.first).to_be_visible()
            await page.wait_for_timeout(MOMENT)
        drawn = await page.locator(".picture").bounding_box()
        await moment.press("ArrowLeft")
        # Which is said, and the picture stays where it is.
        await expect(page.get_by_role("banner")).to_contain_text(re.compile("[Tt]he past"))
        assert await page.locator(".picture").bounding_box() == drawn
        await moment.press("Home")
        await expect(early).to_have_count(0)
        await expect(late).to_have_count(0)
        # Played from there, and stopped between the two, all is as it was then, and stays so.
        await page.get_by_role("button", name="Play", exact=True).click()
        await expect(early.first).to_be_visible()
        await page.get_by_role("button", name="Pause").click()
        there.world.deploy("newest", 1, cpu="100")
        await page.wait_for_timeout(MOMENT)
        await expect(early.first).to_be_visible()
        await expect(late).to_have_count(0)
        await expect(later).to_have_count(0)
        await keep(page, "past")
        await page.get_by_role("button", name="Back to now").click()
        for seen in (early, late, later):
            await expect(seen.first).to_be_visible()
