/** Small pictures that every page uses: a mark for each ending, a dot with its interval, states, trouble. */
import { html } from "./dom.js";
import { link } from "./address.js";
import { isFile } from "./held.js";
import { figure } from "./words.js";

/** What each ending is called. A verdict's mark is filled as much as it passed; an error is hatched, never red. */
export const ENDINGS = {
  pass: "pass", fail: "fail", error: "error", running: "running", owed: "owed", withdrawn: "not to be used",
};

/** The pattern that errors are drawn with; once a page. */
export const Patterns = () => html`<svg width="0" height="0" aria-hidden="true" class="hidden"><defs>
  <pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
    <rect width="1.6" height="4" class="hatch-line"/>
  </pattern>
</defs></svg>`;

/** @param {{ending: string, strength?: number}} props */
export function Mark({ ending, strength = 0 }) {
  const share = ending === "pass" ? 1 : ending === "fail" ? strength : 0;
  return html`<svg class=${`mark ${ending}`} viewBox="0 0 12 12" aria-hidden="true">
    ${ending === "owed"
      ? html`<circle cx="6" cy="6" r="1.5" class="dot"/>`
      : ending === "running"
        ? html`<circle cx="6" cy="6" r="4" class="ring"/>`
        : html`<rect x="1" y="1" width="10" height="10" rx="2" class="frame" fill=${ending === "error" ? "url(#hatch)" : "none"}/>`}
    ${share > 0 && html`<rect x="1" y=${11 - 10 * share} width="10" height=${10 * share} rx="2" class="fill"/>`}
    ${ending === "withdrawn" && html`<path d="M2 10 10 2" class="strike"/>`}
  </svg>`;
}

/** @param {{ending: string, value?: number | null}} props a mark with its word */
export function Ending({ ending, value }) {
  const strength = ending === "fail" && value && value > 0 && value < 1 ? value : 0;
  return html`<span class="ending"><${Mark} ending=${ending} strength=${strength}/>${ENDINGS[ending] ?? ending}</span>`;
}

/**
 * A mean with its interval on a scale; where errors leave it open, how far they could move it.
 * @param {{value: number | null, low?: number | null, high?: number | null, lower?: number | null, upper?: number | null,
 *   scale?: [number, number], zero?: number | null, label: string, small?: boolean}} props
 */
export function Dot({ value, low, high, lower, upper, scale = [0, 1], zero = null, label, small = false }) {
  const [from, to] = scale;
  const share = (/** @type {number} */ each) => 2 + (96 * (Math.min(to, Math.max(from, each)) - from)) / (to - from || 1);
  const x = (/** @type {number} */ each) => `${share(each)}%`;
  const isOpen = lower != null && upper != null && upper - lower > 0.0005;
  return html`<svg class=${small ? "dotplot small" : "dotplot"} role="img" aria-label=${label}>
    <line x1="2%" x2="98%" y1="50%" y2="50%" class="scale"/>
    ${zero !== null && html`<line x1=${x(zero)} x2=${x(zero)} y1="10%" y2="90%" class="zero"/>`}
    ${isOpen && html`<rect x=${x(lower)} width=${`${Math.max(0.5, share(upper) - share(lower))}%`} y="25%" height="50%" fill="url(#hatch)"/>`}
    ${low != null && high != null && html`<line x1=${x(low)} x2=${x(high)} y1="50%" y2="50%" class="interval"/>`}
    ${value != null && html`<circle cx=${x(value)} cy="50%" r=${small ? 3.5 : 5} class="mean"/>`}
  </svg>`;
}

/** @param {{value: number | null, low?: number | null, high?: number | null}} figures */
export function range({ value, low, high }) {
  return low == null || high == null ? figure(value) : `${figure(value)} (${figure(low)} to ${figure(high)})`;
}

const STATES = { running: "running", success: "finished", crashed: "crashed", error: "stopped by an error", cancelled: "stopped", unreadable: "can't be read", started: "running", damaged: "damaged", foreign: "of another version" };

/** @param {{state: string}} props */
export const State = ({ state }) => html`<span class=${`state ${state === "started" ? "running" : state}`}>${STATES[state] ?? state}</span>`;

/**
 * How far a run is: verdicts filled, errors hatched, the rest open.
 * @param {{counts: any, planned: number}} props
 */
export function Progress({ counts, planned }) {
  if (!counts || !planned) return null;
  const parts = [["pass", counts.passed], ["fail", counts.failed], ["error", counts.errors]];
  const done = counts.passed + counts.failed + counts.errors;
  let at = 0;
  const label = `${done} of ${planned} done: ${counts.passed} passed, ${counts.failed} failed, ${counts.errors} errors`;
  return html`<svg class="progress" role="img" aria-label=${label}>
    <rect x="0" y="0" width="100%" height="100%" class="owed"/>
    ${parts.map(([name, number]) => {
      const wide = (100 * number) / planned;
      const part = html`<rect x=${`${at}%`} y="0" width=${`${wide}%`} height="100%" class=${name} fill=${name === "error" ? "url(#hatch)" : undefined}/>`;
      at += wide;
      return number ? part : null;
    })}
  </svg>`;
}

/** @param {{problem: any}} props */
export function Trouble({ problem }) {
  if (!problem) return null;
  return html`<div class="trouble" role="alert"><strong>${problem.status === 409 ? "This run's files can't be read as they are." : "No answer."}</strong>
    <pre>${problem.message}</pre></div>`;
}

const TAIL = 8;

/** @param {{text: string}} props a name in one line: what has no room is left out before its end, where names of one kind differ */
export function Clip({ text }) {
  const letters = [...text];
  if (letters.length <= 2 * TAIL) return text;
  return html`<span class="clip">${letters.slice(0, -TAIL).join("")}</span>${letters.slice(-TAIL).join("")}`;
}

/** @param {{text: string}} props something to type, that a click copies */
export function Command({ text }) {
  const copy = () => navigator.clipboard?.writeText(text);
  return html`<code class="command" onClick=${copy} title="copy">${text}</code>`;
}

/** @param {{run?: string | null}} props the way back up */
export function Way({ run }) {
  if (isFile && !run) return null;
  return html`<nav aria-label="where">${!isFile && html`<a href="/">Runs</a>`} ${run && html`<a href=${link(run)}>${run}</a>`}</nav>`;
}
