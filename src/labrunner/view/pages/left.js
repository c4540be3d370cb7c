/** What a trial left: conversation, terminal, files, the grader's words, its record. Everything is text. */
import { html, useEffect, useState } from "./dom.js";
import { ask, query, useAnswer } from "./asking.js";
import { isFile } from "./held.js";
import { count, counted, duration, figure, money, size } from "./words.js";

/** @param {{pieces: [string, string][]}} props styled text; styles are names of ours, never the text's own */
export const Pieces = ({ pieces }) => html`<pre class="terminal">${pieces.map(([name, text]) => (name ? html`<span class=${name}>${text}</span>` : text))}</pre>`;

/** @param {{run: string, told: any, file: any}} props a window of a file, from its end */
export function Text({ run, told, file }) {
  const words = { run, trial: told.trial_id, attempt: file.attempt, digest: file.digest };
  const [end, setEnd] = useState(/** @type {number | null} */ (null));
  const { told: shown, problem } = useAnswer("text", { ...words, end }, run);
  if (problem) return html`<p class="dim">${problem.message}</p>`;
  if (!shown) return html`<p class="dim">…</p>`;
  if (shown.problem) return html`<p class="dim">${shown.problem}</p>`;
  if (isFile) return html`${shown.start > 0 && html`<p class="dim">${size(shown.start)} before this are not in this file.</p>`}<${Pieces} pieces=${shown.pieces}/>`;
  return html`${shown.start > 0 && html`<p class="dim"><button onClick=${() => setEnd(shown.start)}>earlier</button> ${size(shown.start)} before this</p>`}
    <${Pieces} pieces=${shown.pieces}/>
    ${shown.end < shown.size && html`<p class="dim"><button onClick=${() => setEnd(null)}>to the end</button></p>`}`;
}

/** @param {{run: string, told: any, file: any}} props the bytes, from where they are kept */
function Download({ run, told, file }) {
  if (isFile) return null;
  return html`<a href=${`/api/raw?${query({ run, trial: told.trial_id, attempt: file.attempt, digest: file.digest })}`} download aria-label=${`download ${file.path}`}>download</a>`;
}

const ORDER = ["agent", "grader", "setup", ""];

/** @param {any[]} one @param {any[]} other */
function compareAll(one, other) {
  const at = one.findIndex((each, number) => each !== other[number]);
  return at < 0 ? 0 : one[at] < other[at] ? -1 : 1;
}

/** @param {any} told */
const logsOf = (told) => told.files.filter((/** @type {any} */ file) => file.path.startsWith("logs/"));

/** @param {{run: string, told: any}} props */
export function Terminal({ run, told }) {
  const logs = logsOf(told).filter((/** @type {any} */ file) => file.size > 0);
  if (!logs.length) return html`<p class="empty">Nothing was written to a terminal.</p>`;
  const isSeveral = new Set(logs.map((/** @type {any} */ file) => file.attempt)).size > 1;
  const place = (/** @type {any} */ file) => [-file.attempt, ORDER.findIndex((name) => file.path.startsWith(`logs/${name}`)), file.path];
  logs.sort((/** @type {any} */ one, /** @type {any} */ other) => compareAll(place(one), place(other)));
  return logs.map((/** @type {any} */ file) => html`<section class="log" key=${file.digest + file.attempt + file.path}>
    <h2>${file.path.slice(5)} <span class="dim">${isSeveral ? `attempt ${file.attempt}, ` : ""}${size(file.size)}</span> <${Download} run=${run} told=${told} file=${file}/></h2>
    <${Text} run=${run} told=${told} file=${file}/></section>`);
}

