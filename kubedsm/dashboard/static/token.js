/** Form for the token that the server requires. */

import { html, useState } from "./vendor/htm-preact.js";

export function Token({ enter }) {
  const [token, setToken] = useState("");
  const onSubmit = (event) => {
    event.preventDefault();
    if (token.trim()) enter(token.trim());
  };
  return html`
    <main>
      <form class="token" onSubmit=${onSubmit}>
        <h1>KubeDSM</h1>
        <p>This page needs a token. The token is in the Secret that the scheduler reads with
          --page-token-file.</p>
        ${sessionStorage.getItem("token") && html`
          <p class="bad" role="alert">Wrong token.</p>`}
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" value=${token}
          onInput=${(event) => setToken(event.target.value)} />
        <button type="submit">Show the page</button>
      </form>
    </main>`;
}
