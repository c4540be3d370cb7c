/** One run: which variant is ahead, how sure that is, what went wrong, and every trial. */
import { html, useEffect, useState } from "./dom.js";
import { link, put, to } from "./address.js";
import { useAnswer } from "./asking.js";
import { isFile } from "./held.js";
import { TrialMap } from "./map.js";
import { Command, Dot, Ending, Mark, Progress, State, Trouble, Way, range } from "./pieces.js";
import { Said } from "./said.js";
import { Trials } from "./trials.js";
import { ago, clock, count, counted, duration, figure, money, shorten } from "./words.js";

const SHOWN_GROUPS = 4;
const SHOWN_NODES = 12;

/** @param {{run: string, words: URLSearchParams}} props */
export function Run({ run, words }) {
  const { told, problem } = useAnswer("run", { run, soon: 1 }, run);
  const errors = useAnswer("errors", { run }, run);
  const times = useAnswer("times", { run }, run);
  const title = told?.name ?? run;
  useEffect(() => { document.title = `${title} · lab view`; }, [title]);
  return html`<main>
    <header class="top">
      <${Way}/>
      <h1>${title}</h1>
      ${told && html`<${State} state=${told.state}/>`}
      <span class="dim where">${run}</span>
    </header>
    <${Trouble} problem=${problem}/>
    ${problem?.status === 409 && html`<${Listed} run=${run}/>`}
    ${!told && !problem && html`<p class="empty" role="status">reading the run</p>`}
    ${told && html`<${Standing} told=${told}/>`}
    ${told?.summary && html`<${Headline} told=${told}/>`}
    ${told?.is_figuring && html`<p class=${told.summary ? "dim" : "adding dim"} role="status">${told.summary ? `Figures as of ${clock(told.summary.created_at)} UTC; they are being added up anew.` : `Adding up ${counted(told.planned, "trial")}`}</p>`}
    <${Errors} groups=${errors.told?.groups ?? []} words=${words} run=${run}/>
    ${told && html`<${Warnings} told=${told} run=${run}/>`}
    <${Times} told=${times.told}/>
    <${Nodes} nodes=${times.told?.nodes ?? []}/>
    ${!problem && html`<${TrialMap} run=${run} words=${words}/>`}
    ${!problem && html`<${Said} run=${run} words=${words}/>`}
    ${!problem && html`<${Trials} run=${run} words=${words} variants=${told?.summary?.variants.map((/** @type {any} */ each) => each.variant_id) ?? []}/>`}
    ${told && html`<${Origin} told=${told}/>`}
  </main>`;
}

/** @param {{run: string}} props how the list of runs calls one that can't be read, and what to type */
function Listed({ run }) {
  const listed = useAnswer("runs", { q: run }, run).told?.runs.find((/** @type {any} */ each) => each.key === run);
  return listed?.type_next && html`<p><${State} state=${listed.state}/>: type <${Command} text=${listed.type_next}/></p>`;
}

/** @param {{told: any}} props how far it is, and what to type where it stands still */
function Standing({ told }) {
  const counts = told.status.counts;
  const done = counts.passed + counts.failed + counts.errors;
  if (told.state === "success" && told.summary) return null;
  const crash = told.crash;
  const paused = (told.outages ?? []).find((/** @type {any} */ each) => !each.ended_at);
  return html`<section class="standing">
    <${Progress} counts=${counts} planned=${told.planned}/>
    <p>${told.state === "started"
      ? html`${count(done)} of ${count(told.planned)} done, ${count(counts.running)} under way. ${paused ? html`<b>Paused since ${clock(paused.began_at)} UTC: ${paused.cause} keeps failing; it goes on by itself.</b> ` : ""}<span class="dim">Figures so far: they will move.</span>`
      : told.state === "success"
      ? html`${count(done)} of ${count(told.planned)} done.`
      : crash
        ? html`Its owner died; the last sign of it is from ${clock(crash.last_sign_at)} UTC${crash.has_rebooted ? ", and the machine was started anew since" : ""}. ${counted(crash.committed, "trial")} committed, ${crash.buffered} finished behind them, ${crash.in_flight.length} under way, ${crash.owed} owed. Nothing finished is lost${crash.lost ? html`, but: ${crash.lost}` : ""}. <${Next} told=${told}/>`
        : html`${count(done)} of ${count(told.planned)} done. ${told.status.error?.message ?? ""} <${Next} told=${told}/>`}</p>
  </section>`;
}

