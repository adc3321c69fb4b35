"""What is on the page is asked about by a click, and the answer is beside it."""

from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from support.browser import expect, in_browser, keep
from support.watched import watched

pytestmark = in_browser


def state(there):
    """What a question must not change: what is to run, where it does, and what is promised."""
    pods = {pod["metadata"]["name"]: pod["spec"] for pod in there.world.pods()}
    wanted = [each["spec"] for each in there.world.api.list(DEPLOYMENTS, "default")]
    return pods, wanted, there.runtime.configuration.current


async def test_a_click_on_a_pending_pod_gives_the_rule(browser):
    async with watched() as (there, url), browser.page(url) as page:
        there.world.deploy("large", 1, cpu="100")
        waiting = page.get_by_role("region", name="Waiting")
        await expect(waiting).to_contain_text("0/2 nodes are available: 2 Insufficient cpu")
        await waiting.get_by_role("button", name="default/large-").click()
        why = page.get_by_role("complementary", name="default/large-")
        await expect(why).to_contain_text("Insufficient cpu")
        for name in ("e1", "c1"):
            await expect(why.get_by_role("row", name=name)).to_be_visible()
        await keep(page, "why-pod")
        await why.get_by_role("button", name="e1").first.click()
        await expect(page.get_by_role("complementary", name="Node e1")).to_be_visible()
        await page.get_by_role("button", name="Back").click()
        await expect(why).to_contain_text("Insufficient cpu")
        await why.get_by_role("button", name="Close").click()
        await expect(page.get_by_role("complementary")).to_have_count(0)


async def test_a_click_on_a_move_tells_its_story(browser):
    async with watched() as (there, url), browser.page(url) as page:
        there.cordon("e1")
        there.world.deploy("web", 1)
        await there.world.until_bound_of("web", 1, 10)
        there.cordon("e1", cordoned=False)
        await there.world.until(lambda: there.world.events("Migrated"), 20)
        await page.get_by_role("region", name="Migrations").get_by_role("button").first.click()
        why = page.get_by_role("complementary")
        await expect(why).to_contain_text("1 of 1 pod missing at the edge")
        await expect(why).to_contain_text("evicted")
        await keep(page, "why-move")


async def test_what_if_is_answered_and_changes_nothing(browser):
    async with watched() as (there, url), browser.page(url) as page:
        world = there.world
        there.cordon("e1")
        world.deploy("half", 2)
        await world.until_bound_of("half", 2, 10)
        there.cordon("e1", cordoned=False)
        await world.until(lambda: world.placed("half") == {"c1": 1, "e1": 1}, 20)
        await expect(page.get_by_role("banner")).to_contain_text("every QoS target is met")
        before = state(there)
        await page.get_by_role("button", name="What if?").click()
        panel = page.get_by_role("complementary", name="What if?")
        factor = panel.get_by_role("slider", name="QoS factor of default/half")
        await expect(factor).to_have_value("0.5")
        await expect(panel).to_contain_text("Nothing would be migrated")
        for _ in range(10):
            await factor.press("ArrowRight")
        await expect(factor).to_have_value("1")
        await expect(panel).to_contain_text("1 pod would be migrated")
        await panel.get_by_label("pods added to default/half").fill("3")
        await expect(panel).to_contain_text("Pods that would be scheduled")
        await keep(page, "what-if")
        assert state(there) == before