/** @param {{run: string, told: any}} props */
export function Files({ run, told }) {
  const [chosen, setChosen] = useState(-1);
  const hasFolders = Object.keys(told.record.timing.attempts.at(-1)?.folders ?? {}).length > 0 || told.files.some((/** @type {any} */ file) => file.path === LAYER);
  if (!told.files.length && !hasFolders) return html`<p class="empty">No file was kept.</p>`;
  const patches = told.record.predictions.filter((/** @type {any} */ row) => row.prediction.kind === "patch");
  return html`${patches.map((/** @type {any} */ row) => html`<section class="log"><h2>The patch that was handed in</h2><${Diff} text=${String(row.prediction.value ?? row.prediction.artifact_ref)}/></section>`)}
  ${hasFolders && html`<${Folders} run=${run} told=${told}/>`}
  ${told.files.length > 0 && html`<section class="log"><h2>Kept files <span class="dim">${count(told.files.length)}</span></h2>
  <div class="scrolls"><table class="files">
    <thead><tr><th>file</th><th class="n">attempt</th><th class="n">size</th><th>digest</th><th>take it</th></tr></thead>
    <tbody>${told.files.map((/** @type {any} */ file, /** @type {number} */ number) => html`<tr class=${number === chosen ? "chosen" : ""}>
      <td><button class="plain" aria-expanded=${number === chosen} onClick=${() => setChosen(number === chosen ? -1 : number)}>${file.path}</button></td>
      <td class="n">${file.attempt}</td><td class="n">${size(file.size)}</td><td class="dim digest">${file.digest.slice(7, 19)}</td>
      <td><${Download} run=${run} told=${told} file=${file}/></td></tr>
      ${number === chosen && html`<tr class="shown"><td colspan="5"><${Text} run=${run} told=${told} file=${file}/></td></tr>`}`)}</tbody>
  </table></div></section>`}`;
}

const HOW = { written: "new or changed", added: "new", changed: "changed", deleted: "gone", mode: "changed", kept: "kept" };
const SIGNS = { written: "+", added: "+", changed: "±", deleted: "−", mode: "±", kept: " " };

/** @param {{run: string, told: any}} props folders that were kept, with what is in them that the task did not bring */
function Folders({ run, told }) {
  const { told: found, problem } = useAnswer("folders", { run, trial: told.trial_id, attempt: told.shown_attempt }, "");
  if (problem) return html`<p class="dim">${problem.message}</p>`;
  if (!found) return html`<p class="dim" role="status">looking at what was kept</p>`;
  return found.folders.map((/** @type {any} */ each) => html`<section class="log" key=${each.folder}>
    <h2>${each.is_compared || each.folder.startsWith("/") ? `What changed in ${each.folder}/` : `${each.folder}/`} <span class="dim">${sum(each)}</span></h2>
    ${each.note && html`<p class="dim">${each.note}</p>`}
    ${each.is_compared && !each.changes.length && html`<p class="dim">Nothing: it is as the task brought it.</p>`}
    <div class="changes">${each.changes.map((/** @type {any} */ change, /** @type {number} */ number) => html`<${Changed} key=${change.path} run=${run} told=${told} folder=${each.folder} change=${change} isOpen=${number < OPEN && change.how !== "kept"}/>`)}</div>
    ${each.left_out > 0 && html`<p class="dim">and ${counted(each.left_out, "more file", "more files")}</p>`}
    ${each.has_more && html`<p class="dim">and more</p>`}
  </section>`);
}

const OPEN = 5;
const LAYER = "layer.tar.zst";

/** @param {any} each @returns {string} how many files of each kind */
function sum(each) {
  const counts = [...new Set(Object.values(HOW))].map((word) => [word, each.changes.filter((/** @type {any} */ change) => HOW[change.how] === word).length]);
  const told = counts.filter(([, number]) => number).map(([word, number]) => (word === "kept" ? counted(number, "file") : `${number} ${word}`));
  return [...told, each.same ? `${count(each.same)} as they were` : ""].filter(Boolean).join(", ");
}

/** @param {{run: string, told: any, folder: string, change: any, isOpen: boolean}} props one file, with its patch */
function Changed({ run, told, folder, change, isOpen }) {
  const [shows, setShows] = useState(isOpen);
  const [isWhole, setWhole] = useState(false);
  const file = { path: `${folder}/${change.path}`, attempt: told.shown_attempt, digest: change.digest, size: change.size };
  const kind = change.kind === "file" || change.how === "mode" ? "" : change.kind;
  const facts = [change.how !== "kept" && HOW[change.how], kind, change.how === "mode" && (change.kind === "program" ? "may be run now" : "may not be run any more"), change.digest && size(change.size), change.why_none !== kind && change.why_none];
  return html`<div class="change">
    <p><span class=${`sign ${change.how}`} aria-hidden="true">${SIGNS[change.how]}</span>${change.patch ? html`<button class="plain" aria-expanded=${shows} onClick=${() => setShows(!shows)}>${change.path}</button>` : html`<span>${change.path}</span>`}
      <span class="dim">${facts.filter(Boolean).join(", ")}</span>
      ${change.digest && !isFile && html`<button aria-expanded=${isWhole} onClick=${() => setWhole(!isWhole)}>${isWhole ? "close it" : "whole file"}</button>`}
      ${change.digest && html`<${Download} run=${run} told=${told} file=${file}/>`}</p>
    ${shows && change.patch && html`<${Diff} text=${change.patch}/>`}
    ${isWhole && html`<${Text} run=${run} told=${told} file=${file}/>`}
  </div>`;
}

