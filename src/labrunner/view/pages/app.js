/** Finds the page that the address means. */
import { html, render } from "./dom.js";
import { catchLinks, useAddress } from "./address.js";
import { beginListening } from "./asking.js";
import { heldRun, isFile } from "./held.js";
import { Compare } from "./compare.js";
import { Help, beginKeys } from "./keys.js";
import { Patterns } from "./pieces.js";
import { Query } from "./query.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";
import { Trial } from "./trial.js";

function App() {
  const { path, words } = useAddress();
  const [kind, run, part, which] = path;
  const page = kind === "query"
    ? html`<${Query} words=${words}/>`
    : kind === "compare"
    ? html`<${Compare} words=${words}/>`
    : kind !== "run"
    ? isFile ? html`<${Run} run=${heldRun} words=${words}/>` : html`<${Runs} words=${words}/>`
    : part === "trial" || part === "slot"
      ? html`<${Trial} run=${run} trial=${part === "trial" ? which : null} slot=${part === "slot" ? which : null} words=${words}/>`
      : html`<${Run} run=${run} words=${words} key=${run}/>`;
  return html`<${Patterns}/>${page}<${Help}/>`;
}

catchLinks();
beginKeys();
beginListening();
render(html`<${App}/>`, /** @type {Element} */ (document.getElementById("app")));
