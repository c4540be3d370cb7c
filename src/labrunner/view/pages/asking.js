/**
 * What pages ask the server, and how they learn that it would answer something else now.
 * The stream says only what has changed; it is open while the page is seen.
 */
import { useEffect, useState } from "./dom.js";
import { answer, isFile } from "./held.js";
import { Problem } from "./problem.js";

/**
 * Ask one question.
 * @param {string} name @param {Record<string, unknown>} words @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(name, words, signal) {
  if (isFile) return answer(name, words);
  const { reply, text } = await reach(`/api/${name}?${query(words)}`, signal);
  if (reply.headers.get("content-type")?.startsWith("application/json")) {
    const told = JSON.parse(text);
    if (reply.ok) return told;
    throw new Problem(reply.status, told.problem);
  }
  throw new Problem(reply.status, text);
}

const TRIES = 3;
const BETWEEN_MS = 300;
const AWAY_MS = 3000;

/**
 * Ask more than once where nobody answers: browsers cut every connection when this machine's networks change,
 * as they do whenever a container comes or goes.
 * @param {string} url @param {AbortSignal} [signal]
 */
async function reach(url, signal) {
  for (let tries = 1; ; tries += 1) {
    try {
      const reply = await fetch(url, { signal });
      return { reply, text: await reply.text() };
    } catch (error) {
      if (signal?.aborted || tries === TRIES) throw error;
      await new Promise((go) => { setTimeout(go, BETWEEN_MS); });
    }
  }
}

/** @param {Record<string, unknown>} words @returns {string} */
export function query(words) {
  const given = Object.entries(words).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
}

/** @type {Set<(runs: string[]) => void>} */
const listeners = new Set();
/** @type {EventSource | null} */
let stream = null;

function listen() {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else if (!stream) {
    stream = new EventSource("/api/changes");
    stream.addEventListener("changed", (event) => tell(JSON.parse(event.data).runs));
    stream.addEventListener("error", () => {
      if (stream?.readyState !== EventSource.CLOSED) return; // it tries again by itself
      stream = null;
      setTimeout(listen, AWAY_MS);
    });
  }
}

/** @param {string[]} runs */
function tell(runs) {
  for (const listener of listeners) listener(runs);
}

/** Begin to listen; a page that was hidden asks anew when it is seen again. */
export function beginListening() {
  if (isFile) return;
  listen();
  document.addEventListener("visibilitychange", () => {
    const wasClosed = stream === null;
    listen();
    if (wasClosed && stream) tell(["*"]);
  });
}

const PAUSE_MS = 2000;
const SOON_MS = 250;

/**
 * An answer that stays up to date: asked anew when words change, and when the run does: soon, but of a run that
 * changes all the time only every other second.
 * @param {string | null} name nothing is asked where it is null
 * @param {Record<string, unknown>} words
 * @param {string | null} run whose changes matter; null for those of all
 * @returns {{told: any, problem: Problem | null, isAsking: boolean}}
 */
export function useAnswer(name, words, run) {
  const key = `${name}?${query(words)}`;
  const [state, setState] = useState({ key: "", told: null, problem: null, isAsking: true });
  useEffect(() => {
    if (name === null) return undefined;
    const stop = new AbortController();
    let timer = 0;
    let isBusy = false;
    let isDue = false;
    let askedAt = 0;
    const get = async () => {
      isBusy = true;
      askedAt = Date.now();
      try {
        const told = await ask(name, words, stop.signal);
        setState({ key, told, problem: null, isAsking: false });
      } catch (error) {
        if (stop.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, "the server does not answer; is `lab view` still running?");
        setState((before) => ({ key, told: before.key === key ? before.told : null, problem, isAsking: false }));
        if (!problem.status) askAgain();
      }
      isBusy = false;
      if (isDue) later();
    };
    const askAgain = () => { timer ||= setTimeout(() => { timer = 0; get(); }, AWAY_MS); };
    const later = () => {
      isDue = isBusy;
      if (isBusy || timer) return;
      timer = setTimeout(() => { timer = 0; get(); }, Math.max(SOON_MS, askedAt + PAUSE_MS - Date.now()));
    };
    const hear = (/** @type {string[]} */ runs) => {
      if (run === null || runs.includes(run) || runs.includes("*")) later();
    };
    setState((before) => ({ ...before, isAsking: true }));
    listeners.add(hear);
    get();
    return () => {
      listeners.delete(hear);
      clearTimeout(timer);
      stop.abort();
    };
  }, [key, run]);
  return state;
}
