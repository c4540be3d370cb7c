/**
 * Everything that a page shows is in its address.
 * @typedef {{path: string[], words: URLSearchParams}} Address
 */
import { useEffect, useState } from "./dom.js";

const EVENT = "lab-address";

/** @returns {Address} where we are */
export function here() {
  const path = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { path, words: new URLSearchParams(location.search) };
}

/** @returns {Address} where we are, now and whenever it changes */
export function useAddress() {
  const [at, setAt] = useState(here());
  useEffect(() => {
    const tell = () => setAt(here());
    addEventListener("popstate", tell);
    addEventListener(EVENT, tell);
    return () => {
      removeEventListener("popstate", tell);
      removeEventListener(EVENT, tell);
    };
  }, []);
  return at;
}

/** Go to an address of ours. @param {string} url @param {boolean} [replaces] whether it takes the place of this one */
export function go(url, replaces = false) {
  history[replaces ? "replaceState" : "pushState"](null, "", url);
  if (!replaces) scrollTo(0, 0);
  dispatchEvent(new Event(EVENT));
}

/** Change words of the address. @param {Record<string, string | number | null | undefined>} changes empty ones are left out */
export function put(changes) {
  const words = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") words.delete(name);
    else words.set(name, String(value));
  }
  const query = words.toString();
  go(location.pathname + (query ? `?${query}` : ""), true);
}

/** @param {string} run @param {string} [trial] @returns {string} the address of a run, or of one of its trials */
export function link(run, trial) {
  const base = `/run/${encodeURIComponent(run)}`;
  return trial === undefined ? base : `${base}/trial/${encodeURIComponent(trial)}`;
}

/** @param {string} run @param {number} slot @returns {string} the address of the trial at a position */
export function slotLink(run, slot) {
  return `/run/${encodeURIComponent(run)}/slot/${slot}`;
}

/** Let links of ours change the page without loading it anew. */
export function catchLinks() {
  addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(target instanceof HTMLAnchorElement) || target.hasAttribute("download")) return;
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (target.origin !== location.origin || target.pathname.startsWith("/api/")) return;
    event.preventDefault();
    go(target.pathname + target.search);
  });
}