/** @param {{told: any}} props what to type where it stands still */
function Next({ told }) {
  return told.type_next && html`To go on, type <${Command} text=${told.type_next}/>`;
}

const LONGEST_NAME = 44;
/** @param {string} text */
const brief = (text) => shorten(text, LONGEST_NAME);

/** @param {any} each @returns {string} what a comparison found, in few words */
export function conclude(each) {
  const [other, baseline] = [brief(each.other), brief(each.baseline)];
  switch (each.conclusion) {
    case "better": return `${other} is better than ${baseline}`;
    case "worse": return `${other} is worse than ${baseline}`;
    case "no difference shown": return `No difference is shown between ${baseline} and ${other}`;
    default: return `${other} against ${baseline}: ${each.conclusion}`;
  }
}

/** @param {any[]} figures @param {any[]} conclusions all against one baseline; of a live run there are none @returns {string} which of several variants is ahead, and whether that is sure */
export function rank(figures, conclusions) {
  const graded = figures.filter((each) => each.observed != null);
  const isLower = figures.some((each) => each.better === "lower");
  const best = graded.filter((each) => graded.every((other) => (isLower ? each.observed <= other.observed : each.observed >= other.observed)));
  if (!graded.length) return "Nothing is graded yet";
  if (best.length > 1) return `${counted(best.length, "variant")} share the best mean, ${figure(best[0].observed)}`;
  const name = brief(best[0].variant_id);
  if (!conclusions.length) return `${name} has the best mean so far, ${figure(best[0].observed)}`;
  const { baseline } = conclusions[0];
  const its = conclusions.find((each) => each.other === best[0].variant_id);
  switch (its?.conclusion) {
    case undefined: return `${name}, the baseline, has the best mean`;
    case "better": return `${name} has the best mean and is better than ${brief(baseline)}`;
    case "no difference shown": return `${name} has the best mean, but no difference from ${brief(baseline)} is shown`;
    default: return `${name} has the best mean; against ${brief(baseline)}: ${its.conclusion}`;
  }
}

/** @param {{conclusions: any[]}} props several comparisons: how many found what, and each in words */
function Several({ conclusions }) {
  const kinds = [...new Set(conclusions.map((each) => each.conclusion))];
  const sums = kinds.map((kind) => `${kind} ${conclusions.filter((each) => each.conclusion === kind).length}`);
  return html`<p class="says">Against ${brief(conclusions[0].baseline)}: ${sums.join(", ")}. Pairs without it are not tested here; <i>compare</i> takes any baseline.</p>
    <details class="says"><summary>each comparison in words</summary>${conclusions.map((each) => html`<p><b>${conclude(each)}.</b> ${each.says}</p>`)}</details>`;
}

