/** The page of films that are in it. */

import { Film } from "./film.js";
import { show } from "./page.js";
import { countFrom } from "./times.js";

const kept = [...document.querySelectorAll("script[type='application/gzip']")];
const films = await Promise.all(kept.map((script) => unpacked(script.textContent)));
const [{ begins }] = films;
countFrom(begins);
show({
  films,
  titles: kept.map((script) => script.dataset.title),
  about: document.querySelector("meta[name=description]").content,
}).set({ moment: begins });

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const film = new Film();
  film.read(await new Response(stream).text());
  return film;
}
