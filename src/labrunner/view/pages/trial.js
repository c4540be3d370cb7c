/** One trial: its verdict, its attempts as they went, and what it left. */
import { html, useEffect } from "./dom.js";
import { go, link, put, search } from "./address.js";
import { useAnswer } from "./asking.js";
import { Conversation, Files, Grader, LiveTrial, Record, Terminal } from "./left.js";
import { useKeys } from "./keys.js";
import { ENDINGS, Ending, Mark, Trouble, Way } from "./pieces.js";
import { clock, duration, figure, money } from "./words.js";

/** @param {{run: string, trial: string | null, slot: string | null, words: URLSearchParams}} props */
export function Trial({ run, trial, slot, words }) {
  const { told, problem } = useAnswer("trial", { run, trial, slot }, run);
  const isThis = told && (trial === null ? String(told.slot) === slot : told.trial_id === trial);
  const beside = (isThis && told.beside) || {};
  const visit = (/** @type {string | null} */ id) => id && go(link(run, id) + search());
  const tabs = isThis ? tabsOf(told) : [];
  const tab = tabs.includes(words.get("tab") ?? "") ? words.get("tab") : tabs[0];
  useEffect(() => { if (isThis && trial === null) go(link(run, told.trial_id) + search(), true); }, [isThis, trial]);
  useEffect(() => { document.title = `${isThis ? told.task : "trial"} · lab view`; }, [isThis && told.task]);
  useKeys({
    n: () => visit(beside.next), p: () => visit(beside.previous), r: () => visit(beside.replication), v: () => visit(beside.variant),
    ...Object.fromEntries(tabs.map((name, number) => [String(number + 1), () => put({ tab: name })])),
  });
  return html`<main class="trial">
    <header class="top">
      <${Way} run=${run}/>
    </header>
    <${Trouble} problem=${problem}/>
    ${!isThis && !problem && html`<p class="empty" role="status">reading the trial</p>`}
    ${isThis && html`
      <div class="verdict">
        <h1><${Mark} ending=${told.ending} strength=${told.value > 0 && told.value < 1 ? told.value : 0}/> ${told.task}</h1>
        <p><${Told} told=${told}/></p>
        <p class="dim">${told.variant} · replication ${told.repl + 1}${told.replications > 1 ? ` of ${told.replications}` : ""} · slot ${told.slot}</p>
        <nav class="beside" aria-label="trials beside">
          ${[["previous", "p", "previous"], ["next", "n", "next"], ["replication", "r", "replication"], ["variant", "v", "other variant"]].map(([name, key, text]) => beside[name] && html`<a href=${link(run, beside[name]) + search()}>${text} <kbd>${key}</kbd></a>`)}
        </nav>
      </div>
      ${told.withdrawn && html`<p class="warnings">Not to be used: ${told.withdrawn}</p>`}
      ${told.record && html`<${Attempts} record=${told.record}/>`}
      ${told.record && html`
        <div class="tabs" role="tablist">${tabs.map((name) => html`<button role="tab" aria-selected=${name === tab} onClick=${() => put({ tab: name })}>${name}</button>`)}</div>
        <div role="tabpanel" aria-label=${tab}>
          ${tab === "conversation" && html`<${Conversation} run=${run} told=${told}/>`}
          ${tab === "terminal" && html`<${Terminal} run=${run} told=${told}/>`}
          ${tab === "files" && html`<${Files} run=${run} told=${told}/>`}
          ${tab === "grader" && html`<${Grader} told=${told} run=${run}/>`}
          ${tab === "record" && html`<${Record} told=${told}/>`}
        </div>`}
      ${!told.record && told.unfinished && html`<${LiveTrial} run=${run} told=${told}/>`}
      ${!told.record && !told.unfinished && html`<p class="empty">It has not been started yet.</p>`}`}
  </main>`;
}

/** @param {any} told @returns {string[]} */
function tabsOf(told) {
  return [told.has_conversation && "conversation", "terminal", "files", "grader", "record"].filter(Boolean);
}

