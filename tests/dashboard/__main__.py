"""How smooth the drawing is, in chromium: `PYTHONPATH=tests python tests/page`.

A made-up cluster of which 40 pods change each second is zoomed in and out and dragged about for
some seconds, as fast as the browser draws frames, by somebody who never rests. Printed are the time
from asking for the page to the first picture, the frames a second and how long the longest took,
and the tasks over 50 ms of all that, the first picture included.
"""

import asyncio
import os

import click

from support.browser import MISSING, chromium
from support.made_cluster import MadeCluster, page_of_made

SIZES = ((50, 1_000), (500, 10_000))
SECONDS = 8

#: before the page's own scripts: when its first picture is there, and what takes long
WATCHING = """
window.long = [];
new PerformanceObserver((found) => {
  for (const task of found.getEntries()) window.long.push(Math.round(task.duration));
}).observe({ type: "longtask", buffered: true });
const look = () => {
  if (!document.querySelector(".picture .pod")) requestAnimationFrame(look);
  else requestAnimationFrame(() => { window.pictured = performance.now(); });
};
requestAnimationFrame(look);
"""
ZOOMING = """
(seconds) => new Promise((done) => {
  const view = document.querySelector(".cluster .view");
  const { left, top, width, height } = view.getBoundingClientRect();
  const frames = [];
  let [before, begun] = [0, 0];
  function frame(now) {
    if (before) frames.push(now - before);
    before = now;
    begun ||= now;
    const at = (now - begun) / 1000;
    if (at > seconds) return done(frames);
    const where = { clientX: left + width / 3, clientY: top + height / 3, bubbles: true };
    const deltaY = at % 4 < 2 ? -12 : 12;
    view.dispatchEvent(new WheelEvent("wheel", { ...where, deltaY, cancelable: true }));
    requestAnimationFrame(frame);
  }
  requestAnimationFrame(frame);
})
"""


async def measured(browser, nodes, pods):
    cluster = MadeCluster(nodes, pods, sites=nodes // 25)
    async with page_of_made(cluster) as url, browser.page(url) as page:
        await page.add_init_script(WATCHING)
        await page.reload()
        await page.locator(".picture .pod").first.wait_for(state="attached")
        # It is noted in the frame after.
        await page.wait_for_timeout(1000)
        pictured = await page.evaluate("window.pictured")
        frames = sorted(await page.evaluate(ZOOMING, SECONDS))
        rate = 1000 * len(frames) / sum(frames)
        late = frames[int(0.95 * len(frames))]
        click.echo(
            f"{nodes} nodes, {pods} pods: first picture {pictured:.0f} ms; {rate:.0f} frames a "
            f"second, one in 20 over {late:.0f} ms, the longest {frames[-1]:.0f} ms; tasks over "
            f"50 ms: {await page.evaluate('window.long')}"
        )


async def main():
    click.echo(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    async with chromium() as browser:
        for nodes, pods in SIZES:
            await measured(browser, nodes, pods)


if __name__ == "__main__":
    if MISSING:
        raise SystemExit(f"not installed: {', '.join(MISSING)}")
    asyncio.run(main())
