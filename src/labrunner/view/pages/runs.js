/** All runs of the folder, the newest first. */
import { html, useEffect, useRef } from "./dom.js";
import { go, link, put } from "./address.js";
import { useAnswer } from "./asking.js";
import { useKeys } from "./keys.js";
import { Clip, Command, Dot, Progress, State, Trouble, range } from "./pieces.js";
import { ago, count, counted, money } from "./words.js";

const SHOWN_VARIANTS = 4;

/** @param {{words: URLSearchParams}} props */
export function Runs({ words }) {
  const asked = { q: words.get("q"), state: words.get("state"), sort: words.get("sort"), down: words.get("down"), offset: words.get("offset") };
  const { told, problem } = useAnswer("runs", asked, null);
  const filter = useRef(null);
  const chosen = Number(words.get("row") ?? -1);
  const runs = told?.runs ?? [];
  useEffect(() => { document.title = "Runs · lab view"; }, []);
  useKeys({
    "/": () => filter.current?.focus(),
    j: () => put({ row: Math.min(runs.length - 1, chosen + 1) }),
    k: () => put({ row: Math.max(0, chosen - 1) }),
    Enter: () => runs[chosen] && go(link(runs[chosen].key)),
  });
  return html`<main>
    <header class="top">
      <h1>Runs</h1>
      <span class="dim where">${told?.folder}</span>
    </header>
    <div class="bar">
      <input ref=${filter} type="search" placeholder="filter: name, id" aria-label="filter runs" value=${asked.q ?? ""}
        onInput=${(/** @type {any} */ e) => put({ q: e.target.value, offset: null, row: null })}/>
      <label class="choice">state <select value=${asked.state ?? ""} onChange=${(/** @type {any} */ e) => put({ state: e.target.value, offset: null, row: null })}>
        <option value="">any</option>${(told?.states ?? []).map((state) => html`<option value=${state}>${state}</option>`)}
      </select></label>
      <span class="dim" role="status">${told && counted(told.total, "run")}</span>
    </div>
    <${Trouble} problem=${problem}/>
    ${!told && !problem && html`<p class="empty" role="status">looking at the folder</p>`}
    ${told && !runs.length && html`<p class="empty">${asked.q || asked.state ? "No run fits." : "There is no run here yet. In a terminal: "}${!(asked.q || asked.state) && html`<${Command} text="lab init && lab run"/>`}</p>`}
    ${runs.length > 0 && html`<div class="scrolls"><table class="runs">
      <thead><tr>${COLUMNS.map(([name, kind]) => html`<${Head} name=${name} kind=${kind} asked=${asked}/>`)}</tr></thead>
      <tbody>${runs.map((run, number) => html`<${Row} run=${run} isChosen=${number === chosen} key=${run.key}/>`)}</tbody>
    </table></div>`}
    ${told && told.total > told.offset + runs.length && html`<p><button onClick=${() => put({ offset: told.offset + runs.length, row: null })}>older runs</button></p>`}
  </main>`;
}

const COLUMNS = [["run", ""], ["state", ""], ["done", ""], ["means", ""], ["errors", "n"], ["retried", "n"], ["cost", "n"], ["begun", "n"]];

/** @param {{name: string, kind: string, asked: any}} props a column's name, by which runs can be sorted; figures the largest first */
function Head({ name, kind, asked }) {
  if (name === "means") return html`<th>${name}</th>`;
  const isSorted = (asked.sort ?? "begun") === name;
  const isDown = asked.down === "1";
  const first = kind === "n" && name !== "begun" ? 1 : null;
  const turn = () => put({ sort: name === "begun" ? null : name, down: isSorted ? (isDown ? null : 1) : first, offset: null, row: null });
  return html`<th class=${kind} aria-sort=${isSorted ? (isDown ? "descending" : "ascending") : "none"}><button class="sorts" onClick=${turn}>${name}${isSorted && (asked.sort || isDown) ? (isDown ? " ↓" : " ↑") : ""}</button></th>`;
}

/** @param {{run: any, isChosen: boolean}} props */
function Row({ run, isChosen }) {
  const counts = run.counts;
  const done = counts ? counts.passed + counts.failed + counts.errors : 0;
  return html`<tr class=${isChosen ? "chosen" : ""} aria-selected=${isChosen}>
    <td class="name"><a href=${link(run.key)}>${run.name || run.key}</a><small>${run.key}</small></td>
    <td><${State} state=${run.state}/>${run.type_next && html`<small>type <${Command} text=${run.type_next}/></small>`}
      ${run.problem && html`<small class="why">${run.problem}</small>`}${run.error && html`<small class="why">${run.error.message}</small>`}</td>
    <td class="wide">${counts && html`<${Progress} counts=${counts} planned=${run.planned}/><small>${count(done)} of ${count(run.planned)}</small>`}</td>
    <td class="wide"><${Means} run=${run}/></td>
    <td class="n">${counts?.errors ? count(counts.errors) : counts && html`<span class="dim">0</span>`}</td>
    <td class="n">${run.retried ? count(run.retried) : counts && html`<span class="dim">0</span>`}</td>
    <td class="n">${money(run.cost_usd)}</td>
    <td class="n" title=${run.created_at}>${ago(run.created_at)}</td>
  </tr>`;
}

/** @param {{run: any}} props */
function Means({ run }) {
  const means = Object.entries(run.means ?? {});
  const inScale = means.every(([, mean]) => mean === null || (mean >= 0 && mean <= 1));
  const values = means.map(([, mean]) => mean ?? 0);
  const scale = inScale ? [0, 1] : [Math.min(0, ...values), Math.max(...values)];
  return html`<div class="means">${means.slice(0, SHOWN_VARIANTS).map(([name, mean], number) => {
    const [low, high] = run.intervals[number] ?? [null, null];
    const label = `${name}: ${range({ value: mean, low, high })}`;
    return html`<span class="meanname" title=${name}><${Clip} text=${name}/></span><${Dot} small value=${mean} low=${low} high=${high} scale=${scale} label=${label}/><span class="n">${range({ value: mean })}</span>`;
  })}</div>${means.length > SHOWN_VARIANTS && html`<small>and ${means.length - SHOWN_VARIANTS} more</small>`}`;
}
