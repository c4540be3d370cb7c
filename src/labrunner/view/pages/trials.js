/** Every trial of a run in a table of which only what is on the screen exists. */
import { html, useEffect, useRef, useState } from "./dom.js";
import { go, link, put } from "./address.js";
import { ask, useAnswer } from "./asking.js";
import { useKeys } from "./keys.js";
import { Clip, ENDINGS, Ending } from "./pieces.js";
import { count, duration, figure, money } from "./words.js";

const PAGE = 100;
const ROW = 30;
const COLUMNS = [
  ["slot", "slot", "n"], ["task", "task", "grows"], ["variant", "variant", "grows"], ["repl", "repl", "n"], ["ending", "ending", ""],
  ["value", "value", "n"], ["attempts", "attempts", "n"], ["time", "time", "n"], ["tokens", "tokens", "n"], ["cost", "cost", "n"], [null, "said", "grows"],
];

/** @param {{run: string, words: URLSearchParams, variants: string[]}} props */
export function Trials({ run, words, variants }) {
  const asked = Object.fromEntries(["q", "ending", "variant", "cause", "text", "sort", "down"].map((name) => [name, words.get(name)]));
  const key = JSON.stringify(asked);
  const { told, problem } = useAnswer("trials", { run, ...asked, offset: 0, limit: PAGE }, run);
  const [pages, setPages] = useState(/** @type {Record<number, any[]>} */ ({}));
  const [top, setTop] = useState(0);
  const under = useRef(new Set());
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const filter = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [chosen, setChosen] = useState(-1);
  const total = told?.total ?? 0;
  useEffect(() => { setPages({}); under.current.clear(); }, [key, told]);
  useEffect(() => { setChosen(-1); if (box.current) box.current.scrollTop = 0; }, [key]);

  const get = (/** @type {number} */ place) => {
    const number = Math.floor(place / PAGE);
    if (number === 0) return told?.rows[place];
    if (!pages[number] && !under.current.has(number)) {
      under.current.add(number);
      ask("trials", { run, ...asked, offset: number * PAGE, limit: PAGE }).then(
        (more) => setPages((before) => ({ ...before, [number]: more.rows })),
        () => under.current.delete(number),
      );
    }
    return pages[number]?.[place - number * PAGE];
  };
  const choose = (/** @type {number} */ place) => {
    const next = Math.max(0, Math.min(total - 1, place));
    setChosen(next);
    const tall = box.current?.clientHeight ?? 0;
    if (box.current && (next * ROW < top || (next + 2) * ROW > top + tall)) box.current.scrollTop = next * ROW - tall / 2;
  };
  useKeys({
    "/": () => filter.current?.focus(),
    j: () => choose(chosen + 1),
    k: () => choose(chosen - 1),
    Enter: () => { const row = chosen >= 0 && get(chosen); if (row) go(link(run, row.trial_id)); },
  });
  const tall = Math.min(Math.max(1, total) * ROW + ROW, 620);
  const first = Math.max(0, Math.floor(top / ROW) - 5);
  const last = Math.min(total, Math.ceil((top + tall) / ROW) + 5);
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, number) => first + number);
  const isNarrowed = Object.entries(asked).some(([name, value]) => value && name !== "sort" && name !== "down");
  return html`<section aria-labelledby="trials">
    <div class="bar">
      <h2 id="trials">Trials <span class="dim" role="status">${told && (isNarrowed ? `${count(total)} of ${count(told.planned)}` : count(total))}</span></h2>
      <input ref=${filter} type="search" placeholder="filter: words of task, variant, cause  ( / )" aria-label="filter trials" value=${asked.q ?? ""} onInput=${(/** @type {any} */ e) => put({ q: e.target.value })}/>
      <label class="choice">ending <select value=${asked.ending ?? ""} onChange=${(/** @type {any} */ e) => put({ ending: e.target.value })}><option value="">any</option>${Object.entries(ENDINGS).map(([name, text]) => html`<option value=${name}>${text}</option>`)}</select></label>
      ${variants.length > 1 && html`<label class="choice">variant <select value=${asked.variant ?? ""} onChange=${(/** @type {any} */ e) => put({ variant: e.target.value })}><option value="">any</option>${variants.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`}
      ${(asked.cause || asked.text) && html`<button onClick=${() => put({ cause: null, text: null })}>not only “${asked.text ?? asked.cause}”</button>`}
    </div>
    ${problem && html`<p class="dim">${problem.message}</p>`}
    <div class="table" ref=${box} role="table" aria-label="trials" aria-rowcount=${total + 1} tabindex="0" style=${{ height: `${tall + 2}px` }} onScroll=${(/** @type {any} */ e) => setTop(e.target.scrollTop)}>
      <div class="thead" role="row">${COLUMNS.map(([name, text, kind]) => html`<${Head} name=${name} text=${text} kind=${kind} asked=${asked}/>`)}</div>
      <div class="tbody" role="rowgroup" style=${{ height: `${total * ROW}px` }}>
        ${shown.map((place) => html`<${Row} key=${place} row=${get(place)} place=${place} run=${run} isChosen=${place === chosen}/>`)}
      </div>
    </div>
  </section>`;
}

/** @param {{name: string | null, text: string, kind: string, asked: any}} props */
function Head({ name, text, kind, asked }) {
  const isSorted = name !== null && (asked.sort ?? "slot") === name;
  const isDown = isSorted && asked.down === "1";
  const turn = () => put({ sort: name, down: isSorted && !isDown ? 1 : null });
  const sorting = isSorted ? (isDown ? "descending" : "ascending") : "none";
  return html`<span role="columnheader" class=${kind} aria-sort=${name ? sorting : undefined}>${name ? html`<button onClick=${turn}>${text}${isSorted ? (isDown ? " ↓" : " ↑") : ""}</button>` : text}</span>`;
}

/** @param {{row: any, place: number, run: string, isChosen: boolean}} props */
function Row({ row, place, run, isChosen }) {
  const style = { top: `${place * ROW}px` };
  if (!row) return html`<div class="tr" role="row" style=${style}><span class="n dim">…</span></div>`;
  const said = row.ending === "error" ? `${row.cause}: ${row.text ?? row.reason ?? ""}` : row.ending === "running" ? `${row.phase}${row.node ? ` (${row.node})` : ""}` : [row.ended_by && `ended by ${row.ended_by}`, ...(row.flags ?? [])].filter(Boolean).join(", ");
  return html`<div class=${isChosen ? "tr chosen" : "tr"} role="row" aria-rowindex=${place + 2} style=${style}>
    <span role="cell" class="n dim">${row.slot}</span>
    <span role="cell" class="grows"><a href=${link(run, row.trial_id)} title=${row.task}><${Clip} text=${row.task}/></a></span>
    <span role="cell" class="grows" title=${row.variant}><${Clip} text=${row.variant}/></span>
    <span role="cell" class="n">${row.repl + 1}</span>
    <span role="cell"><${Ending} ending=${row.ending} value=${row.value}/></span>
    <span role="cell" class="n">${row.value === undefined || row.value === null ? "" : figure(row.value)}</span>
    <span role="cell" class="n">${row.attempts > 1 ? html`<b>${row.attempts}</b>` : row.attempts}</span>
    <span role="cell" class="n">${duration(row.time_s)}</span>
    <span role="cell" class="n">${row.tokens == null ? "" : count(Math.round(row.tokens))}</span>
    <span role="cell" class="n">${money(row.cost_usd)}</span>
    <span role="cell" class="grows dim" title=${said}>${said}</span>
  </div>`;
}
