/** The page of a scheduler that runs. */

import { Film, KEPT } from "./film.js";
import { show } from "./page.js";
import { ask, enter } from "./server.js";
import { follow } from "./stream.js";

const film = new Film(KEPT);
const view = show({ films: [film], ask, enter });

follow({
  ask, film, onMore: view.changed, onState: (connection) => view.set({ connection }),
});
