"""The page that `kubedsm replay --page` writes, opened as a file: no server, no network."""

import pytest

from kubedsm.dashboard.single_file import Recorded, one_file
from kubedsm_lab.replay.runner import carry_out
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import normal
from support.browser import expect, in_browser, keep, violations

pytestmark = in_browser
ABOUT = "short, seed 1, emulated: KubeDSM kept more."


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """The URL of a file with the runs of two policies."""
    scenario = normal(1.5, 0.4, seed=1, cycles=3)
    recorded = [
        Recorded(title, carry_out(Run("short", scenario, policy, 1, Setup(), filmed=True)).film)
        for policy, title in (("kubedsm", "KubeDSM"), ("kube-scheduler", "kube-scheduler"))
    ]
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
