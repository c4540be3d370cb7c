// Runs the page's script over the smallest document that it needs, and prints what a reader would see.
"use strict";
const fs = require("fs");
const text = fs.readFileSync(process.argv[2], "utf8");
const data = /<script type="application\/json" id="data">([\s\S]*?)<\/script>/.exec(text)[1];
const script = /<script>([\s\S]*?)<\/script>/.exec(text)[1];
let markup = 0;

class Element {
  constructor(tag) { this.tag = tag; this.children = []; this.attributes = {}; this.listeners = {}; this.hidden = false; }
  append(...children) { this.children.push(...children); }
  set innerHTML(value) { markup += 1; }
  addEventListener(name, act) { this.listeners[name] = act; }
  setAttribute(name, value) { this.attributes[name] = value; }
  removeAttribute(name) { delete this.attributes[name]; }
}
const columns = JSON.parse(data).columns;
const heads = columns.map(() => new Element("th"));
const table = new Element("table");
table.tHead = { rows: [{ cells: heads }] };
table.tBodies = [new Element("tbody")];
table.tBodies[0].replaceWith = function (body) { table.tBodies[0] = body; body.replaceWith = this.replaceWith; };
const elements = { data: { textContent: data }, trials: table, filter: new Element("input"), note: new Element("span"), more: new Element("button") };
elements.filter.value = "";
global.document = { getElementById: (id) => elements[id], createElement: (tag) => new Element(tag) };
eval(script);

const column = (name) => table.tBodies[0].children.map((row) => row.children[columns.indexOf(name)].textContent);
const told = { all: elements.note.textContent };
heads[columns.indexOf("task")].listeners.click();
told.ascending = column("task");
heads[columns.indexOf("task")].listeners.click();
told.descending = column("task");
elements.filter.value = "ERROR base";
elements.filter.listeners.input();
told.filtered = elements.note.textContent;
told.markup = markup;
console.log(JSON.stringify(told));
