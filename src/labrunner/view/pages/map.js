/**
 * The map: tasks down, variants across, a cell is its replications.
 * Drawn on a canvas that is as large as the screen, however many tasks there are; pages of it are asked for.
 */
import { html, useEffect, useLayoutEffect, useRef, useState } from "./dom.js";
import { go, put, slotLink } from "./address.js";
import { useAnswer, ask } from "./asking.js";
import { Ending, Mark } from "./pieces.js";
import { counted, figure } from "./words.js";

const PAGE = 100;
const ROW = 18;
const HEAD = 26;
const GAP = 3;
const BETWEEN = 28;
const SORTS = { order: "as listed", difference: "difference between variants", variance: "variance", mean: "mean", errors: "errors", cost: "cost", time: "time", name: "name" };

/** @param {number | string} mark @returns {string} in words */
function say(mark) {
  if (mark === 1) return "pass";
  if (mark === 0) return "fail";
  if (typeof mark === "number") return `fail, ${figure(mark)}`;
  return { e: "error", r: "running", o: "owed", w: "not to be used" }[mark] ?? mark;
}

/** @param {Element} canvas @returns {Record<string, string>} the page's colours */
function colours(canvas) {
  const style = getComputedStyle(canvas);
  const names = ["ink", "dim", "line", "accent", "frame", "paper"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** @param {CanvasRenderingContext2D} pen @param {number | string} mark @param {number} x @param {number} y @param {number} side @param {Record<string, string>} c @param {boolean} isBright */
function drawMark(pen, mark, x, y, side, c, isBright) {
  const round = Math.min(2, side / 4);
  pen.lineWidth = 1;
  if (mark === "o") {
    pen.fillStyle = c.frame;
    pen.beginPath();
    pen.arc(x + side / 2, y + side / 2, 1.2, 0, 7);
    pen.fill();
    return;
  }
  if (mark === "r") {
    pen.strokeStyle = c.accent;
    pen.globalAlpha = isBright ? 1 : 0.35;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x + side / 2, y + side / 2, side / 2 - 1.5, 0, 7);
    pen.stroke();
    pen.globalAlpha = 1;
    return;
  }
  pen.strokeStyle = c.frame;
  pen.beginPath();
  pen.roundRect(x + 0.5, y + 0.5, side - 1, side - 1, round);
  pen.stroke();
  if (mark === "e") {
    pen.save();
    pen.clip();
    pen.strokeStyle = c.dim;
    pen.beginPath();
    for (let at = -side; at < side; at += 3.5) {
      pen.moveTo(x + at, y + side);
      pen.lineTo(x + at + side, y);
    }
    pen.stroke();
    pen.restore();
  } else if (mark === "w") {
    pen.beginPath();
    pen.moveTo(x + 1, y + side - 1);
    pen.lineTo(x + side - 1, y + 1);
    pen.stroke();
  } else if (Number(mark) > 0) {
    const tall = Math.max(2, side * Number(mark));
    pen.fillStyle = c.accent;
    pen.beginPath();
    pen.roundRect(x, y + side - tall, side, tall, round);
    pen.fill();
  }
}

/**
 * Pages of the map that are on the screen.
 * @param {string} run @param {Record<string, unknown>} asked @param {any} first the first page, kept up to date
 */
function usePages(run, asked, first) {
  const [pages, setPages] = useState(/** @type {Record<number, any>} */ ({}));
  const under = useRef(new Set());
  const key = JSON.stringify(asked);
  useEffect(() => { setPages({}); under.current.clear(); }, [key, first]);
  const want = (/** @type {number} */ number) => {
    if (number === 0 || pages[number] || under.current.has(number)) return;
    under.current.add(number);
    ask("map", { run, ...asked, offset: number * PAGE, limit: PAGE }).then(
      (told) => setPages((before) => ({ ...before, [number]: told.tasks })),
      () => under.current.delete(number),
    );
  };
  const get = (/** @type {number} */ task) => {
    const number = Math.floor(task / PAGE);
    want(number);
    return (number === 0 ? first?.tasks : pages[number])?.[task - number * PAGE];
  };
  return { get, pages };
}

/** @param {{run: string, words: URLSearchParams}} props */
export function TrialMap({ run, words }) {
  const sort = words.get("map") ?? "order";
  const isDown = sort !== "order" && sort !== "name" && words.get("mapup") !== "1";
  const asked = { sort, down: isDown ? 1 : null };
  const { told } = useAnswer("map", { run, ...asked, offset: 0, limit: PAGE }, run);
  const { get, pages } = usePages(run, asked, told);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [top, setTop] = useState(0);
  const [wide, setWide] = useState(900);
  const [at, setAt] = useState(/** @type {{task: number, variant: number, repl: number} | null} */ (null));
  const [beat, setBeat] = useState(0);
  const [theme, setTheme] = useState(0);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setWide(element.clientWidth));
    watch.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const turn = () => setTheme((before) => before + 1);
    scheme.addEventListener("change", turn);
    return () => { watch.disconnect(); scheme.removeEventListener("change", turn); };
  }, [told !== null]);

  const variants = told?.variants ?? [];
  const replications = told?.replications ?? 1;
  const total = told?.total ?? 0;
  const label = Math.min(7.2 * (told?.longest ?? 0) + 24, Math.min(300, Math.max(90, wide * (wide < 500 ? 0.4 : 0.28))));
  const room = (wide - label - BETWEEN * variants.length) / Math.max(1, variants.length * replications);
  const side = Math.max(5, Math.min(12, Math.floor(room - GAP)));
  const marks = replications * (side + GAP) + BETWEEN;
  const name = Math.min(220, 7.5 * Math.max(0, ...variants.map((/** @type {string} */ each) => each.length)) + BETWEEN);
  const cell = Math.max(marks, Math.min(name, (wide - label) / Math.max(1, variants.length)));
  const needs = label + cell * variants.length;
  const tall = Math.min(total * ROW + HEAD, Math.max(220, innerHeight * 0.6));
  const isLive = told?.tasks.some((/** @type {any} */ task) => task.cells.some((/** @type {any} */ each) => each.includes("r")));

  useEffect(() => {
    if (!isLive || matchMedia("(prefers-reduced-motion: reduce)").matches) return undefined;
    const timer = setInterval(() => setBeat((before) => before + 1), 700);
    return () => clearInterval(timer);
  }, [isLive]);

  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || !told) return;
    const width = Math.max(wide, needs);
    const ratio = devicePixelRatio || 1;
    element.width = width * ratio;
    element.height = tall * ratio;
    const pen = element.getContext("2d");
    if (!pen) return;
    pen.scale(ratio, ratio);
    const c = colours(element);
    const font = getComputedStyle(document.body).fontFamily;
    pen.font = `12px ${font}`;
    pen.textBaseline = "middle";
    const firstRow = Math.floor(top / ROW);
    for (let row = firstRow; row <= firstRow + Math.ceil(tall / ROW) && row < total; row += 1) {
      const y = HEAD + row * ROW - top;
      const task = get(row);
      pen.fillStyle = at?.task === row ? c.ink : c.dim;
      pen.fillText(clip(pen, task?.task ?? "…", label - 16), 0, y + ROW / 2);
      (task?.cells ?? []).forEach((/** @type {any[]} */ marks, /** @type {number} */ variant) => {
        marks.forEach((mark, repl) => {
          const x = label + variant * cell + repl * (side + GAP);
          drawMark(pen, mark, x, y + (ROW - side) / 2, side, c, beat % 2 === 0);
          if (at && at.task === row && at.variant === variant && at.repl === repl) {
            pen.strokeStyle = c.ink;
            pen.lineWidth = 1.5;
            pen.strokeRect(x - 2, y + (ROW - side) / 2 - 2, side + 4, side + 4);
          }
        });
      });
    }
    pen.clearRect(0, 0, width, HEAD);
    pen.fillStyle = c.ink;
    pen.font = `600 12px ${font}`;
    variants.forEach((/** @type {string} */ name, /** @type {number} */ number) => {
      pen.fillText(clip(pen, name, cell - 10), label + number * cell, HEAD / 2);
    });
  });

  if (!told || !total) return null;
  const found = at && get(at.task);
  const spoken = at && found ? `${found.task} · ${variants[at.variant]} · replication ${at.repl + 1}: ${say(found.cells[at.variant][at.repl])}` : "";
  const open = (/** @type {any} */ where) => {
    const slot = where && get(where.task)?.slots[where.variant][where.repl];
    if (slot !== undefined && slot !== null) go(slotLink(run, slot));
  };
  const locate = (/** @type {MouseEvent} */ event) => {
    const area = canvas.current?.getBoundingClientRect();
    if (!area) return null;
    const x = event.clientX - area.left - label;
    const task = Math.floor((event.clientY - area.top - HEAD + top) / ROW);
    const variant = Math.floor(x / cell);
    const repl = Math.floor((x - variant * cell) / (side + GAP));
    const isThere = event.clientY - area.top > HEAD && x >= 0 && variant < variants.length && repl < replications && task < total;
    return isThere ? { task, variant, repl } : null;
  };
  const move = (/** @type {KeyboardEvent} */ event) => {
    const now = at ?? { task: 0, variant: 0, repl: 0 };
    const across = now.variant * replications + now.repl;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Enter") { open(at); return; }
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const task = Math.min(total - 1, Math.max(0, at ? now.task + step[0] : 0));
    const place = Math.min(variants.length * replications - 1, Math.max(0, at ? across + step[1] : 0));
    setAt({ task, variant: Math.floor(place / replications), repl: place % replications });
    const y = task * ROW;
    if (box.current && (y < top || y > top + tall - HEAD - ROW)) box.current.scrollTop = Math.max(0, y - tall / 2);
  };
  return html`<section aria-labelledby="map">
    <div class="bar">
      <h2 id="map">Map <span class="dim">${counted(total, "task")}, ${counted(variants.length, "variant")}${replications > 1 ? `, ${replications} replications` : ""}</span></h2>
      <span class="legend"><${Ending} ending="pass"/><span class="ending"><${Mark} ending="fail" strength=${0.5}/>partly</span><${Ending} ending="fail"/><${Ending} ending="error"/>${isLive && html`<${Ending} ending="running"/>`}<${Ending} ending="owed"/></span>
      <label class="choice">sorted by <select value=${sort} onChange=${(/** @type {any} */ e) => { put({ map: e.target.value === "order" ? null : e.target.value, mapup: null }); if (box.current) box.current.scrollTop = 0; }}>
        ${Object.entries(SORTS).map(([name, text]) => html`<option value=${name}>${text}</option>`)}</select></label>
      ${sort !== "order" && sort !== "name" && html`<button onClick=${() => put({ mapup: isDown ? 1 : null })}>${isDown ? "largest first" : "smallest first"}</button>`}
    </div>
    <div class="map" ref=${box} onScroll=${(/** @type {any} */ e) => setTop(e.target.scrollTop)} style=${{ height: `${tall + 1}px` }}>
      <div style=${{ height: `${total * ROW + HEAD}px`, width: needs > wide ? `${needs}px` : "auto" }}>
        <canvas ref=${canvas} tabindex="0" role="application" aria-label=${`map of ${counted(total, "task")} and ${counted(variants.length, "variant")}; arrows move, Enter opens a trial`}
          style=${{ width: `${Math.max(wide, needs)}px`, height: `${tall}px`, cursor: at ? "pointer" : "default" }}
          onMouseMove=${(/** @type {MouseEvent} */ e) => setAt(locate(e))} onMouseLeave=${() => setAt(null)}
          onClick=${(/** @type {MouseEvent} */ e) => open(locate(e))} onKeyDown=${move}></canvas>
      </div>
    </div>
    <p class="dim spoken" aria-live="polite">${spoken || " "}</p>
  </section>`;
}

/** @param {CanvasRenderingContext2D} pen @param {string} text @param {number} room */
function clip(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const end = text.length > 16 ? text.slice(-8) : "";
  let cut = text.slice(0, Math.min(80, text.length - end.length));
  while (cut.length > 1 && pen.measureText(`${cut}…${end}`).width > room) cut = cut.slice(0, -1);
  return `${cut}…${end}`;
}
