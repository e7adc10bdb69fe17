"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
function html(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}
function scaled(value, units) {
  let position = 0;
  while (value >= 999.5 && position + 1 < units.length) { value /= 1000; position += 1; }
  return (position === 0 ? value.toFixed(0) : value.toPrecision(3)) + " " + units[position];
}
const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"]);
const count = (value) => scaled(value, ["", "k", "M", "G", "T"]).trim();
const short = (text, length) => text.length > length ? text.slice(0, length - 1) + "…" : text;

// The graph.
let graph = data.graphs[0];
let view = { x: 0, y: 0, scale: 1 };
let boxes = [];
let paths = [];
const svg = document.querySelector("#graph svg");

function kindOf(node) {
  if (node.op === "parameter" || node.op === "constant") return "value";
  if (node.op === "fusion") return "fusion";
  if (node.op === "while" || node.op === "conditional") return "control";
  return node.cost ? "library" : "value";
}
function drawGraph() {
  $("edges").replaceChildren();
  $("nodes").replaceChildren();
  paths = graph.edges.map((edge) => {
    const from = graph.nodes[edge.from], to = graph.nodes[edge.to];
    const x1 = from.x + from.w / 2, y1 = from.y + from.h, x2 = to.x + to.w / 2, y2 = to.y;
    const bend = Math.max(20, (y2 - y1) / 2);
    const path = make("path", { d: `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` });
    const why = [...new Set(edge.why.map((entry) => entry.reason))];
    path.append(make("title", {}, [`${from.name} → ${to.name}: ${bytes(edge.bytes)}`, ...why].join("\n")));
    $("edges").append(path);
    return path;
  });
  boxes = graph.nodes.map((node, number) => {
    const box = make("g", { class: `box ${kindOf(node)}${node.root ? " root" : ""}`, transform: `translate(${node.x},${node.y})` });
    box.append(make("rect", { width: node.w, height: node.h }));
    const letters = Math.floor((node.w - 12) / 6.7);
    const line = (text, y, name) => box.append(make("text", { x: 6, y, class: name || "" }, short(text, letters)));
    line(`${node.name}${node.op === "fusion" || kindOf(node) === "value" ? "" : "  " + node.op}`, 14, "head");
    line(node.shape, 28, "soft");
    if (node.cost) line(`${bytes(node.cost.bytes)}  ${count(node.cost.flops)} flops`, 42, "soft");
    node.members.slice(0, 8).forEach((member, place) => line(`${member.op}  ${member.name}`, 60 + 14 * place));
    if (node.members.length > 8) line(`… ${node.members.length - 8} more`, 60 + 14 * 8, "soft");
    box.append(make("title", {}, `${node.name} ${node.shape}\n${node.source || node.op_name || ""}`));
    box.addEventListener("click", () => choose(number));
    box.addEventListener("dblclick", () => enter(node));
    $("nodes").append(box);
    return box;
  });
  fit();
}
function enter(node) {
  const inner = data.graphs.findIndex((other) => other.name.startsWith(node.name + ": "));
  if (inner >= 0) showComputation(inner);
}
function showComputation(number) {
  graph = data.graphs[number];
  $("computation").value = String(number);
  drawGraph();
  describeProgram();
  search();
}
function apply() {
  $("world").setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
}
function fit() {
  const width = Math.max(1, ...graph.nodes.map((node) => node.x + node.w));
  const size = svg.getBoundingClientRect();
  view.scale = Math.min(1, Math.max(0.35, size.width / (width + 40)));
  view.x = (size.width - width * view.scale) / 2;
  view.y = 16;
  apply();
}
function center(number) {
  const node = graph.nodes[number];
  const size = svg.getBoundingClientRect();
  view.scale = Math.max(view.scale, 0.8);
  view.x = size.width / 2 - (node.x + node.w / 2) * view.scale;
  view.y = size.height / 2 - (node.y + node.h / 2) * view.scale;
  apply();
}
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const size = svg.getBoundingClientRect();
  const factor = Math.exp(-event.deltaY / 400);
  const x = event.clientX - size.left, y = event.clientY - size.top;
  view.x = x - (x - view.x) * factor;
  view.y = y - (y - view.y) * factor;
  view.scale *= factor;
  apply();
}, { passive: false });
let drag = null;
svg.addEventListener("pointerdown", (event) => { drag = { x: event.clientX - view.x, y: event.clientY - view.y }; });
addEventListener("pointermove", (event) => {
  if (!drag) return;
  view.x = event.clientX - drag.x;
  view.y = event.clientY - drag.y;
  apply();
});
addEventListener("pointerup", () => { drag = null; });