/** @param {{told: any, run: string}} props */
export function Grader({ told, run }) {
  const record = told.record;
  const score = record.scores[0];
  const metrics = Object.entries(score?.metrics ?? {});
  const scores = Object.entries(told.scores ?? {});
  const others = Object.entries(score?.ext ?? {}).filter(([name]) => name !== "scores");
  const logs = logsOf(told).filter((/** @type {any} */ file) => file.path.startsWith("logs/grader") && file.size > 0);
  const write = (/** @type {any} */ value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  return html`<dl class="facts">
      ${score && html`<dt>verdict</dt><dd>${score.verdict}, ${score.primary_metric_name} = ${figure(score.primary_metric_value)}</dd><dt>judged by</dt><dd>${score.evaluator.name}</dd>`}
      ${!score && html`<dt>verdict</dt><dd>none</dd>`}
      <dt>barrier</dt><dd>${told.barrier}</dd>
      ${metrics.map(([name, value]) => html`<dt>${name}</dt><dd>${typeof value === "number" ? figure(value) : write(value)}</dd>`)}
      ${scores.map(([name, plain]) => html`<dt>${name}</dt><dd>${write(plain.value)}${plain.answer ? html`<pre>${write(plain.answer)}</pre>` : ""}${plain.explanation ? html`<pre>${write(plain.explanation)}</pre>` : ""}</dd>`)}
      ${others.map(([name, value]) => html`<dt>${name}</dt><dd><pre>${write(value)}</pre></dd>`)}
      ${record.predictions.map((/** @type {any} */ row) => html`<dt>predicted</dt><dd>${row.prediction.kind === "patch" ? html`<${Diff} text=${write(row.prediction.value)}/>` : html`<pre>${write(row.prediction.artifact_ref ?? row.prediction.value)}</pre>`}</dd>`)}
    </dl>
    ${logs.map((/** @type {any} */ file) => html`<section class="log"><h2>${file.path.slice(5)}</h2><${Text} run=${run} told=${told} file=${file}/></section>`)}`;
}

/** @param {{text: string}} props a patch; lines say by their first letter what they are, and by a colour too */
function Diff({ text }) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  return html`<pre class="terminal">${text.split("\n").map((line) => html`<span class=${kinds[line[0]] ?? ""}>${line}${"\n"}</span>`)}</pre>`;
}

/** @param {{told: any}} props */
export const Record = ({ told }) => html`<pre class="terminal">${told.record_text}</pre>`;

