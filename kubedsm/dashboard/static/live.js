/** Page of a running scheduler. */

import { Recording, KEPT } from "./recording.js";
import { show } from "./page.js";
import { ask, enter, follow } from "./client.js";

const recording = new Recording(KEPT);
const view = show({ recordings: [recording], ask, enter });

follow({
  ask, recording, onMore: view.changed, onState: (connection) => view.set({ connection }),
});