// What is known of a box.
function link(number) {
  const a = html("a", graph.nodes[number].name);
  a.addEventListener("click", () => { choose(number); center(number); });
  return a;
}
function choose(number) {
  const node = graph.nodes[number];
  const details = $("details");
  details.replaceChildren(html("h2", node.name));
  details.append(html("p", `${node.op} ${node.shape}`));
  if (node.op_name) details.append(html("p", node.op_name));
  if (node.source) details.append(html("p", node.source));
  if (node.cost) {
    const { bytes: moved, flops, functions } = node.cost;
    details.append(html("p", `${bytes(moved)} moved, ${count(flops)} flops, ${count(functions)} functions, ${(flops / Math.max(1, moved)).toFixed(2)} flops a byte`));
  }
  if (data.graphs.some((other) => other.name.startsWith(node.name + ": "))) {
    const inside = html("a", "show what is inside");
    inside.addEventListener("click", () => enter(node));
    details.append(inside);
  }
  const edges = (title, side, other) => {
    const list = html("ul");
    graph.edges.filter((edge) => edge[side] === number).forEach((edge) => {
      const item = html("li");
      item.append(link(edge[other]), ` ${bytes(edge.bytes)}`);
      edge.why.forEach((entry) => item.append(html("p", `${entry.from} → ${entry.to}: ${entry.reason}`, "why")));
      list.append(item);
    });
    if (list.children.length) details.append(html("h3", title), list);
  };
  edges("Reads (why not fused)", "to", "from");
  edges("Read by (why not fused)", "from", "to");
  const held = data.memory.lifetimes.filter((lifetime) => lifetime.names.includes(node.name));
  if (held.length) {
    const list = html("ul");
    held.forEach((lifetime) => list.append(html("li", `${bytes(lifetime.size)} at ${lifetime.offset}, alive ${lifetime.start}–${lifetime.end}`)));
    details.append(html("h3", "In the arena"), list);
  }
  if (node.members.length) {
    const list = html("ul");
    node.members.forEach((member) => {
      const item = html("li", `${member.op} ${member.name} ${member.shape}`);
      if (member.source) item.append(html("p", member.source, "why"));
      list.append(item);
    });
    details.append(html("h3", "Computed in it"), list);
  }
  boxes.forEach((box, other) => box.classList.toggle("chosen", other === number));
  paths.forEach((path, place) => {
    const edge = graph.edges[place];
    path.classList.toggle("chosen", edge.from === number || edge.to === number);
  });
}
function describeProgram() {
  const details = $("details");
  details.replaceChildren(html("h2", graph.name));
  details.append(html("p", "Each box is a kernel; boxes of fusions list what is computed in them. Click a box for its operands, "
    + "why they are not fused, its memory and its source. Drag to move, wheel to zoom, double click a loop to see inside."));
  const legend = html("ul");
  [["fusion", "a fusion: one loop nest"], ["library", "another kernel: contraction, library call"],
    ["control", "a loop or branch"], ["value", "a parameter or constant, or no code"]]
    .forEach(([kind, text]) => legend.append(html("li", `${graph.nodes.filter((node) => kindOf(node) === kind).length} × ${text}`)));
  details.append(legend);
}

// Search.
function matches(words, ...texts) {
  const text = texts.filter(Boolean).join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}
function search() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = [];
  graph.nodes.forEach((node, number) => {
    const inner = node.members.map((member) => `${member.op} ${member.name} ${member.source || ""}`).join(" ");
    const hit = words.length > 0 && matches(words, node.name, node.op, node.shape, node.op_name, node.source, inner);
    if (hit) hits.push(number);
    boxes[number].classList.toggle("hit", hit);
    boxes[number].classList.toggle("faded", words.length > 0 && !hit);
  });
  document.querySelectorAll("#kernels tr, #memory tr").forEach((row) => {
    if (row.dataset.text) row.classList.toggle("hit", words.length > 0 && matches(words, row.dataset.text));
  });
  $("found").textContent = words.length ? `${hits.length} found` : "";
  return hits;
}
let next = 0;
$("search").addEventListener("input", () => { next = 0; search(); });
$("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const hits = search();
  if (hits.length) {
    const number = hits[next % hits.length];
    next += 1;
    choose(number);
    center(number);
  }
});

