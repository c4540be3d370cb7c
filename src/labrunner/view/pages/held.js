/**
 * Answers out of the page itself, where it is one file with a run in it: the questions and the answers of
 * `view/web/routes.py`, sorted and chosen as `view/seen/screenful.py` does it.
 */
import { Problem } from "./problem.js";

/** Whether this page is one file with everything in it. */
export const isFile = document.getElementById("part-index") !== null;
/** The run that the file holds. */
export const heldRun = document.getElementById("part-index")?.dataset.run ?? "";

const MOST_PARTS = 8;
/** @type {Map<string, Promise<any>>} */
const known = new Map();

/** @param {string} name @returns {Promise<any>} what a part of the file holds */
function open(name) {
  const found = known.get(name) ?? unpack(name);
  known.delete(name);
  known.set(name, found); // the last one asked for is the last to go
  for (const other of [...known.keys()].filter((each) => each !== "index").slice(0, -MOST_PARTS)) known.delete(other);
  return found;
}

/** @param {string} name */
async function unpack(name) {
  const letters = atob(document.getElementById(`part-${name}`)?.textContent ?? "");
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** @param {string} name @param {Record<string, any>} words @returns {Promise<any>} */
export async function answer(name, words) {
  const index = await open("index");
  const known = QUESTIONS[name];
  if (!known) throw new Problem(404, "This is not in the file; `lab view` has it, where the run is.");
  return known(index, words);
}

/** @type {Record<string, (index: any, words: Record<string, any>) => any>} */
const QUESTIONS = {
  run: (index) => index.run,
  errors: (index) => index.errors,
  times: (index) => index.times,
  runs: (index) => ({ total: 1, offset: 0, states: [], runs: [{ key: index.key }] }),
  compare: (index, words) => index.compare[words.baseline ?? ""] ?? refuse("There is nothing to compare it with in this file."),
  trials: (index, words) => takeTrials(index.board, words),
  map: (index, words) => takeMap(index.board, words),
  search: lookThrough,
  trial: seeTrial,
  folders: async (index, words) => ({ folders: (await left(index, words)).folders }),
  conversation: async (index, words) => ({ offset: 0, entries: (await left(index, words)).said, has_more: false }),
  text: async (index, words) => (await left(index, words)).texts[`${words.attempt} ${words.digest}`] ?? refuse("This file is not in the page."),
};

/** @param {string} text @returns {never} */
function refuse(text) {
  throw new Problem(404, text);
}

/** @param {any} index @param {Record<string, any>} words what the trial left */
async function left(index, words) {
  const slot = find(index.board, words);
  const part = index.board.part[slot];
  return part < 0 ? refuse("This trial is not in the file.") : (await open(String(part)))[slot];
}

/** @param {any} board @param {Record<string, any>} words @returns {number} */
function find(board, words) {
  const slot = words.slot != null && words.slot !== "" ? Number(words.slot) : board.trial_ids.indexOf(words.trial);
  return slot in board.trial_ids ? slot : refuse(`This run has no trial ${words.trial ?? words.slot}.`);
}

/** @param {any} index @param {Record<string, any>} words */
async function seeTrial(index, words) {
  const { board } = index;
  const slot = find(board, words);
  const told = { ...rowOf(board, slot), withdrawn: board.withdrawn[board.trial_ids[slot]] ?? null, beside: beside(board, slot), replications: board.replications };
  if (board.part[slot] < 0) return told;
  const { texts, said, folders, ...rest } = (await open(String(board.part[slot])))[slot];
  const { earlier, ...record } = rest.record;
  return { ...told, ...rest, record_text: JSON.stringify(record, null, 2) };
}

const MOST_FOUND = 20;
const LONGEST_LOOK_MS = 400;
const BEFORE = 60;
const AFTER = 120;

/** @param {any} index @param {Record<string, any>} words as `view/seen/passages.py` does it */
async function lookThrough(index, words) {
  const { board } = index;
  const phrase = String(words.q).trim().toLowerCase();
  const finished = board.part.flatMap((/** @type {number} */ part, /** @type {number} */ slot) => (part < 0 ? [] : [slot]));
  const until = Date.now() + LONGEST_LOOK_MS;
  const hits = [];
  let looked = 0;
  for (const slot of finished.filter((/** @type {number} */ each) => each >= Number(words.from ?? 0))) {
    if (hits.length >= MOST_FOUND || (looked && Date.now() > until)) return { hits, looked, next: slot, finished: finished.length };
    looked += 1;
    const passages = findIn((await open(String(board.part[slot])))[slot], phrase);
    if (passages.length) hits.push({ ...rowOf(board, slot), passages });
  }
  return { hits, looked, next: null, finished: finished.length };
}

/** @param {any} left @param {string} phrase */
function findIn(left, phrase) {
  const quote = (/** @type {string} */ text, /** @type {string} */ where, /** @type {string | null} */ path = null) => {
    const at = text.toLowerCase().indexOf(phrase);
    const end = at + phrase.length;
    return at < 0 ? [] : [{ where, path, before: text.slice(Math.max(0, at - BEFORE), at), match: text.slice(at, end), after: text.slice(end, end + AFTER) }];
  };
  const said = left.said.map((/** @type {any} */ entry) => [entry.text, entry.trouble, ...(entry.calls ?? []).map((/** @type {any} */ call) => `${call.function} ${call.arguments}`)].filter(Boolean).join("\n"));
  const logs = left.files.filter((/** @type {any} */ file) => file.attempt === left.shown_attempt && file.path.startsWith("logs/"));
  const text = (/** @type {any} */ file) => (left.texts[`${file.attempt} ${file.digest}`]?.pieces ?? []).map((/** @type {string[]} */ piece) => piece[1]).join("");
  const write = (/** @type {any} */ value) => (typeof value === "string" ? value : JSON.stringify(value ?? null));
  return [
    ...said.flatMap((/** @type {string} */ each) => quote(each, "conversation")).slice(0, 1),
    ...logs.flatMap((/** @type {any} */ file) => quote(text(file), "terminal", file.path)),
    ...left.record.predictions.flatMap((/** @type {any} */ row) => quote(write(row.prediction.value), "answer")).slice(-1),
  ];
}

/** @param {any} board @param {number} slot */
function beside(board, slot) {
  const grid = gridOf(board);
  const other = (/** @type {number} */ variant, /** @type {number} */ repl) => {
    const found = grid[board.task[slot]][variant % board.variants.length][repl % board.replications];
    return found === slot ? null : board.trial_ids[found];
  };
  return {
    previous: board.trial_ids[slot - 1] ?? null,
    next: board.trial_ids[slot + 1] ?? null,
    replication: other(board.variant[slot], board.repl[slot] + 1),
    variant: other(board.variant[slot] + 1, board.repl[slot]),
  };
}

/** @param {any} board @returns {number[][][]} slots by task, variant and replication */
function gridOf(board) {
  if (!board.grid) {
    board.grid = board.tasks.map(() => board.variants.map(() => []));
    board.task.forEach((/** @type {number} */ task, /** @type {number} */ slot) => { board.grid[task][board.variant[slot]][board.repl[slot]] = slot; });
  }
  return board.grid;
}

/** @param {any} board @param {number} slot */
function rowOf(board, slot) {
  const told = {
    slot, trial_id: board.trial_ids[slot], task: board.tasks[board.task[slot]], variant: board.variants[board.variant[slot]],
    repl: board.repl[slot], ending: board.endings[board.standing[slot]],
  };
  if (!board.has_row[slot]) return told;
  const { cause, reason, text, ended_by, flags } = board.sayings[board.said[slot]];
  return {
    ...told, value: board.value[slot], cause, reason, text, ended_by, flags, attempts: board.attempts[slot],
    time_s: board.time_s[slot], tokens: board.tokens[slot], cost_usd: board.cost_usd[slot],
  };
}

/** @param {any} one @param {any} other @returns {number} what is not there comes first */
const compare = (one, other) => (one === other ? 0 : one === null ? -1 : other === null ? 1 : one < other ? -1 : 1);

/** @param {number[]} places @param {(place: number) => any} key @param {any} isDown */
function order(places, key, isDown) {
  const keys = new Map(places.map((place) => [place, key(place)]));
  return places.sort((one, other) => (isDown ? -1 : 1) * compare(keys.get(one), keys.get(other)));
}

/** @type {Record<string, (row: any) => any>} */
const TRIAL_KEYS = {
  slot: (row) => row.slot, task: (row) => row.task, variant: (row) => row.variant, repl: (row) => row.repl, ending: (row) => row.ending,
  value: (row) => row.value ?? null, attempts: (row) => row.attempts ?? null, time: (row) => row.time_s ?? null, tokens: (row) => row.tokens ?? null, cost: (row) => row.cost_usd ?? null,
};

/** @param {any} board @param {Record<string, any>} asked */
function takeTrials(board, asked) {
  const key = TRIAL_KEYS[asked.sort || "slot"] ?? refuse(`There is no ${asked.sort} to sort by.`);
  const words = (asked.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = board.trial_ids.map((/** @type {string} */ _, /** @type {number} */ slot) => slot).filter((/** @type {number} */ slot) => fits(rowOf(board, slot), asked, words));
  order(found, (slot) => key(rowOf(board, slot)), asked.down);
  const offset = Number(asked.offset ?? 0);
  return { total: found.length, planned: board.trial_ids.length, offset, rows: found.slice(offset, offset + Number(asked.limit)).map((/** @type {number} */ slot) => rowOf(board, slot)) };
}

/** @param {any} row @param {Record<string, any>} asked @param {string[]} words */
function fits(row, asked, words) {
  for (const name of ["ending", "variant", "cause", "text"]) if (asked[name] && row[name] !== asked[name]) return false;
  if (!words.length) return true;
  const texts = [row.task, row.variant, row.ending, row.cause, row.reason, row.text, row.ended_by, ...(row.flags ?? [])].filter(Boolean).map((text) => text.toLowerCase());
  return words.every((word) => texts.some((text) => text.includes(word)));
}

const PASS = 1;
const FAIL = 2;
const ERROR = 3;

/** @param {any} board @param {number} slot @returns {number} how much of it passed */
function strength(board, slot) {
  const value = board.value[slot];
  if (board.outcome[slot] === PASS) return 1;
  return board.outcome[slot] === FAIL && value > 0 && value < 1 ? Math.round(value * 1000) / 1000 : 0;
}

/** @param {any} board @param {number} slot */
const isGraded = (board, slot) => board.standing[slot] === PASS || board.standing[slot] === FAIL;

/** @param {number[]} figures */
const mean = (figures) => figures.reduce((sum, each) => sum + each, 0) / figures.length;
/** @param {number} figure */
const round = (figure) => Number(figure.toFixed(12));

/** @param {any} board @param {number[][]} cells @param {(marks: number[]) => number} figure @returns {number[]} of the cells with verdicts */
function perCell(board, cells, figure) {
  return cells.map((cell) => cell.filter((slot) => isGraded(board, slot)).map((slot) => strength(board, slot))).filter((marks) => marks.length).map(figure);
}

/** @param {(board: any, slot: number) => number} figure @returns {(board: any, cells: number[][]) => number} */
const sum = (figure) => (board, cells) => round(cells.flat().reduce((total, slot) => total + figure(board, slot), 0));
/** @param {number[]} marks */
const variance = (marks) => mean(marks.map((each) => (each - mean(marks)) ** 2));

/** @type {Record<string, (board: any, cells: number[][], task: number) => any>} */
const TASK_KEYS = {
  order: (board, cells, task) => task,
  name: (board, cells, task) => board.tasks[task],
  mean: (board, cells) => { const means = perCell(board, cells, mean); return means.length ? round(mean(means)) : -1; },
  difference: (board, cells) => { const means = perCell(board, cells, mean); return means.length ? round(Math.max(...means) - Math.min(...means)) : -1; },
  variance: (board, cells) => { const found = perCell(board, cells, variance); return found.length ? round(mean(found)) : -1; },
  errors: sum((board, slot) => Number(board.outcome[slot] === ERROR)),
  cost: sum((board, slot) => board.cost_usd[slot] ?? 0),
  time: sum((board, slot) => board.time_s[slot] ?? 0),
};

/** @param {any} board @param {Record<string, any>} asked */
function takeMap(board, asked) {
  const key = TASK_KEYS[asked.sort || "order"] ?? refuse(`There is no ${asked.sort} to sort by.`);
  const grid = gridOf(board);
  const tasks = order(board.tasks.map((/** @type {string} */ _, /** @type {number} */ task) => task), (task) => key(board, grid[task], task), asked.down);
  const offset = Number(asked.offset ?? 0);
  const mark = (/** @type {number} */ slot) => (isGraded(board, slot) ? strength(board, slot) : board.endings[board.standing[slot]][0]);
  return {
    total: tasks.length, offset, variants: board.variants, replications: board.replications,
    longest: Math.max(0, ...board.tasks.map((/** @type {string} */ name) => [...name].length)),
    tasks: tasks.slice(offset, offset + Number(asked.limit)).map((task) => ({ task: board.tasks[task], cells: grid[task].map((cell) => cell.map(mark)), slots: grid[task] })),
  };
}
