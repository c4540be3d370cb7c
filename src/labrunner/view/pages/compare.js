/** Two variants, or two runs: the difference, the tasks that make it, and two trials side by side. */
import { html, useEffect, useRef } from "./dom.js";
import { link, put, to } from "./address.js";
import { isFile } from "./held.js";
import { useAnswer } from "./asking.js";
import { Conversation, Grader, Terminal } from "./left.js";
import { useKeys } from "./keys.js";
import { Dot, Ending, Trouble, Way } from "./pieces.js";
import { conclude } from "./run.js";
import { count, counted, figure } from "./words.js";

/** @param {{words: URLSearchParams}} props */
export function Compare({ words }) {
  const a = words.get("a");
  const b = words.get("b");
  const mustChoose = words.has("b") && !b;
  const { told, problem } = useAnswer(a && !mustChoose ? "compare" : null, { a, b, baseline: words.get("baseline") }, null);
  const runs = useAnswer("runs", {}, null).told?.runs ?? [];
  const pairs = told?.comparisons ?? [];
  const pair = pairs[Number(words.get("pair") ?? 0)] ?? pairs[0];
  useEffect(() => { document.title = "Compare · lab view"; }, []);
  return html`<main>
    <header class="top">
      <${Way} run=${a}/>
      <h1>Compare</h1>
    </header>
    <div class="bar">
      ${!isFile && html`<label class="choice">with <select value=${b ?? ""} onChange=${(/** @type {any} */ e) => put({ b: e.target.value, pair: null, flip: null })}>
        <option value="">${mustChoose ? "which run?" : "its own variants"}</option>
        ${runs.filter((/** @type {any} */ run) => run.key !== a).map((/** @type {any} */ run) => html`<option value=${run.key}>${run.key}</option>`)}
      </select></label>`}
      ${told && told.arms.length > 2 && html`<label class="choice">baseline <select value=${words.get("baseline") ?? pair?.baseline} onChange=${(/** @type {any} */ e) => put({ baseline: e.target.value, pair: null, flip: null })}>
        ${told.arms.map((/** @type {string} */ arm) => html`<option value=${arm}>${arm}</option>`)}</select></label>`}
      ${pairs.length > 1 && html`<label class="choice">against it <select value=${String(pairs.indexOf(pair))} onChange=${(/** @type {any} */ e) => put({ pair: e.target.value, flip: null })}>
        ${pairs.map((/** @type {any} */ each, /** @type {number} */ number) => html`<option value=${String(number)}>${each.other}</option>`)}</select></label>`}
    </div>
    <${Trouble} problem=${problem}/>
    ${!a && html`<p class="empty">Compare what? <a href=${to("/")}>Choose a run</a> first.</p>`}
    ${a && !mustChoose && !told && !problem && html`<p class="empty" role="status">comparing, task by task</p>`}
    ${pair && html`<${Pair} pair=${pair} told=${told} words=${words}/>`}
  </main>`;
}

/** @param {{pair: any, told: any, words: URLSearchParams}} props */
function Pair({ pair, told, words }) {
  const reach = Math.max(0.001, Math.min(pair.reach ?? Infinity, 1.15 * Math.max(...[pair.difference, pair.low, pair.high].filter((x) => x != null).map(Math.abs), 0.05)));
  const flips = [...pair.up, ...pair.down];
  const chosen = flips.find((flip) => flip.task_id === words.get("flip"));
  const at = chosen ? flips.indexOf(chosen) : -1;
  const walk = (/** @type {number} */ step) => flips.length && put({ flip: flips[Math.max(0, Math.min(flips.length - 1, at + step))].task_id });
  useKeys({ j: () => walk(1), k: () => walk(-1) });
  return html`<section class="headline">
      <h2 class="finding">${conclude(pair)}</h2>
      <p class="says">${pair.says}</p>
      <div class="versus">
        <${Dot} value=${pair.difference} low=${pair.low} high=${pair.high} lower=${pair.errors?.low} upper=${pair.errors?.high} scale=${[-reach, reach]} zero=${0} label=${`difference ${figure(pair.difference)} (${figure(pair.low)} to ${figure(pair.high)})`}/>
        <p><span>${pair.baseline} ${figure(pair.baseline_mean)}</span><span>difference in ${pair.measure}: ${pair.difference > 0 ? "+" : ""}${figure(pair.difference)}${pair.low != null ? ` (${figure(pair.low)} to ${figure(pair.high)})` : ""}</span><span>${pair.other} ${figure(pair.other_mean)}</span></p>
      </div>
      <p>${counted(pair.tasks, "task")}: ${count(pair.wins)} better, ${count(pair.ties)} alike, ${count(pair.losses)} worse</p>
      ${told.differences.map((/** @type {string} */ text) => html`<p class="dim">Not the same: ${text}</p>`)}
    </section>
    <div class="sides">
      <${Flips} title=${`better with ${pair.other}`} flips=${pair.up} total=${pair.wins} pair=${pair} chosen=${chosen}/>
      <${Flips} title=${`better with ${pair.baseline}`} flips=${pair.down} total=${pair.losses} pair=${pair} chosen=${chosen}/>
    </div>
    ${chosen && html`<${Sides} pair=${pair} flip=${chosen} key=${chosen.task_id + pair.other + pair.baseline}/>`}`;
}

