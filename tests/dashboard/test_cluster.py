"""The drawing of the cluster, in a real browser: what is where, and how one gets about in it."""

from support.browser import expect, in_browser
from support.made_cluster import MadeCluster, page_of_made
from support.watched import watched

pytestmark = in_browser


async def test_what_there_is_of_a_cluster_is_drawn(browser):
    made = MadeCluster(14, 120, changes=0, sites=2)
    async with page_of_made(made) as url, browser.page(url) as page:
        picture = page.locator(".picture")
        await expect(picture.locator("[data-node]")).to_have_count(14)
        await expect(picture.locator("[data-pod]")).to_have_count(116)
        await expect(picture.locator(".site")).to_have_count(2)
        # Told apart by a mark and a word, not by colour only.
        cordoned = picture.locator("[data-state=cordoned]").first
        await expect(cordoned.locator(".mark")).to_have_count(1)
        await expect(cordoned).to_contain_text("cordoned")
        await expect(picture.locator(".arc.moving")).to_have_count(made.moving - 1)
        await expect(picture.locator(".arc.moving").first).to_contain_text("2 of 7")
        # Room is held where pods go to.
        await expect(picture.locator(".pod.held")).to_have_count(made.moving)
        # Which is not requested of them yet. Narrow boxes do not say how full they are.
        rows, told = made.snapshot().rows, 0
        for node in {move.target for move in rows["moves"].values()}:
            said = await picture.locator(f"[data-node={node}] .fullness").text_content()
            for resource in said.split()[:1]:
                pods = [pod for pod in rows["pods"].values() if pod.node == node]
                part = sum(getattr(pod, resource) for pod in pods) / getattr(
                    rows["nodes"][node], resource
                )
                assert said == f"{resource} {100 * part:.0f}%"
                told += 1
        assert told


async def test_boxes_are_as_large_as_their_nodes(browser):
    made = MadeCluster(14, 120, changes=0)
    async with page_of_made(made) as url, browser.page(url) as page:

        async def area(node):
            box = await page.locator(f"[data-node={node}]").bounding_box()
            return box["width"] * box["height"]

        # 32 cores with 64 GiB, and 4 with 8.
        assert 7.5 < await area("cloud-1") / await area("edge-3") < 8.5


async def test_keys_go_from_node_to_node_and_choose_one(browser):
    made = MadeCluster(14, 120, changes=0)
    async with page_of_made(made) as url, browser.page(url) as page:
        await page.locator("[data-node=edge-1]").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.locator("[data-node=edge-2]")).to_be_focused()
        for key, scaled in (("+", "scale(1.5)"), ("0", "scale(1)")):
            await page.keyboard.press(key)
            assert scaled in await page.locator(".picture").get_attribute("style")
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-node=edge-2].chosen")).to_have_count(1)


async def test_of_ten_thousand_pods_those_that_are_near_are_drawn_one_by_one(browser):
    made = MadeCluster(500, 10_000, changes=0, sites=20)
    async with page_of_made(made) as url, browser.page(url) as page:
        await expect(page.locator("[data-node]")).to_have_count(500)
        near = page.locator("[data-node=cloud-1] [data-pod]")
        await expect(near).to_have_count(0)
        await expect(page.locator("[data-node=cloud-1] .share").first).to_be_attached()
        await page.locator("[data-node=cloud-1]").hover()
        await page.mouse.wheel(0, -1200)
        await expect(near.first).to_be_attached()


async def test_nodes_and_pods_keep_their_places_as_others_come_and_go(browser):
    async with watched() as (seen, url), browser.page(url) as page:
        seen.world.deploy("a", 2, cpu="500m")
        pods = page.locator("[data-pod*='/a-']")
        await expect(pods).to_have_count(2)
        # Told apart without a name: they are Ready before they are looked at.
        await expect(page.locator("[data-pod*='/a-'].ready")).to_have_count(2)
        before = [await pod.bounding_box() for pod in await pods.all()]
        seen.world.deploy("b", 2, cpu="500m")
        await expect(page.locator("[data-pod*='/b-']")).to_have_count(2)
        assert [await pod.bounding_box() for pod in await pods.all()] == before
