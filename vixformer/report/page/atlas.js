// The page of the atlas: page.js has the table and its filter.

const COSTS = { inference: "Inference time", step: "Time of a training step", memory: "Memory of a training step" };
const cells = JSON.parse(byId("atlas").textContent);
const chosen = { cell: cells.indexOf(cells.toSorted((a, b) => decided(b) - decided(a))[0]), machine: null, wanted: "inference", cost: "inference", hidden: new Set() };
const fixed = (value, digits = 2) => (value === null || value === undefined ? "" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const signed = (value) => `${value < 0 ? "\u2212" : "+"}${fixed(Math.abs(value))}`;
const range = (ends, show) => (ends ? ` (${ends.map(show).join(" to ")})` : "");

function decided(cell) { return cell.rows.filter((row) => row.verdict === "shown").length; }

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// --- what is shown: rows with the cost that was chosen

function costOf(costs, memory) {
  if (chosen.cost === "memory") return memory && { ratio: memory[0], ends: memory[1] };
  const cost = costs[chosen.machine];
  return cost && { ratio: cost[`${chosen.cost}_ratio`], ends: cost[`${chosen.cost}_interval`], ms: cost[`${chosen.cost}_ms`], batch: cost.batch, setting: cost.setting };
}

function shownRows() {
  const cell = cells[chosen.cell];
  const exact = { exact: true, attention: "softmax", name: "exact", points: 0, top1: cell.exact.top1, verdict: "", records: cell.exact.records, mechanisms: [],
    cost: { ...costOf(cell.exact.costs, [1, null]), ratio: 1, ends: null } };
  const others = cell.rows.map((row) => {
    const cost = costOf(row.costs, row.memory_ratio === null ? null : [row.memory_ratio, row.memory_interval]);
    return { ...row, cost, near: Boolean(cost?.setting && cost.setting !== row.setting) };
  });
  return [exact, ...others.filter((row) => row.mechanisms.some((name) => !chosen.hidden.has(name)))];
}

const difference = (row) => (row.exact ? "0" : signed(row.points) + range([row.low, row.high], signed));
const ratio = (row) => (row.cost ? `${fixed(row.cost.ratio)}${range(row.cost.ends, (end) => fixed(end))}` : "");
const measured = (row) => (row.near ? `nearest: ${row.cost.setting}` : row.cost ? "this model" : "not measured");

function tableRows(rows) {
  const cell = (value, show = value) => ({ value: value ?? null, show: show ?? "" });
  return rows.map((row) => ({ exact: row.exact, row, cells: [
    cell(row.attention), cell(row.points, difference(row)), cell(row.verdict), cell(row.cost?.ratio, ratio(row)), cell(row.cost?.ms, fixed(row.cost?.ms)),
    cell(row.top1, fixed(row.top1, 1)), cell(row.seeds, `${row.seeds ?? ""}`), cell(measured(row)), cell(row.name), cell(row.records.join(" ")),
  ] }));
}

function columns() {
  const of = COSTS[chosen.cost].toLowerCase();
  return [
    ["layout", "attention of the layers", true], ["minus exact", "points of test top-1, with the 95 % interval"], ["verdict", "on the difference", true],
    ["x exact", `${of} relative to exact attention, with its 95 % interval`], ["ms", `${of}, of a batch`], ["top-1 %", "mean over seeds"], ["seeds", "number of random seeds"],
    ["cost of", "the model whose cost was measured", true], ["recipe", "name in its family", true, false], ["records", "ids in docs/results/records", true, false],
  ].map(([name, about, text = false, main = true]) => ({ name, about, text, main }));
}

// --- the chart

function front(points) {
  return points.filter((one) => !points.some((other) => other !== one && other.cost.ratio <= one.cost.ratio && other.points >= one.points
    && (other.cost.ratio < one.cost.ratio || other.points > one.points))).toSorted((a, b) => a.cost.ratio - b.cost.ratio);
}

// The ends of an axis: all points, their intervals as far as they do not push the points together, and at least `least`.
function ends(points, value, interval, least) {
  const values = points.map(value), [low, high] = [Math.min(...values), Math.max(...values)], room = Math.max(high - low, least) * 0.6;
  const all = points.flatMap((point) => interval(point) ?? []);
  return [Math.max(Math.min(...all, low), low - room) - 0.06 * room, Math.min(Math.max(...all, high), high + room) + 0.06 * room].map((end, i) => (i ? Math.max(end, low + least) : end));
}

function ticks(wanted, at, gap) {
  const found = [];
  for (const value of wanted) if (found.every((other) => Math.abs(at(other) - at(value)) >= gap)) found.push(value);
  return found;
}

const RATIOS = [1, 2, 0.5, 4, 0.25, 1.5, 0.7, 3, 0.3, 0.8, 1.2, 0.9, 1.1, 0.6, 0.4, 0.2, 0.1, 10, 5, 1.3, 1.4, 1.7, 0.95, 1.05];

function drawChart(rows) {
  const points = rows.filter((row) => row.cost), on = front(points), holder = byId("chart"), width = holder.clientWidth;
  const height = Math.max(340, Math.min(480, 0.6 * width)), left = 46, right = 10, top = 10, bottom = 46;
  const wide = ends(points, (p) => Math.log(p.cost.ratio), (p) => p.cost.ends?.map(Math.log), 0.5), high = ends(points, (p) => p.points, (p) => (p.exact ? null : [p.low, p.high]), 5);
  const x = (value) => left + (Math.log(value) - wide[0]) / (wide[1] - wide[0]) * (width - left - right), y = (value) => top + (high[1] - value) / (high[1] - high[0]) * (height - top - bottom);
  const chart = svg("svg", { width, height, class: "atlas", role: "group", "aria-label": `Accuracy against ${COSTS[chosen.cost].toLowerCase()}, of ${points.length} attentions. The table below has the same rows.` });
  chart.append(svg("clipPath", { id: "inside" }, svg("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom })));
  const add = (tag, attributes, ...children) => chart.append(svg(tag, { "aria-hidden": true, ...attributes }, ...children));
  const step = [0.5, 1, 2, 5, 10, 20].find((size) => (high[1] - high[0]) / size <= 8) ?? 50;
  for (let value = Math.ceil(high[0] / step) * step; value <= high[1]; value += step) {
    add("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: value === 0 ? "zero" : "grid" });
    add("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value === 0 ? "0" : `${value < 0 ? "\u2212" : "+"}${Math.abs(value)}`);
  }
  const inside = RATIOS.filter((value) => Math.log(value) >= wide[0] && Math.log(value) <= wide[1]);
  for (const value of ticks(inside, x, 56)) {
    add("line", { x1: x(value), x2: x(value), y1: top, y2: height - bottom, class: value === 1 ? "zero" : "grid" });
    add("text", { x: x(value), y: height - bottom + 16, "text-anchor": "middle" }, `${value}×`);
  }
  add("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle", class: "title" }, `${COSTS[chosen.cost].toLowerCase()}, relative to exact attention`);
  add("text", { transform: `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "title" }, "points of top-1, minus exact");
  add("polyline", { points: on.map((p) => `${x(p.cost.ratio)},${y(p.points)}`).join(" "), class: "front" });
  for (const p of points) {
    const kind = { class: `reach ${on.includes(p) ? "best" : ""}`, "clip-path": "url(#inside)" };
    if (!p.exact) add("line", { x1: x(p.cost.ratio), x2: x(p.cost.ratio), y1: y(p.low), y2: y(p.high), ...kind });
    if (p.cost.ends) add("line", { x1: x(p.cost.ends[0]), x2: x(p.cost.ends[1]), y1: y(p.points), y2: y(p.points), ...kind });
  }
  const taken = points.map((p) => [x(p.cost.ratio) - 6, y(p.points) - 6, x(p.cost.ratio) + 6, y(p.points) + 6]);
  const spots = points.toSorted((a, b) => a.cost.ratio - b.cost.ratio).map((p, i) => {
    const at = [x(p.cost.ratio), y(p.points)], shape = p.exact ? svg("path", { d: "M0-8 8 0 0 8-8 0Z" }) : svg("circle", { r: 5.5 });
    const spot = svg("g", { transform: `translate(${at})`, tabindex: i ? -1 : 0, role: "img", "aria-label": told(p, on).filter(([key]) => key !== "trained" && key !== "records").map((pair) => pair.join(": ")).join("; "),
      class: `spot ${p.exact ? "exact" : on.includes(p) ? "best" : ""} ${p.near ? "near" : ""}` }, svg("circle", { r: 13, class: "touch" }), shape);
    spot.onpointerenter = spot.onfocus = () => tell(spot, told(p, on));
    spot.onpointerleave = spot.onblur = hush;
    spot.onclick = () => spot.focus({ preventScroll: true });
    spot.onkeydown = (event) => {
      const next = spots[i + { ArrowRight: 1, ArrowLeft: -1 }[event.key]];
      if (event.key === "Escape") hush();
      if (next) { event.preventDefault(); next.focus(); }
    };
    return spot;
  });
  chart.append(...spots);
  for (const p of new Set([...on, ...points.filter((q) => q.exact || points.length <= 12)])) label(p, chart, taken, [x(p.cost.ratio), y(p.points)], [left, top, width - right, height - bottom]);
  holder.replaceChildren(chart);
}

// Between the lines of its intervals, or nowhere.
function label(p, chart, taken, [x, y], frame) {
  const text = p.exact ? "exact" : p.attention.length < 26 ? p.attention : p.name, long = 6.7 * text.length;
  for (const [dx, dy, anchor] of [[8, -7, "start"], [-8, -7, "end"], [8, 15, "start"], [-8, 15, "end"]]) {
    const start = x + dx - (anchor === "end" ? long : 0), box = [start, y + dy - 11, start + long, y + dy + 3];
    if (box[0] < frame[0] || box[1] < frame[1] || box[2] > frame[2] || box[3] > frame[3]) continue;
    if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    chart.append(svg("text", { x: x + dx, y: y + dy, "text-anchor": anchor, class: "name", "aria-hidden": true }, text));
    return;
  }
}

function told(p, on) {
  const cell = cells[chosen.cell], what = COSTS[chosen.cost];
  return [
    [p.exact ? "exact attention" : "attention", p.attention],
    ...(p.exact ? [] : [["minus exact", `${difference(p)} points, ${p.method}`], ["verdict", p.verdict], ["seeds", `${p.seeds}`]]),
    ["top-1", `${fixed(p.top1, 1)} %`], ["trained", cell.training],
    [what, `${ratio(p)} × exact${p.cost.ms ? `, ${fixed(p.cost.ms)} ms a batch of ${p.cost.batch}` : ""}`],
    ...(p.near ? [["nearest", `this time is of ${p.cost.setting}/*, with the same attention, tokens and sizes`]] : []),
    ...(on.includes(p) ? [["Pareto front", "no other is both cheaper and more accurate, by the means"]] : []),
    ["records", p.records.join(" ")],
  ];
}

const tip = make("div", { id: "vg-tooltip-element", attributes: { "aria-hidden": true } });  // as in the charts of reports
document.body.append(tip);
function tell(spot, pairs) {
  tip.replaceChildren(make("table", {}, make("tbody", {}, ...pairs.map(([key, value]) => make("tr", {}, make("td", { className: "key", textContent: key }), make("td", { className: "value", textContent: value }))))));
  const at = spot.getBoundingClientRect(), size = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(at.left + 30, document.documentElement.clientWidth - size.width - 8))}px`;
  tip.style.top = `${at.bottom + size.height + 8 < window.innerHeight ? at.bottom + 4 : Math.max(8, at.top - size.height - 4)}px`;
  tip.classList.add("visible");
}
function hush() { tip.classList.remove("visible"); }

// --- the page

function pick(text, choices, now, onchange) {
  const select = make("select", {}, ...choices.map(([value, shown]) => make("option", { value, textContent: shown, selected: value === now })));
  select.onchange = () => onchange(select.value);
  return make("label", {}, `${text} `, select);
}

function field(type, legend, entries) {
  return make("fieldset", { className: "axes" }, make("legend", { className: "quiet", textContent: legend }), ...entries.map(([text, checked, onchange]) => {
    const input = make("input", { type, name: legend, checked, value: text });
    input.onchange = () => onchange(input.checked);
    return make("label", {}, input, text);
  }));
}

// The machine with the most times of a cell's own models, before others that have times of like ones.
function machinesOf(cell) {
  const own = {};
  for (const row of cell.rows) for (const cost of Object.values(row.costs)) own[cost.machine] = (own[cost.machine] ?? 0) + (cost.setting === row.setting ? 1 : 0);
  if (!own[chosen.machine]) chosen.machine = Object.keys(own).toSorted((a, b) => own[b] - own[a])[0] ?? null;
  return Object.keys(own);
}

function controls() {
  const cell = cells[chosen.cell], machines = machinesOf(cell), names = [...new Set(cell.rows.flatMap((row) => row.mechanisms))].toSorted();
  const index = (one) => `${cells.indexOf(one)}`, places = cells.filter((one, i) => cells.findIndex((other) => other.place === one.place) === i);
  const goto = (value) => { chosen.cell = Number(value); chosen.hidden.clear(); };
  const has = { inference: machines.length, step: machines.length, memory: cell.rows.some((row) => row.memory_ratio !== null) };
  const costs = Object.keys(COSTS).filter((cost) => has[cost]);
  chosen.cost = costs.includes(chosen.wanted) ? chosen.wanted : costs[0] ?? "inference";
  byId("controls").replaceChildren(
    make("div", { className: "tools" },
      pick("Data", places.map((one) => [index(one), one.place]), index(places.find((one) => one.place === cell.place)), (value) => { goto(value); update("label:nth-child(1) select"); }),
      pick("Trained", cells.filter((one) => one.place === cell.place).map((one) => [index(one), one.training]), index(cell), (value) => { goto(value); update("label:nth-child(2) select"); }),
      ...(machines.length && chosen.cost !== "memory" ? [pick("Machine", machines.map((one) => [one, one]), chosen.machine, (value) => { chosen.machine = value; show(); })] : [])),
    field("radio", "Accuracy against", costs.map((cost) => [COSTS[cost], cost === chosen.cost, () => { chosen.wanted = cost; update(`[value="${COSTS[cost]}"]`); }])),
    ...(names.length > 1 ? [field("checkbox", "Mechanisms", names.map((one) => [one, !chosen.hidden.has(one), (on) => { chosen.hidden[on ? "delete" : "add"](one); show(); }]))] : []));
}

function update(focus) {
  controls();
  show();
  if (focus) byId("controls").querySelector(focus).focus({ preventScroll: true });
}

function show() {
  report = { rows: tableRows(shownRows()), columns: columns(), data: {} };
  byId("table-here").replaceChildren(tableCard());
  redraw();
}

function redraw() {
  const rows = rowsShown().map((line) => line.row), exact = report.rows[0].row, shown = rows.includes(exact) ? rows : [exact, ...rows];
  hush();
  drawChart(shown);
  const others = shown.filter((row) => !row.exact), without = others.filter((row) => !row.cost).length, near = others.filter((row) => row.near).length;
  byId("says").textContent = [
    `Exact attention is the diamond: ${fixed(exact.top1, 1)} % top-1. Lines are 95 % intervals, cut at the frame. The dashed line is the Pareto front of the means: no other attention is both cheaper and more accurate.`,
    chosen.cost === "memory" ? "Memory is of the same runs as accuracy." : "Times were measured after training, in turn with exact attention.",
    near ? `Hollow points (${near} of ${others.length}) have the nearest time that there is: that of a model with the same attention, tokens and sizes that was trained in another way.` : "",
    without ? `Not measured, and so only in the table: ${without} of ${others.length} attentions.` : "",
  ].filter(Boolean).join(" ");
}

document.title = byId("title").textContent = "The atlas: accuracy against cost";
byId("lead").textContent = "Choose data, tokens and a machine to see what each attention gains or loses beside exact attention. Models are small and trainings are short.";
byId("state").hidden = document.querySelector("nav").hidden = true;
byId("foot").textContent = "Made by vix report --atlas, from the records in docs/results/records.";
view.sorted = "minus exact";
byId("content").append(
  section("Accuracy and cost", make("figure", {}, make("div", { id: "controls" }), make("div", { id: "chart" }), make("figcaption", { id: "says", attributes: { role: "status" } }))),
  section("Attentions", make("div", { id: "table-here" })));
byId("table-here").addEventListener("input", redraw);
window.addEventListener("resize", redraw);
window.addEventListener("scroll", hush, { passive: true });
update();