/** @param {{title: string, flips: any[], total: number, pair: any, chosen: any}} props */
function Flips({ title, flips, total, pair, chosen }) {
  return html`<section aria-label=${title}><h2>${title} <span class="dim">${counted(total, "task")}</span></h2>
    ${!total && html`<p class="dim">none</p>`}
    ${flips.length > 0 && html`<table class="flips"><thead><tr><th>task</th><th class="n">${pair.baseline}</th><th class="n">${pair.other}</th></tr></thead>
    <tbody>${flips.map((flip) => html`<tr class=${flip === chosen ? "chosen" : ""}><td><button class="plain" aria-expanded=${flip === chosen} onClick=${() => put({ flip: flip === chosen ? null : flip.task_id })}>${flip.task_id}</button></td>
      <td class="n">${figure(flip.baseline)}</td><td class="n">${figure(flip.other)}</td></tr>`)}</tbody></table>`}
    ${total > flips.length && html`<p class="dim">and ${count(total - flips.length)} more: the run's map, sorted by difference, has them</p>`}
  </section>`;
}

/** @param {{pair: any, flip: any}} props two trials that scroll together */
function Sides({ pair, flip }) {
  const boxes = [useRef(/** @type {HTMLElement | null} */ (null)), useRef(/** @type {HTMLElement | null} */ (null))];
  const follow = (/** @type {number} */ number) => {
    const from = boxes[number].current;
    const other = boxes[1 - number].current;
    if (!from || !other || !from.matches(":hover, :focus-within")) return;
    const share = from.scrollTop / Math.max(1, from.scrollHeight - from.clientHeight);
    other.scrollTop = share * (other.scrollHeight - other.clientHeight);
  };
  const sides = [[pair.baseline, pair.baseline_run, flip.baseline_trial], [pair.other, pair.other_run, flip.other_trial]];
  return html`<div class="sides">${sides.map(([name, run, trial], number) => html`<${Side} key=${trial} name=${name} run=${run} trial=${trial} box=${boxes[number]} onScroll=${() => follow(number)}/>`)}</div>`;
}

/** @param {{name: string, run: string, trial: string, box: any, onScroll: () => void}} props */
function Side({ name, run, trial, box, onScroll }) {
  const { told, problem } = useAnswer("trial", { run, trial }, run);
  return html`<section aria-label=${name}>
    <h2>${name} ${told && html`<${Ending} ending=${told.ending} value=${told.value}/>`} <a href=${link(run, trial)}>open</a></h2>
    ${problem && html`<p class="dim">${problem.message}</p>`}
    <div class="scrolling" ref=${box} tabindex="0" onScroll=${onScroll}>
      ${told?.record && (told.has_conversation ? html`<${Conversation} run=${run} told=${told}/>` : html`<${Terminal} run=${run} told=${told}/>`)}
      ${told?.record && html`<${Grader} run=${run} told=${{ ...told, files: [] }}/>`}
    </div></section>`;
}
