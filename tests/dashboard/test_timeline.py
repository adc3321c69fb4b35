"""The timeline of a recording: moments by key and pointer, and playing."""

from contextlib import asynccontextmanager

from support.browser import expect, in_browser
from support.modules import modules_served

pytestmark = in_browser

#: a pod that is on n1, n2 and n3 at 0, 10 and 20 s; what is told of it at 10 s; the end at 60 s
_FILM = """
  const { Recording } = await import("/page/recording.js");
  const { Timeline } = await import("/page/timeline.js");
  const { tablesAt } = await import("/page/recording.js");
  const { html, render } = await import("/page/vendor/htm-preact.js");
  const filmed = (begins) => {
    const recording = new Recording();
    const at = (seconds, rows) => recording.add({ type: seconds ? "changes" : "snapshot",
      version: 1 + seconds, at: begins + seconds, rows, run: "a" });
    for (let s = 0; s <= 60; s += 1) {
      const node = `n${1 + Math.min(2, Math.floor(s / 10))}`;
      at(s, {
        pods: { p: { workload: "w", node } }, status: { now: { headline: `${s}` } },
        ...(s % 10 || s > 20 ? {} : { workloads: { w: { edge: s / 10, total: 2, promise: 1 } } }),
        ...(s === 10 ? { news: { 1: { at: begins + 10, kind: "batch", text: "decided on p",
          decision: 4 } } } : {}),
      });
    }
    return recording;
  };
  let state = { connection: "connected", moment: null, chosen: null };
  const recordings = [filmed(1000)];
  const set = (more) => {
    state = { ...state, ...more };
    const nodes = tablesAt(recordings, state.moment).map((tables) => tables.pods.get("p").node);
    document.title = [...nodes, state.chosen?.kind ?? "", state.chosen?.key ?? ""].join(" ").trim();
    render(html`<${Timeline} ...${{ recordings, titles: ["one", "other"], state, set }} />`,
      document.body);
  };
  set({});
"""


@asynccontextmanager
async def timeline(browser):
    """Enter the page, whose title says where the pod is, and what is chosen."""
    async with modules_served() as url, browser.page(url) as page:
        await page.evaluate(f"async () => {{ {_FILM} }}")
        yield page, page.get_by_role("slider", name="Moment")


async def test_keys_lead_to_changes_to_moments_and_to_now(browser):
    async with timeline(browser) as (page, moment):
        for key, node, seconds in (
            ("ArrowLeft", "n3", 20),
            ("ArrowLeft", "n2", 10),
            ("ArrowRight", "n3", 20),
            ("PageDown", "n2", 10),
            ("Home", "n1", 0),
            ("PageUp", "n2", 10),
        ):
            await moment.press(key)
            await expect(page).to_have_title(node)
            await expect(moment).to_have_attribute("aria-valuenow", str(seconds))
        assert "decided on p" in await moment.get_attribute("aria-valuetext")
        await expect(page.get_by_text("The past")).to_be_visible()
        await page.keyboard.press("n")
        await expect(page.get_by_text("The past")).to_have_count(0)
        await expect(page).to_have_title("n3")


async def test_a_pointer_drags_the_moment_and_chooses_what_happened(browser):
    async with timeline(browser) as (page, moment):
        box = await moment.bounding_box()

        def x(seconds):
            return box["x"] + box["width"] * seconds / 60

        marks = await page.locator("[data-lane=decisions]").bounding_box()
        await page.mouse.move(x(10) + 2, marks["y"] + 5)
        await expect(page.get_by_text("decided on p")).to_be_visible()
        await page.mouse.down()
        await page.mouse.up()
        await expect(page).to_have_title("n2 decision 4")
        await page.mouse.move(x(30), box["y"] + 5)
        await page.mouse.down()
        await page.mouse.move(x(5), box["y"] + 5, steps=3)
        await expect(moment).to_have_attribute("aria-valuenow", "5")
        await page.mouse.move(x(70), box["y"] + 5, steps=3)
        await page.mouse.up()
        await expect(page.get_by_text("Now, ")).to_be_visible()


async def test_time_is_zoomed_around_the_pointer(browser):
    async with timeline(browser) as (page, moment):
        await moment.press("Home")
        first = page.locator(".clock text").first
        before = await first.text_content()
        box = await moment.bounding_box()
        await page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 5)
        await page.mouse.wheel(0, -400)
        await expect(first).not_to_have_text(before)
        await page.get_by_role("button", name="All").click()
        await expect(first).to_have_text(before)
