/**
 * Everything that a page shows is in its address: in its path, or behind its `#` where the page is a file.
 * @typedef {{path: string[], words: URLSearchParams}} Address
 */
import { useEffect, useState } from "./dom.js";
import { isFile } from "./held.js";

const EVENT = "lab-address";
const MARK = isFile ? "#" : "";

/** @returns {[string, string]} our part of the address: its path, and what follows the `?` */
function parts() {
  if (!isFile) return [location.pathname, location.search.slice(1)];
  const [path, ...rest] = location.hash.slice(1).split("?");
  return [path || "/", rest.join("?")];
}

/** @returns {Address} where we are */
export function here() {
  const [path, query] = parts();
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), words: new URLSearchParams(query) };
}

/** @returns {string} the words of the address, to be put behind another path */
export function search() {
  const [, query] = parts();
  return query ? `?${query}` : "";
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
  const [path, before] = parts();
  const words = new URLSearchParams(before);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") words.delete(name);
    else words.set(name, String(value));
  }
  const query = words.toString();
  go(to(path) + (query ? `?${query}` : ""), true);
}

/** @param {string} path @returns {string} an address of ours, as a link has it */
export function to(path) {
  return `${MARK}${path}`;
}

/** @param {string} run @param {string} [trial] @returns {string} the address of a run, or of one of its trials */
export function link(run, trial) {
  const base = to(`/run/${encodeURIComponent(run)}`);
  return trial === undefined ? base : `${base}/trial/${encodeURIComponent(trial)}`;
}

/** @param {string} run @param {number} slot @returns {string} the address of the trial at a position */
export function slotLink(run, slot) {
  return `${link(run)}/slot/${slot}`;
}

/** Let links of ours change the page without loading it anew. */
export function catchLinks() {
  addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(target instanceof HTMLAnchorElement) || target.hasAttribute("download")) return;
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const url = target.getAttribute("href") ?? "";
    if (!url.startsWith(to("/")) || url.startsWith("/api/")) return;
    event.preventDefault();
    go(url);
  });
}