/** @param {{told: any}} props */
function Headline({ told }) {
  const variants = told.summary.variants;
  const figures = variants.map((/** @type {any} */ each) => told.summary.ext.figures[each.variant_id]);
  const ends = figures.flatMap((/** @type {any} */ each) => [each.observed, each.interval?.low, each.interval?.high, each.lower, each.upper]).filter((/** @type {any} */ x) => x != null);
  const isRate = figures.every((/** @type {any} */ each) => each.observed == null || (each.observed >= 0 && each.observed <= 1)); // an interval may reach further
  const scale = isRate ? [0, 1] : [Math.min(...ends), Math.max(...ends)];
  const first = told.conclusions[0];
  const one = figures[0];
  const isSeveral = told.conclusions.length > 1;
  const shown = isSeveral ? rank(figures, told.conclusions) : first ? conclude(first) : figures.length > 1 ? rank(figures, []) : one?.observed != null ? `${one.variant_id}: ${one.measure} ${range({ value: one.observed, low: one.interval?.low, high: one.interval?.high })}` : "Nothing is graded yet";
  return html`<section class="headline" aria-labelledby="finding">
    <h2 id="finding" class="finding">${shown}</h2>
    ${isSeveral ? html`<${Several} conclusions=${told.conclusions}/>` : first && html`<p class="says">${first.says}</p>`}
    <div class="scrolls"><table class="variants">
      <thead><tr><th>variant</th><th class="n">${measure(figures)}</th><th class="plot"><span>${figure(scale[0], 1)}</span><span>95% interval${figures.some((/** @type {any} */ f) => f.errors && f.lower != null) ? "; hatched: if errors had ended otherwise" : ""}</span><span>${figure(scale[1], 1)}</span></th>
        ${isSeveral && html`<th title=${first.baseline}>against ${shorten(first.baseline, 24)}</th>`}<th class="n"><${Ending} ending="pass"/></th><th class="n"><${Ending} ending="fail"/></th><th class="n"><${Ending} ending="error"/></th><th class="n"><${Ending} ending="owed"/></th>
        <th class="n">retried</th><th class="n">time, median</th><th class="n">cost</th></tr></thead>
      <tbody>${figures.map((/** @type {any} */ each) => html`<${Variant} each=${each} scale=${scale} against=${isSeveral ? told.conclusions.find((/** @type {any} */ one) => one.other === each.variant_id) ?? "baseline" : null}/>`)}</tbody>
    </table></div>
    <p class="acts">${variants.length > 1 && html`<a href=${to(`/compare?a=${encodeURIComponent(told.key)}`)}>compare variants, task by task</a> `}${!isFile && html`<a href=${`/compare?a=${encodeURIComponent(told.key)}&b=`}>compare with another run</a> <a href=${`/query?run=${encodeURIComponent(told.key)}`}>ask in SQL</a>`}</p>
    ${told.lineage && html`<p class="dim">${told.lineage}.</p>`}
  </section>`;
}

/** @param {number | null} difference */
const signed = (difference) => `${difference != null && difference > 0 ? "+" : ""}${figure(difference)}`;

/** @param {any[]} figures */
function measure(figures) {
  const names = [...new Set(figures.map((each) => each.measure))];
  const lower = figures.some((each) => each.better === "lower");
  return `${names.length === 1 ? names[0] : "mean"}${lower ? ", lower is better" : ""}`;
}

/** @param {{each: any, scale: [number, number], against: any}} props `against`: what its comparison found, where there are several */
function Variant({ each, scale, against }) {
  const interval = each.interval;
  const label = `${each.variant_id}: ${range({ value: each.observed, low: interval?.low, high: interval?.high })}` +
    (each.errors ? `; between ${figure(each.lower)} and ${figure(each.upper)} however errors had ended` : "");
  const zero = (/** @type {number} */ number) => (number ? count(number) : html`<span class="dim">0</span>`);
  return html`<tr>
    <th scope="row" class="name">${each.variant_id}</th>
    <td class="n big">${figure(each.observed)}</td>
    <td class="plot"><${Dot} value=${each.observed} low=${interval?.low} high=${interval?.high} lower=${each.errors ? each.lower : null} upper=${each.errors ? each.upper : null} scale=${scale} label=${label}/></td>
    ${against && html`<td class="against">${against === "baseline" ? html`<span class="dim">baseline</span>` : html`${signed(against.difference)} <small>${against.conclusion}</small>`}</td>`}
    <td class="n" data-name="pass">${zero(each.passed)}</td><td class="n" data-name="fail">${zero(each.failed)}</td><td class="n" data-name="error">${zero(each.errors)}</td><td class="n" data-name="owed">${zero(each.missing)}</td>
    <td class="n" data-name="retried">${zero(each.retried)}</td>
    <td class="n" data-name="time, median">${duration(each.expense.time_s?.median)}</td>
    <td class="n" data-name="cost">${money(each.expense.cost_usd?.total)}</td>
  </tr>`;
}

