/** One SELECT over a run's tables, in the address; what it finds as a table, and its last figure as bars. */
import { html, useEffect, useRef } from "./dom.js";
import { put } from "./address.js";
import { useAnswer } from "./asking.js";
import { useKeys } from "./keys.js";
import { Way } from "./pieces.js";
import { counted } from "./words.js";

const FIRST = "select variant_id, cause, reason, count(*) as n from trials\nwhere outcome = 'failed' group by all order by n desc";
const TABLES = "trials, attempts, scores, predictions, metrics, timings, earlier, tasks, runs, outages, calls, doors, events";
const NUMBER = /INT|DOUBLE|FLOAT|DECIMAL|REAL/;

/** @param {{words: URLSearchParams}} props */
export function Query({ words }) {
  const run = words.get("run") ?? "";
  const sql = words.get("sql") ?? FIRST;
  const { told, problem, isAsking } = useAnswer("query", { run, sql }, run);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const send = () => put({ sql: field.current?.value });
  useEffect(() => { document.title = "SQL · lab view"; }, []);
  useKeys({ "/": () => field.current?.focus() });
  return html`<main>
    <header class="top"><${Way} run=${run}/><h1>SQL</h1></header>
    <div class="bar"><span class="dim">one SELECT over ${TABLES}; <code>describe trials</code> tells a table's columns</span></div>
    <textarea class="sql" ref=${field} aria-label="SQL" spellcheck=${false} defaultValue=${sql} value=${sql}
      onKeyDown=${(/** @type {KeyboardEvent} */ e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); send(); } }}></textarea>
    <div class="bar"><button onClick=${send}>ask</button> <kbd>Ctrl Enter</kbd>
      <span class="dim" role="status">${isAsking ? "asking" : told && !problem ? `${counted(told.rows.length, "row")}${told.has_more ? ", and more" : ""}` : ""}</span></div>
    ${problem && html`<pre class="trouble" role="alert">${problem.message}</pre>`}
    ${told && !problem && html`<${Found} told=${told}/>`}
  </main>`;
}

/** @param {{told: any}} props */
function Found({ told }) {
  const isNumber = told.types.map((/** @type {string} */ kind) => NUMBER.test(kind));
  const drawn = isNumber.lastIndexOf(true);
  const most = Math.max(0, ...told.rows.map((/** @type {any[]} */ row) => Math.abs(Number(row[drawn]) || 0)));
  const write = (/** @type {any} */ value) => (value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  return html`<div class="scrolls"><table class="answer">
    <thead><tr>${told.columns.map((/** @type {string} */ name, /** @type {number} */ at) => html`<th class=${isNumber[at] ? "n" : ""}>${name}</th>`)}${most > 0 && html`<th class="drawn">${told.columns[drawn]}, drawn</th>`}</tr></thead>
    <tbody>${told.rows.map((/** @type {any[]} */ row) => html`<tr>${row.map((value, at) => html`<td class=${isNumber[at] ? "n" : ""}>${write(value)}</td>`)}
      ${most > 0 && html`<td class="bars"><span class="share" style=${{ width: `${(100 * Math.abs(Number(row[drawn]) || 0)) / most}%` }}></span></td>`}</tr>`)}</tbody>
  </table></div>`;
}
