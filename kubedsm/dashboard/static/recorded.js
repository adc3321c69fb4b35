/** Page of embedded recordings. */

import { Recording } from "./recording.js";
import { show } from "./page.js";
import { countFrom } from "./formats.js";

const kept = [...document.querySelectorAll("script[type='application/gzip']")];
const recordings = await Promise.all(kept.map((script) => unpacked(script.textContent)));
const [{ begins }] = recordings;
countFrom(begins);
show({
  recordings,
  titles: kept.map((script) => script.dataset.title),
  about: document.querySelector("meta[name=description]").content,
  opening: begins,
});

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const recording = new Recording();
  recording.read(await new Response(stream).text());
  return recording;
}