// Tables.
function table(element, columns, rows) {
  let order = null;
  const draw = () => {
    element.replaceChildren();
    const head = html("tr");
    columns.forEach((column, place) => {
      const cell = html("th", column.title, column.number ? "number" : "");
      cell.addEventListener("click", () => { order = { place, down: !(order && order.place === place && order.down) }; draw(); search(); });
      head.append(cell);
    });
    element.append(head);
    const sorted = [...rows];
    if (order) {
      const key = columns[order.place].key;
      sorted.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (order.down ? -1 : 1));
    }
    sorted.forEach((row) => {
      const line = html("tr");
      line.dataset.text = columns.map((column) => String(column.key(row))).join(" ").toLowerCase();
      columns.forEach((column) => line.append(html("td", (column.show || column.key)(row), column.number ? "number" : "")));
      element.append(line);
    });
  };
  draw();
}
const kernels = data.graphs.flatMap((other) => other.nodes.filter((node) => node.cost).map((node) => ({ ...node, in: other.name })));
kernels.sort((a, b) => b.cost.bytes - a.cost.bytes);
table(document.querySelector("#kernels table"), [
  { title: "kernel", key: (row) => row.name },
  { title: "what", key: (row) => row.what || row.op },
  { title: "shape", key: (row) => row.shape, show: (row) => short(row.shape, 60) },
  { title: "bytes", number: true, key: (row) => row.cost.bytes, show: (row) => bytes(row.cost.bytes) },
  { title: "flops", number: true, key: (row) => row.cost.flops, show: (row) => count(row.cost.flops) },
  { title: "functions", number: true, key: (row) => row.cost.functions, show: (row) => count(row.cost.functions) },
  { title: "in", key: (row) => row.in },
  { title: "source", key: (row) => row.source || row.op_name || "" },
], kernels);

function drawMemory() {
  const { memory } = data;
  const area = document.querySelector("#memory svg");
  const size = area.getBoundingClientRect();
  area.replaceChildren();
  const steps = Math.max(1, memory.positions.length), height = Math.max(1, memory.arena);
  const x = (position) => position / steps * size.width, y = (offset) => size.height - offset / height * size.height;
  memory.lifetimes.forEach((lifetime, number) => {
    const rect = make("rect", {
      x: x(lifetime.start), width: Math.max(1, x(lifetime.end + 1) - x(lifetime.start)),
      y: y(lifetime.offset + lifetime.size), height: Math.max(.5, lifetime.size / height * size.height),
      fill: `hsl(${number * 47 % 360} 55% 62%)`,
    });
    rect.append(make("title", {}, `${lifetime.names.join(" … ")} ${lifetime.shape}\n${bytes(lifetime.size)} at ${lifetime.offset}, alive ${lifetime.start}–${lifetime.end}\n${lifetime.origin || ""}`));
    area.append(rect);
  });
  const [position, peak] = memory.peak;
  area.append(make("path", { d: `M${x(position + .5)} 0V${size.height}`, class: "chosen" }));
  const [arguments_, results, constants] = memory.outside.map(bytes);
  $("peak").textContent = `arguments ${arguments_}, results ${results}, constants ${constants}, arena ${bytes(memory.arena)}; `
    + `peak ${bytes(peak)} at ${memory.positions[position] || "the start"} (blue line). `
    + "Across: instructions in the order of execution; up: places in the arena.";
}
table(document.querySelector("#memory table"), [
  { title: "array", key: (row) => row.names.join(" … ") },
  { title: "shape", key: (row) => row.shape },
  { title: "bytes", number: true, key: (row) => row.size, show: (row) => bytes(row.size) },
  { title: "offset", number: true, key: (row) => row.offset },
  { title: "from", number: true, key: (row) => row.start },
  { title: "to", number: true, key: (row) => row.end },
  { title: "at the peak", key: (row) => row.start <= data.memory.peak[0] && data.memory.peak[0] <= row.end ? "yes" : "" },
  { title: "source", key: (row) => row.origin || "" },
], [...data.memory.lifetimes].sort((a, b) => b.size - a.size));

function show(name) {
  document.querySelectorAll("nav button").forEach((button) => button.classList.toggle("on", button.dataset.view === name));
  document.querySelectorAll("main section").forEach((section) => { section.hidden = section.id !== name; });
  if (name === "memory") drawMemory();
}
document.querySelectorAll("nav button").forEach((button) => button.addEventListener("click", () => show(button.dataset.view)));

$("title").textContent = data.name;
$("summary").textContent = `${data.kernels} kernels, ${bytes(data.cost.bytes)} moved, ${count(data.cost.flops)} flops (loops once), arena ${bytes(data.memory.arena)}`;
data.graphs.forEach((other, number) => {
  const option = html("option", other.name);
  option.value = String(number);
  $("computation").append(option);
});
$("computation").hidden = data.graphs.length === 1;
$("computation").addEventListener("change", (event) => showComputation(Number(event.target.value)));
drawGraph();
describeProgram();
// #graph?search=dot opens the page with a search, #kernels and #memory another view.
const [place, query] = decodeURIComponent(location.hash.slice(1)).split("?search=");
if (["graph", "kernels", "memory"].includes(place)) show(place);
if (query) { $("search").value = query; const hits = search(); if (hits.length) { choose(hits[0]); center(hits[0]); } }
