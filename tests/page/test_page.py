"""What one sees on the page of a scheduler that runs, in a real browser."""

from support.browser import expect, in_browser
from support.watched import watched

pytestmark = in_browser


async def test_a_pod_that_no_node_takes_is_on_the_page_as_waiting(browser):
    async with watched() as (world, url), browser.page(url) as page:
        world.deploy("large", 1, cpu="100")
        await expect(page.get_by_role("button", name="default/large-")).to_be_visible()
