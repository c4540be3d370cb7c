/** Looking for a phrase in what was said in a run: in conversations, terminals and answers of every trial. */
import { html, useEffect, useRef, useState } from "./dom.js";
import { link, put } from "./address.js";
import { ask } from "./asking.js";
import { useKeys } from "./keys.js";
import { Ending } from "./pieces.js";
import { count, counted } from "./words.js";

const SCREENFUL = 20;
const LEAST = 2;
const TYPING_MS = 300;
const NOTHING = { hits: /** @type {any[]} */ ([]), looked: 0, finished: 0, next: /** @type {number | null} */ (0), problem: "" };

/** @param {{run: string, words: URLSearchParams}} props */
export function Said({ run, words }) {
  const phrase = words.get("said") ?? "";
  const [found, setFound] = useState(NOTHING);
  const [wanted, setWanted] = useState(SCREENFUL);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const timer = useRef(0);
  useKeys({ s: () => field.current?.focus() });
  useEffect(() => { setFound(NOTHING); setWanted(SCREENFUL); }, [run, phrase]);
  useEffect(() => {
    if (phrase.trim().length < LEAST) return undefined;
    const stop = new AbortController();
    const go = async () => {
      let now = found.next === 0 ? NOTHING : found;
      while (now.next !== null && now.hits.length < wanted && !stop.signal.aborted) {
        const page = await ask("search", { run, q: phrase, from: now.next }, stop.signal);
        now = { hits: [...now.hits, ...page.hits], looked: now.looked + page.looked, finished: page.finished, next: page.next, problem: "" };
        if (!stop.signal.aborted) setFound(now);
      }
    };
    go().catch((error) => { if (!stop.signal.aborted) setFound({ ...NOTHING, problem: error.message }); });
    return () => stop.abort();
  }, [run, phrase, wanted]);
  const type = (/** @type {any} */ event) => {
    const { value } = event.target;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => put({ said: value }), TYPING_MS);
  };
  const isLooking = phrase.trim().length >= LEAST && found.next !== null && found.hits.length < wanted && !found.problem;
  return html`<section aria-labelledby="said">
    <div class="bar"><h2 id="said">Search what was said</h2>
      <input ref=${field} type="search" placeholder="a phrase, in all that trials wrote  ( s )" aria-label="search what was said" value=${phrase} onInput=${type}/>
      <span class="dim" role="status">${phrase && (found.problem || `${found.next === null ? "" : `${count(found.looked)} of ${count(found.finished)} trials looked through: `}${counted(found.hits.length, "trial")}${isLooking ? " so far" : found.next === null ? "" : ", and maybe more"}`)}</span></div>
    ${phrase && html`<ol class="hits">${found.hits.map((hit) => html`<${Hit} key=${hit.slot} hit=${hit} run=${run}/>`)}</ol>`}
    ${phrase && found.next !== null && found.hits.length >= wanted && html`<button onClick=${() => setWanted(found.hits.length + SCREENFUL)}>look on</button>`}
  </section>`;
}

const TABS = { conversation: "conversation", terminal: "terminal", answer: "grader" };

/** @param {{hit: any, run: string}} props */
function Hit({ hit, run }) {
  return html`<li><p><${Ending} ending=${hit.ending} value=${hit.value}/> <a href=${`${link(run, hit.trial_id)}?tab=${TABS[hit.passages[0].where]}`}>${hit.task}</a> <span class="dim">${hit.variant} · replication ${hit.repl + 1}</span></p>
    ${hit.passages.map((/** @type {any} */ each) => html`<p class="passage"><span class="dim">${each.path ? each.path.replace("logs/", "") : each.where}</span> <span>${each.before}<mark>${each.match}</mark>${each.after}</span></p>`)}</li>`;
}