/** @param {{run: string, told: any}} props */
export function Conversation({ run, told }) {
  const [entries, setEntries] = useState(/** @type {any[]} */ ([]));
  const [hasMore, setMore] = useState(true);
  const [problem, setProblem] = useState("");
  const [sought, setSought] = useState("");
  const more = async (/** @type {number} */ offset) => {
    try {
      const page = await ask("conversation", { run, trial: told.trial_id, attempt: told.shown_attempt, offset });
      setEntries((before) => [...before.slice(0, offset), ...page.entries]);
      setMore(page.has_more);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  useEffect(() => { setEntries([]); more(0); }, [told.trial_id]);
  const word = sought.toLowerCase();
  const shown = word ? entries.filter((each) => JSON.stringify(each).toLowerCase().includes(word)) : entries;
  return html`<div class="bar"><input type="search" placeholder="find in what was said" aria-label="find in the conversation" value=${sought} onInput=${(/** @type {any} */ e) => setSought(e.target.value)}/>
      <span class="dim" role="status">${word ? `${shown.length} of ${entries.length} entries` : ""}</span></div>
    ${problem && html`<p class="dim">${problem}</p>`}
    <ol class="conversation">${shown.map((each) => html`<${Entry} each=${each}/>`)}</ol>
    ${hasMore && entries.length > 0 && html`<button onClick=${() => more(entries.length)}>more</button>`}`;
}

const PREVIEW = 120;

/** @param {string} text arguments of a call, as JSON @returns {string} what they say, in one line */
function preview(text) {
  let said = text;
  try {
    const given = JSON.parse(text);
    if (given && typeof given === "object") said = Object.values(given).map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(" ");
  } catch { /* it is shown as it is */ }
  const line = said.replace(/\s+/g, " ").trim();
  return line.length > PREVIEW ? `${line.slice(0, PREVIEW)}…` : line;
}

/** @param {{each: any}} props */
function Entry({ each }) {
  if (each.kind === "model") {
    const used = each.usage ?? {};
    const told = [each.model, used.input_tokens != null && `${count(used.input_tokens)} tokens in, ${count(used.output_tokens ?? 0)} out`, used.cost_usd != null && money(Number(used.cost_usd)), each.seconds != null && duration(Number(each.seconds)), each.stop_reason && each.stop_reason !== "stop" && String(each.stop_reason), each.error && `error: ${JSON.stringify(each.error)}`];
    return html`<li class="call dim">${told.filter(Boolean).join(" · ")}</li>`;
  }
  if (each.kind !== "message") return html`<li class=${`note ${each.kind}`}><b>${each.kind}</b><pre>${each.text}</pre></li>`;
  return html`<li class=${`said ${each.role}`}><b>${each.role}${each.name ? ` ${each.name}` : ""}${each.thread ? html` <small>conversation ${each.thread + 1}</small>` : ""}</b>
    <div>${each.role === "tool" && each.text.length > 400 ? html`<details><summary>${each.text.slice(0, 120)}…</summary><pre>${each.text}</pre></details>` : each.text ? html`<pre>${each.text}</pre>` : each.role === "tool" && !each.trouble && html`<span class="dim">nothing</span>`}
    ${each.trouble && html`<pre class="trouble">${each.trouble}</pre>`}
    ${(each.calls ?? []).map((/** @type {any} */ call) => html`<details class="tool"><summary>calls ${call.function} <code class="dim">${preview(call.arguments)}</code></summary><pre>${call.arguments}</pre></details>`)}</div></li>`;
}

const LOOK_MS = 1000;

/** @param {{run: string, told: any}} props what an attempt without a result has written so far */
export function LiveTrial({ run, told }) {
  const [live, setLive] = useState(/** @type {any} */ (null));
  const isLive = told.unfinished.is_live;
  useEffect(() => {
    let isGone = false;
    let timer = 0;
    const look = async () => {
      if (!document.hidden) {
        try {
          const now = await ask("live", { run, trial: told.trial_id });
          if (!isGone) setLive(now);
        } catch { /* the page's own question tells what is wrong */ }
      }
      if (isLive && !isGone) timer = setTimeout(look, LOOK_MS);
    };
    look();
    return () => { isGone = true; clearTimeout(timer); };
  }, [told.trial_id, isLive]);
  return html`<p class="dim">${isLive ? `Attempt ${live?.attempt ?? told.unfinished.attempt} is under way: ${live?.phase ?? told.unfinished.phase ?? ""}.` : "It has no result: its run ended before it did."}</p>
    ${(told.unfinished.failed ?? []).map((/** @type {any} */ each) => html`<p class="dim">Attempt ${each.attempt} failed: ${each.end.cause} (${each.end.reason}) ${each.end.message}</p>`)}
    <ol class="conversation">${(live?.entries ?? []).map((/** @type {any} */ each) => html`<${Entry} each=${each}/>`)}</ol>
    ${(live?.logs ?? []).map((/** @type {any} */ log) => html`<section class="log" key=${log.path}><h2>${log.path}</h2><${Pieces} pieces=${log.pieces}/></section>`)}
    ${live && !live.logs.length && !live.entries.length && html`<p class="empty">Nothing was written yet.</p>`}`;
}
