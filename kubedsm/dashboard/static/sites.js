/** Grid of sites, for clusters with more sites than can be drawn node by node. */

import { distinct, fitting, percent } from "./formats.js";
import { fill, requestedOf } from "./node_box.js";
import { html, useMemo } from "./vendor/htm-preact.js";

/** Sites that are drawn node by node. */
export const FEW = 12;
/** Letters of a name that fit into a tile. */
const LONG = 14;
const NONE = [];

/** Tiles of the sites; a tile has a cell for each node. Clicks are handled by the picture. */
export function SiteGrid({ sites, pods, ...more }) {
  const forms = distinct(sites.map(([site]) => site));
  return html`
    <div class="tiles">${sites.map(([site, nodes]) => html`
      <${Tile} key=${site} ...${{ site, nodes, ...more }}
        name=${fitting(forms.get(site), LONG) || "no site"}
        versions=${nodes.map(({ name }) => pods.get(name) ?? NONE)} />`)}</div>`;
}

/** Part of a site's capacity that is requested, of the scarcer of cpu and memory. */
function fullness(nodes, versions) {
  const byName = new Map(nodes.map(({ name }, index) => [name, versions[index]]));
  const { cpu, memory } = requestedOf(nodes, (name) => byName.get(name));
  return memory > cpu ? `memory ${percent(memory)}` : `cpu ${percent(cpu)}`;
}

function Tile({ site, name: shown, nodes, versions, node, lit, found, colour, demand }) {
  return useMemo(() => {
    const ill = nodes.filter(({ row }) => row.state).length;
    const full = fullness(nodes, versions);
    const served = demand.find((each) => each.site === site);
    const says = [
      ill ? `${nodes.length - ill} of ${nodes.length} usable`
        : `${nodes.length} ${nodes.length === 1 ? "node" : "nodes"}`,
      served && `${percent(served.reached)} of ${percent(served.target)} served`,
    ].filter(Boolean).join(", ");
    return html`
      <div class="tile" role="button" tabindex="-1" data-site=${site}
        aria-label=${`Site ${site || "without a name"}, ${says}, ${full}; zoom in`}>
        <p class="name">${shown}</p>
        <div class="cells">${nodes.map(({ name, row }, index) => html`
          <i class=${`small cell ${node === name ? "chosen" : ""} ${found?.has(name) ? "found" : ""}`}
            data-node=${name} data-state=${row.state || undefined}
            style=${fill(row, versions[index], lit, colour)} />`)}</div>
        <p class=${ill ? "warn" : "soft"}>${ill || served ? says : full}</p>
      </div>`;
  }, [site, shown, node, lit, found, colour, demand, ...nodes, ...versions]);
}
