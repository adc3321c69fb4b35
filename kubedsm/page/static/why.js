/** The answer to "why?" about what is chosen. */

import { html, useEffect, useState } from "./vendor/htm-preact.js";

export function Why({ state: { chosen }, set, ask }) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    if (!chosen || !ask) return;
    setAnswer(null);
    ask(`why?${chosen.kind}=${encodeURIComponent(chosen.key)}`)
      .then((said) => said.json()).then(setAnswer, (error) => setAnswer({ error: error.message }));
  }, [chosen]);
  if (!chosen) return null;
  return html`
    <aside aria-labelledby="why">
      <h2 id="why">Why ${chosen.key}</h2>
      <button onClick=${() => set({ chosen: null })}>Close</button>
      <pre>${JSON.stringify(answer, null, 2)}</pre>
    </aside>`;
}
