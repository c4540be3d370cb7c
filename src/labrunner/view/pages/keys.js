/** What keys do: pages say it for as long as they are shown; what is typed into a field is the field's. */
import { html, useEffect, useRef, useState } from "./dom.js";
import { go, to } from "./address.js";

/** @type {Set<{current: Record<string, () => void>}>} */
const known = new Set();
let waitsForG = 0;

/** @param {Record<string, () => void>} keys */
export function useKeys(keys) {
  const own = useRef(keys);
  own.current = keys;
  useEffect(() => {
    known.add(own);
    return () => { known.delete(own); };
  }, []);
}

/** @param {KeyboardEvent} event */
function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.key === "Enter" && target instanceof Element && target.closest("a, button, canvas, [tabindex='0']")) return;
  if (waitsForG && Date.now() - waitsForG < 1500 && event.key === "r") {
    waitsForG = 0;
    go(to("/"));
    return;
  }
  waitsForG = event.key === "g" ? Date.now() : 0;
  for (const { current } of [...known].reverse()) {
    if (current[event.key]) {
      event.preventDefault();
      current[event.key]();
      return;
    }
  }
}

export function beginKeys() {
  addEventListener("keydown", press);
}

const TOLD = [
  ["j k", "the next row, the one before"],
  ["Enter", "open it"],
  ["/", "filter"],
  ["s", "on a run: search what was said"],
  ["g r", "all runs"],
  ["n p", "on a trial: the next one, the one before"],
  ["r", "on a trial: the next replication"],
  ["v", "on a trial: the other variant"],
  ["1 to 5", "on a trial: its tabs"],
  ["arrows", "on the map: the cell beside"],
  ["?", "this"],
];

/** The page that `?` opens. */
export function Help() {
  const [isOpen, setOpen] = useState(false);
  const box = useRef(null);
  useKeys({ "?": () => setOpen(!isOpen), ...(isOpen ? { Escape: () => setOpen(false) } : {}) });
  useEffect(() => { if (isOpen) box.current?.focus(); }, [isOpen]);
  if (!isOpen) return html`<button class="help-button" onClick=${() => setOpen(true)} aria-label="keys">?</button>`;
  return html`<div class="help" role="dialog" aria-label="keys" tabindex="-1" ref=${box}>
    <h2>Keys</h2>
    <dl>${TOLD.map(([key, does]) => html`<dt>${key}</dt><dd>${does}</dd>`)}</dl>
    <button onClick=${() => setOpen(false)}>close</button>
  </div>`;
}