/** @param {{told: any}} props how it ended, in words */
function Told({ told }) {
  if (told.ending === "error") return html`error: no grade, cause <b>${told.cause}</b> (${told.reason})`;
  if (told.ending === "running") return html`running: ${told.phase}, attempt ${told.attempts}${told.node ? html` on ${told.node}` : ""}`;
  if (told.value === undefined || told.value === null) return ENDINGS[told.ending];
  const name = told.record?.trial.primary_metric_name;
  return html`${ENDINGS[told.ending]}${name ? html`, ${name} = <b>${figure(told.value)}</b>` : ""}${told.ended_by ? html`, ended by ${told.ended_by}` : ""}
    <span class="dim"> ${[duration(told.time_s), told.tokens != null && `${Math.round(told.tokens).toLocaleString("en")} tokens`, money(told.cost_usd)].filter(Boolean).join(" · ")}</span>`;
}

const PHASES = ["prepare", "setup", "agent", "barrier", "bring_grader", "grader", "collect"];

/** @param {{record: any}} props attempts as a waterfall of their phases */
function Attempts({ record }) {
  const times = Object.fromEntries(record.timing.attempts.map((/** @type {any} */ each) => [each.attempt, each]));
  const sums = record.timing.attempts.map((/** @type {any} */ each) => total(each));
  const longest = Math.max(0.001, ...sums);
  return html`<section class="attempts" aria-label="attempts">
    ${record.trial.attempts.map((/** @type {any} */ fact) => html`<${Attempt} fact=${fact} timing=${times[fact.attempt]} longest=${longest}/>`)}
    ${(record.timing.cut_off ?? []).length > 0 && html`<p class="dim">Cut off by a crash before: ${record.timing.cut_off.join(", ")}</p>`}
    ${record.earlier && html`<p class="dim">${record.earlier.length} attempts in earlier runs.</p>`}
  </section>`;
}

/** @param {any} timing */
function total(timing) {
  return Object.values(timing?.phases_s ?? {}).reduce((/** @type {number} */ sum, each) => sum + Number(each), 0);
}

/** @param {{fact: any, timing: any, longest: number}} props */
function Attempt({ fact, timing, longest }) {
  const phases = timing?.phases_s ?? {};
  const names = [...PHASES.filter((name) => name in phases), ...Object.keys(phases).filter((name) => !PHASES.includes(name))];
  let at = 0;
  const bars = names.map((name) => {
    const bar = { name, from: at, took: phases[name] };
    at += phases[name];
    return bar;
  });
  const facts = { setup: fact.setup, agent: fact.agent, grader: fact.grader };
  return html`<div class="attempt">
    <p><b>attempt ${fact.attempt}</b> ${fact.outcome === "failed" ? html`<${Ending} ending="error"/>: ${fact.cause} (${fact.reason})` : "graded"}
      <span class="dim"> ${timing && `${clock(timing.started_at)} UTC, ${timing.sandbox} on ${timing.node ?? timing.host}${timing.adopted ? ", adopted after a crash" : ""}`}</span></p>
    <dl class="waterfall">${bars.map((bar) => html`<dt>${bar.name.replace("_", " ")}</dt><dd>
      <span class=${`bar ${["agent", "grader"].includes(bar.name) ? "main" : ""}`} style=${{ marginLeft: `${(60 * bar.from) / longest}%`, width: `max(2px, ${(60 * bar.took) / longest}%)` }}></span>
      <span class="took">${duration(bar.took)} <span class="dim">${ended(facts[bar.name])}</span></span></dd>`)}</dl>
    ${timing?.message && html`<pre class="said">${timing.message}</pre>`}
    ${timing?.traceback && html`<details><summary>traceback</summary><pre>${timing.traceback}</pre></details>`}
    ${timing?.agent_error && html`<p class="dim">The agent says: ${timing.agent_error}</p>`}
  </div>`;
}

/** @param {any} fact @returns {string} how a phase ended */
function ended(fact) {
  if (!fact) return "";
  const why = [fact.timed_out && "timed out", fact.oom_killed && "out of memory", fact.over_disk && "over its disk limit"].filter(Boolean);
  if (fact.exit_status !== null && fact.exit_status !== undefined && fact.exit_status !== 0) why.push(`exit ${fact.exit_status}`);
  return why.join(", ");
}
