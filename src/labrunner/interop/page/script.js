"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.getElementById("trials");
  const filter = document.getElementById("filter");
  const note = document.getElementById("note");
  const more = document.getElementById("more");
  const PAGE = 200;
  let rows = data.rows, shown = PAGE, sorted = null, descending = false;

  const compare = (a, b) => {
    if (a === b) return 0;
    if (a === null) return 1;
    if (b === null) return -1;
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  };
  const isUsed = data.columns.map((_, column) => data.rows.some((row) => row[column] !== null));
  const cell = (value, column) => {
    const td = document.createElement("td");
    td.hidden = !isUsed[column];
    td.textContent = value === null ? "" : typeof value === "number" && !Number.isInteger(value)
      ? value.toPrecision(4) : String(value);
    if (typeof value === "number") td.className = "number";
    td.dataset.head = data.columns[column];
    if (data.columns[column] === "ending") td.className = value;
    if (["message", "reason"].includes(data.columns[column])) td.className = "prose";
    if (["variant", "task", "flags", "trial"].includes(data.columns[column])) td.className = "name";
    return td;
  };
  const draw = () => {
    const body = document.createElement("tbody");
    for (const row of rows.slice(0, shown)) {
      const tr = document.createElement("tr");
      tr.append(...row.map(cell));
      body.append(tr);
    }
    table.tBodies[0].replaceWith(body);
    const count = (number) => number.toLocaleString("en");
    note.textContent = `${count(rows.length)} of ${count(data.rows.length)} trials` +
      (rows.length > shown ? `, the first ${count(shown)} shown` : "");
    more.hidden = rows.length <= shown;
  };
  const update = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows = data.rows.filter((row) => {
      const text = row.join("\u0000").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (sorted !== null) {
      const sign = descending ? -1 : 1;
      rows = rows.slice().sort((a, b) => {
        const x = a[sorted], y = b[sorted];
        return x === null || y === null ? compare(x, y) : sign * compare(x, y);
      });
    }
    draw();
  };
  [...table.tHead.rows[0].cells].forEach((th, column) => {
    th.hidden = !isUsed[column];
    const sort = () => {
      descending = sorted === column && !descending;
      sorted = column;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", descending ? "descending" : "ascending");
      shown = PAGE;
      update();
    };
    th.addEventListener("click", sort);
    th.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
  });
  filter.addEventListener("input", () => { shown = PAGE; update(); });
  more.addEventListener("click", () => { shown += 5 * PAGE; draw(); });
  update();
})();
