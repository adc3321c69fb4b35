"""A large cluster on the page: 500 nodes, 10,000 pods."""

from support.browser import expect, in_browser, keep
from support.watched import crowded

pytestmark = in_browser

NODES, PODS = 500, 10_000


async def test_ten_thousand_pods_are_drawn_and_can_be_asked_about(browser):
    async with crowded(NODES, PODS) as url, browser.page(url) as page:
        await expect(page.locator("[data-node]")).to_have_count(NODES)
        await keep(page, "large")
        find = page.get_by_role("combobox")
        await find.fill("w7-47")
        await expect(page.get_by_role("option", name="default/w7-47 pod on n47")).to_be_visible()
        await find.press("Enter")
        why = page.get_by_role("complementary", name="w7-47")
        await expect(why).to_contain_text("default/w7-47 is on n47")
        await why.get_by_role("button", name="n47").first.click()
        await expect(page.get_by_role("complementary", name="n47")).to_contain_text("n47")
        await keep(page, "large-why")