/** @param {{told: any, run: string}} props */
function Warnings({ told, run }) {
  if (!told.warnings.length) return null;
  return html`<section aria-labelledby="warnings">
    <h2 id="warnings">Beware</h2>
    <ul class="warnings">${told.warnings.map((/** @type {any} */ each) => html`<li>${each.text}${each.trial_id && html` <a href=${link(run, each.trial_id)}>look</a>`}</li>`)}</ul>
  </section>`;
}

/** @param {{told: any}} props when trials ended, and how: verdicts filled, errors hatched and above them; a line for each crash, a band for each outage */
function Times({ told }) {
  if (!told?.steps.length) return null;
  const { steps } = told;
  const most = Math.max(...steps.map((/** @type {number[]} */ step) => step[0] + step[1] + step[2]));
  const wide = 100 / steps.length;
  const draw = (/** @type {number[]} */ step, /** @type {number} */ at) => {
    let below = 0;
    return ["pass", "fail", "error"].map((name, number) => {
      const tall = (100 * step[number]) / most;
      below += tall;
      return tall ? html`<rect x=${`${at * wide}%`} width=${`${wide * 0.84}%`} y=${`${100 - below}%`} height=${`${tall}%`} class=${name} fill=${name === "error" ? "url(#hatch)" : undefined}/>` : null;
    });
  };
  const label = `trials by when they ended, from ${clock(told.began_at)} to ${clock(told.ended_at)} UTC; at most ${most} in a step; ${counted(told.crashes.length, "crash", "crashes")}, ${counted(told.outages.length, "outage")}`;
  return html`<section aria-labelledby="times">
    <h2 id="times">When trials ended <span class="dim">${counted(most, "trial")} in the fullest step${told.crashes.length ? `; lines: ${counted(told.crashes.length, "crash", "crashes")}` : ""}${told.outages.length ? `; bands: paused by ${counted(told.outages.length, "outage")} (${[...new Set(told.outages.map((/** @type {any} */ each) => each.cause))].join(", ")})` : ""}${told.adopted.length ? `; ticks below: ${counted(told.adopted.length, "trial")} adopted after one` : ""}</span></h2>
    <svg class="times" role="img" aria-label=${label}>
      ${told.outages.map((/** @type {any} */ each) => html`<rect x=${`${100 * each.from}%`} width=${`${Math.max(0.3, 100 * (each.to - each.from))}%`} y="0" height="100%" class="outage"/>`)}
      ${steps.map(draw)}
      ${told.crashes.map((/** @type {number} */ share) => html`<line x1=${`${100 * share}%`} x2=${`${100 * share}%`} y1="0" y2="100%" class="crash"/>`)}
      ${told.adopted.map((/** @type {number} */ share) => html`<line x1=${`${100 * share}%`} x2=${`${100 * share}%`} y1="100%" y2="108%" class="adopted"/>`)}</svg>
    <p class="ends"><span>${clock(told.began_at)} UTC</span><span>${clock(told.ended_at, told.began_at)}</span></p>
  </section>`;
}

/** @param {{nodes: any[]}} props which node of a cluster did what, and what each has under way */
function Nodes({ nodes }) {
  const [isWhole, setWhole] = useState(false);
  if (!nodes.length) return null;
  const most = Math.max(1, ...nodes.map((each) => each.ended + each.running));
  return html`<section aria-labelledby="nodes">
    <h2 id="nodes">Where trials ran <span class="dim">${counted(nodes.length, "node")}; each trial by its last attempt</span></h2>
    <div class="scrolls"><table class="nodes">
      <thead><tr><th>node</th><th class="n">under way</th><th class="n">finished</th><th class="n">errors</th><th class="n">time, median</th><th>last ended (UTC)</th></tr></thead>
      <tbody>${(isWhole ? nodes : nodes.slice(0, SHOWN_NODES)).map((each) => html`<tr>
        <th scope="row" class="name">${each.node}<span class="share" style=${{ width: `${(100 * (each.ended + each.running)) / most}%` }}></span></th>
        <td class="n">${each.running ? count(each.running) : html`<span class="dim">0</span>`}</td>
        <td class="n">${count(each.ended)}</td>
        <td class="n">${each.errors ? html`<${Mark} ending="error"/> ${count(each.errors)}` : html`<span class="dim">0</span>`}</td>
        <td class="n">${duration(each.time_s)}</td>
        <td class="dim">${each.last_at ? clock(each.last_at) : ""}</td>
      </tr>`)}</tbody>
    </table></div>
    ${nodes.length > SHOWN_NODES && html`<button onClick=${() => setWhole(!isWhole)}>${isWhole ? "only the busiest" : `all ${nodes.length} nodes`}</button>`}
  </section>`;
}

