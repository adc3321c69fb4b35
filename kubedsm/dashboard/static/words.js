/** Parts and names, as people write them. */

/** "80 %". */
export function percent(part) {
  return `${Math.round(100 * part)} %`;
}

/** Without its namespace. */
export function ownName(key) {
  return key.slice(key.indexOf("/") + 1);
}
