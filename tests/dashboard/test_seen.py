"""What one sees of a cluster: each thing as it is, and a move from its begin to its end."""

import re

from support.browser import expect, in_browser
from support.watched import watched

pytestmark = in_browser


async def test_a_move_is_followed_by_its_arc(browser):
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