/** @param {{groups: any[], words: URLSearchParams, run: string}} props */
function Errors({ groups, words, run }) {
  const chosen = `${words.get("cause") ?? ""}\n${words.get("text") ?? ""}`;
  const pick = (/** @type {any} */ group) => {
    const isChosen = chosen === `${group.cause}\n${group.text ?? ""}`;
    put(isChosen ? { cause: null, text: null } : { cause: group.cause, text: group.text, ending: null, q: null });
  };
  const day = groups[0]?.first_at ?? "";
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? groups : groups.slice(0, SHOWN_GROUPS);
  if (!groups.length) return null;
  return html`<section aria-labelledby="errors">
    <h2 id="errors">Errors <span class="dim">missing data, not zeros</span></h2>
    <div class="scrolls"><table class="errors">
      <thead><tr><th class="n">how many</th><th>cause</th><th>what was said</th><th>when (UTC)</th><th>trials</th></tr></thead>
      <tbody>${shown.map((group) => html`<tr class=${chosen === `${group.cause}\n${group.text ?? ""}` ? "chosen" : ""}>
        <td class="n"><${Mark} ending="error"/> ${count(group.count)}</td>
        <td>${group.cause}<small>${group.reason}</small></td>
        <td class="said">${group.text}</td>
        <td class="dim">${clock(group.first_at)}${group.last_at !== group.first_at ? html` to ${clock(group.last_at, day)}` : ""}<${Spark} counts=${group.over_time}/></td>
        <td class="acts"><button onClick=${() => pick(group)}>${chosen === `${group.cause}\n${group.text ?? ""}` ? "show all trials" : "list"}</button> <a href=${link(run, group.trial_id)}>one of them</a></td>
      </tr>`)}</tbody>
    </table></div>
    ${groups.length > SHOWN_GROUPS && html`<button onClick=${() => setWhole(!isWhole)}>${isWhole ? "only the most frequent" : `all ${groups.length} kinds`}</button>`}
  </section>`;
}

/** @param {{counts: number[]}} props how many there were in each step of the run's time */
function Spark({ counts }) {
  if (!counts?.length) return null;
  const most = Math.max(1, ...counts);
  const wide = 100 / counts.length;
  return html`<svg class="spark" role="img" aria-label=${`over the run's time: ${counts.join(", ")}`}>
    ${counts.map((number, at) => number > 0 && html`<rect x=${`${at * wide}%`} width=${`${wide * 0.8}%`} y=${`${100 - (100 * number) / most}%`} height=${`${(100 * number) / most}%`}/>`)}</svg>`;
}

/** @param {{told: any}} props */
function Origin({ told }) {
  const came = told.provenance;
  const rows = [
    ["begun", `${clock(told.created_at)} UTC, ${ago(told.created_at)}`],
    ["by", `${came.user} on ${came.host}`],
    ["command", came.argv.join(" ")],
    came.git && ["git", `${came.git.commit}${came.git.dirty ? ", with changes that are not committed" : ""}`],
    ["made by", `labrunner ${came.labrunner}, Python ${came.python}`],
    told.status.chain && ["digest", told.status.chain],
    ["experiment", told.digests.experiment],
    ["folder", told.run],
  ].filter(Boolean);
  return html`<section aria-labelledby="origin"><h2 id="origin">Where it came from</h2>
    <dl class="facts">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl></section>`;
}
