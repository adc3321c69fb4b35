/** Ways to pass an answer on: link, commands of kubectl and kubedsm, JSON and PNG. */

import { html, useState } from "./vendor/htm-preact.js";
import { changeCommands, quoted } from "./hypothesis.js";

/** Custom properties that a picture takes over from the page, light or dark. */
const COLOURS = ["ground", "raised", "line", "ink", "soft", "accent", "good", "warn", "bad"];

/** Commands about what is selected, by program; empty if the program has none. */
export function commands({ kind, key }, { workloads, moves }) {
  const [namespace, name = ""] = key.split("/");
  const about = (what, of = namespace) => `kubectl -n ${quoted(of)} ${what}`;
  const explain = (what) => `kubedsm explain ${quoted(`${what}/${key}`)}`;
  const owner = (workloads.get(key)?.kind ?? "Deployment").toLowerCase();
  const pod = moves.get(key)?.pod.split("/");
  return {
    pod: () => [about(`describe pod ${quoted(name)}`), explain("pod")],
    node: () => [`kubectl describe node ${quoted(key)}`, explain("node")],
    workload: () => [about(`describe ${quoted(owner)} ${quoted(name)}`), explain(owner)],
    move: () => [
      pod ? about(`get events --field-selector involvedObject.name=${quoted(pod[1])}`, pod[0]) : "",
      explain("migration"),
    ],
    decision: () => ["", explain("decision")],
    "what-if": () => [
      changeCommands(key, workloads).join("\n"),
      `curl -s ${quoted(`${location.origin}${location.pathname}page/what-if?${key}`)}`,
    ],
  }[kind]();
}

/** Buttons below an answer. `answer`: as the server sent it, or null; `moment`: of the past. */
export function Share({ chosen, tables, answer, moment }) {
  const [said, say] = useState("");
  const [kubectl, kubedsm] = commands(chosen, tables);
  const program = kubedsm.split(" ")[0];
  const row = tables[`${chosen.kind}s`]?.get(chosen.key) ?? null;
  const content = { subject: chosen, at: moment, row, answer };
  const name = `kubedsm-${chosen.kind}-${chosen.key}`.replace(/[^\w.-]+/g, "-").slice(0, 100);
  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`${what} copied.`);
    } catch {
      // Without HTTPS, browsers give pages no clipboard.
      say(text);
    }
  };
  const json = () => save(`${name}.json`,
    new Blob([`${JSON.stringify(content, null, 2)}\n`], { type: "application/json" }));
  const png = async ({ target }) => {
    try {
      save(`${name}.png`, await picture(target.closest(".why")));
    } catch {
      say("This browser draws no picture of a page; take a screenshot.");
    }
  };
  return html`
    <div class="share" role="group" aria-label="Share">
      <button onClick=${() => copy(location.href, "Link")}>Copy link</button>
      ${kubectl && html`<button title=${kubectl} onClick=${() => copy(kubectl, "Command")}>
        Copy kubectl</button>`}
      ${kubedsm && html`<button title=${kubedsm} onClick=${() => copy(kubedsm, "Command")}>
        ${`Copy ${program}`}</button>`}
      <button onClick=${json}>JSON</button><button onClick=${png}>PNG</button>
      <output aria-live="polite">${said}</output>
    </div>`;
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Draw an element as a PNG: the browser renders a copy of the element within an SVG image. */
async function picture(element) {
  const copy = element.cloneNode(true);
  for (const button of copy.querySelectorAll("header button, form, .share, .often")) {
    button.remove();
  }
  Object.assign(copy.style, { position: "static", maxHeight: "none", width: "auto", border: "0" });
  const own = getComputedStyle(document.documentElement);
  const root = document.createElement("div");
  for (const name of COLOURS) root.style.setProperty(`--${name}`, own.getPropertyValue(`--${name}`));
  Object.assign(root.style, { font: own.font, color: own.color });
  root.append(copy);
  const rules = [...document.styleSheets].flatMap(({ cssRules }) => [...cssRules]);
  const sheet = rules.map(({ cssText }) => cssText).join("\n").replaceAll("]]>", "");
  const ends = [...element.children].filter((child) => !child.matches(".share, .often"))
    .map((child) => child.offsetTop + child.offsetHeight);
  const [width, height] = [element.offsetWidth, Math.max(...ends) + 16];
  const content = new XMLSerializer().serializeToString(root);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">
    <style><![CDATA[${sheet}]]></style>
    <foreignObject width="100%" height="100%">${content}</foreignObject></svg>`;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: 2 * width, height: 2 * height });
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.drawImage(image, 0, 0);
  return new Promise((done, fail) => {
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))));
  });
}
