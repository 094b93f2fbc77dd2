const byId = (id) => document.getElementById(id);
let report = null;
const view = { protocol: null, axis: null, sorted: "top-1 %", up: false, filter: "", wide: false, classModel: null, open: new Set() };

function make(tag, options = {}, ...children) {
  const { attributes, ...rest } = options;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// --- charts

const drawn = new Map();
async function draw(holder, figure) {
  const room = holder.parentElement.clientWidth;
  if (!room) return;  // folded: drawn when it is opened
  try {
    const told = structuredClone({ ...figure.spec, description: `${figure.title}. ${figure.says}` });
    const legend = { ...report.config.legend, columns: Math.max(1, Math.floor((room - 40) / (7 * figure.letters + 40))) };
    if (figure.places) {
      const place = figure.places.findLast((one) => one.width <= room - 70) ?? figure.places[0];
      Object.assign(told, { width: place.width, height: place.height });
      told.data.values.forEach((row, i) => { [row.lx, row.ly, row.led, row.align] = place.rows[i]; });
    } else if (told.facet) {
      const panels = new Set(told.data.values.map((row) => row[told.facet.field])).size;
      told.columns = Math.max(1, Math.min(panels === 4 ? 2 : panels, 3, Math.floor(room / 300)));
      told.spec.width = Math.max(180, Math.min(520, room / told.columns - 62));
    } else if (figure.name.startsWith("confusion")) {
      told.width = told.height = Math.max(200, Math.min(told.width, room - 110));
    } else {
      told.width = Math.max(180, Math.min(640, room - 140));
    }
    drawn.get(holder)?.finalize();
    holder.textContent = "";
    // An interpreter of expressions, and style.css instead of styles that scripts add: a strict Content-Security-Policy allows no others.
    drawn.set(holder, await window.vegaEmbed(holder, told, { renderer: "svg", actions: false, config: { ...report.config, legend }, ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } }));
  } catch (problem) {
    holder.replaceChildren(make("p", { className: "error", textContent: `This chart could not be drawn: ${problem.message}` }));
    console.error(problem);
  }
}

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;  // a phone's address bar
  width = window.innerWidth;
  for (const [holder, figure] of shown) if (holder.isConnected) draw(holder, figure);
});

const shown = new Map();
function chart(figure) {
  const holder = make("div", { className: "chart scroll", id: `chart-${figure.name}`, tabIndex: 0, attributes: { role: "group", "aria-label": figure.title } });
  const inside = make("div");  // vega-embed gives this one its own style
  holder.append(inside);
  shown.set(inside, figure);
  requestAnimationFrame(() => draw(inside, figure));  // once it has a width
  return holder;
}

function card(kind, title, options, ...children) {
  const id = `title-${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}`;
  return make(kind, { ...options, attributes: { "aria-labelledby": id } }, make("h3", { id, textContent: title }), ...children);
}

function caption(item) { return make("figcaption", {}, `${item.says} `, make("code", { textContent: item.name, title: "The name of its file" })); }

// Cards that have not changed stay in the page, with what was picked and typed in them.
const kept = new Map();
function keep(name, content, build) {
  const key = JSON.stringify(content);
  if (kept.get(name)?.key !== key) kept.set(name, { key, card: build() });
  return kept.get(name).card;
}

function chartCard(figure) {
  return keep(`figure ${figure.name}`, figure, () => card("figure", figure.title, { className: figure.spec.facet ? "wide" : "" }, chart(figure), caption(figure)));
}

function pictureCard(picture) {
  return card("figure", picture.title, { className: "picture" }, make("img", { src: picture.uri, alt: `${picture.title}. ${picture.says}` }), caption(picture));
}

// --- the answer

function choose(protocol) {
  view.protocol = protocol;
  render(report);
  byId("section-answer").scrollIntoView({ block: "start" });
}

function interval(found) {
  const reach = 1.15 * Math.max(Math.abs(found.low), Math.abs(found.high), 2 * found.margin);
  const at = (value) => `${(50 + 50 * value / reach).toFixed(2)}%`;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const add = (tag, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    svg.append(element);
  };
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Difference to ${found.other}, ${found.says} points; 0 is no difference, and the margin is ${found.margin} points`);
  svg.setAttribute("class", "interval");
  add("rect", { x: at(-found.margin), width: `${(100 * found.margin / reach).toFixed(2)}%`, y: 4, height: 26, class: "margin" });
  add("line", { x1: "50%", x2: "50%", y1: 4, y2: 30, class: "zero" });
  add("line", { x1: at(found.low), x2: at(found.high), y1: 17, y2: 17, class: "reach" });
  add("circle", { cx: at(found.mean), cy: 17, r: 6 });
  const better = (name, otherwise) => `${name.length < 25 ? name : otherwise} is better`;
  add("text", { x: "0", y: 46 }, better(found.other, "the other"));
  add("text", { x: "50%", y: 46, "text-anchor": "middle" }, "0");
  add("text", { x: "100%", y: 46, "text-anchor": "end" }, better(found.model, "this model"));
  return svg;
}

function answerCard(found) {
  const facts = Object.entries(found.facts).flatMap(([name, text]) => [make("dt", { textContent: name }), make("dd", { textContent: text })]);
  const verdict = found.verdict ? [make("span", { className: `verdict ${found.verdict.replace(" ", "-")}`, textContent: found.verdict })] : [];
  return make("div", { className: "card answer" },
    make("p", { className: "headline" }, ...verdict, found.headline),
    ...(found.why ? [make("p", { className: "why", textContent: found.why })] : []),
    ...(found.difference ? [interval({ ...found.difference, model: found.model, other: found.other })] : []),
    make("dl", {}, ...facts, ...(found.command ? [make("dt", { textContent: "To run it, with the options of these runs" }), make("dd", {}, make("code", { textContent: found.command }))] : [])));
}

function allAnswers() {
  const judged = report.conclusions.some((found) => found.verdict);
  const rows = report.conclusions.map((found) => {
    const button = make("button", { type: "button", className: "link", textContent: found.protocol });
    button.onclick = () => choose(found.protocol);
    return make("tr", { className: found.protocol === view.protocol ? "chosen" : "" },
      make("td", { className: "text" }, button),
      ...(judged ? [make("td", { className: "text" }, found.verdict ? make("span", { className: `verdict ${found.verdict.replace(" ", "-")}`, textContent: found.verdict }) : "")] : []),
      make("td", { className: "text", textContent: found.headline }));
  });
  const head = make("tr", {}, ...["Trained on", ...(judged ? ["Verdict"] : []), "Answer"].map((name) => make("th", { scope: "col", className: "text plain", textContent: name })));
  return make("div", { className: "card" }, make("p", { className: "quiet", textContent: `These runs are of ${rows.length} kinds that cannot be compared with each other. Choose one; the page below shows it.` }),
    ...few("answers", "answers", rows, make("div", { className: "tablebox scroll", tabIndex: 0, attributes: { role: "region", "aria-label": "All answers" } }, make("table", { id: "answers-table" }, make("thead", {}, head), make("tbody", {}, ...rows)))));
}

// A long table shows its first rows, whole, and a button for the rest.
const FEW = 12;
function few(name, what, rows, box) {
  if (rows.length <= FEW + 2 || view.open.has(name)) return [box];
  box.classList.add("few");
  const button = make("button", { type: "button", className: "more screen", textContent: `Show all ${rows.length} ${what}` });
  button.onclick = () => { view.open.add(name); box.classList.remove("few"); button.remove(); box.focus({ preventScroll: true }); };
  return [box, button];
}

// --- the chart of costs

function paretoCard() {
  const charts = mine(report.figures.filter((f) => f.axis));
  if (!charts.length) return null;
  const now = charts.find((f) => f.axis === view.axis) ?? charts[0];
  const holder = make("div", {}, chart(now), caption(now));
  const pick = make("fieldset", { className: "axes" }, make("legend", { className: "quiet", textContent: "Accuracy against" }), ...charts.map((figure) => {
    const input = make("input", { type: "radio", name: "axis", value: figure.axis, checked: figure === now });
    input.onchange = () => { view.axis = figure.axis; holder.replaceChildren(chart(figure), caption(figure)); };
    return make("label", {}, input, figure.axis);
  }));
  return make("figure", { id: "pareto", attributes: { "aria-label": "Accuracy against cost" } }, pick, holder);
}

// --- the table

const mine = (items) => items.filter((item) => (item.protocol ? item.protocol === view.protocol : !item.data || item.data === report.data[view.protocol]));

function rowsShown() {
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = mine(report.rows).filter((row) => words.every((word) => row.cells.some((cell) => cell.show.toLowerCase().includes(word))));
  const key = (row) => row.cells[report.columns.findIndex((column) => column.name === view.sorted)]?.value ?? null;
  const order = (a, b) => (a === null) - (b === null) || (typeof a === "string" ? a.localeCompare(b) : a - b);
  return rows.toSorted((a, b) => {
    const [x, y] = [key(a), key(b)];
    return x === null || y === null ? order(x, y) : (view.up ? 1 : -1) * order(x, y);
  });
}

function tableCard() {
  const box = make("div", { className: "tablebox scroll", tabIndex: 0, attributes: { role: "region", "aria-label": "Table of models" } });
  const holder = make("div"), count = make("span", { className: "quiet", attributes: { role: "status" } });
  const every = mine(report.rows);
  const there = report.columns.map((column, i) => ({ ...column, i })).filter((column) => every.some((row) => row.cells[column.i].value !== null));
  const fill = () => {
    let columns = there.filter((column) => view.wide || (column.main && column.name !== "data"));
    if (window.innerWidth < 640) {  // what was measured comes into view
      const late = (column) => ["runs", "attention"].indexOf(column.name);
      columns = columns.toSorted((a, b) => late(a) - late(b));
    }
    const rows = rowsShown(), kind = (column) => (column.name === "verdict" ? "text word" : column.text ? "text" : "");
    const heads = columns.map((column) => {
      const button = make("button", { type: "button", textContent: column.name, title: `${column.about}; click to sort` });
      button.onclick = () => {
        Object.assign(view, { sorted: column.name, up: view.sorted === column.name ? !view.up : column.text });
        fill();
        [...box.querySelectorAll("th button")].find((other) => other.textContent === column.name).focus();
      };
      const head = make("th", { className: kind(column), scope: "col" }, button);
      if (view.sorted === column.name) head.setAttribute("aria-sort", view.up ? "ascending" : "descending");
      return head;
    });
    const body = make("tbody", {}, ...rows.map((row) => make("tr", { className: row.exact ? "exact" : "" },
      ...columns.map((column) => make("td", { className: kind(column), textContent: row.cells[column.i].show })))));
    if (!rows.length) body.append(make("tr", {}, make("td", { className: "text quiet", colSpan: columns.length, textContent: "No model has all of these words." })));
    box.replaceChildren(make("table", { id: "table" }, make("thead", {}, make("tr", {}, ...heads)), body));
    box.classList.remove("few");
    const parts = few("models", "models", rows, box);
    if (!box.isConnected || holder.childElementCount !== parts.length) holder.replaceChildren(...parts);
    else if (parts[1]) holder.lastElementChild.replaceWith(parts[1]);
    count.textContent = `${rows.length} of ${every.length} models`;
  };
  const input = make("input", { type: "search", id: "filter", value: view.filter, placeholder: "such as relu" });
  input.oninput = () => { view.filter = input.value; fill(); };
  const wide = make("input", { type: "checkbox", id: "wide", checked: view.wide });
  wide.onchange = () => { view.wide = wide.checked; fill(); };
  fill();
  const more = there.some((column) => !column.main) ? [make("label", {}, wide, " all columns")] : [];
  return make("div", { className: "card" },
    make("div", { className: "tools" }, make("label", { textContent: "Filter ", htmlFor: "filter" }), input, ...more, count), holder,
    make("p", { className: "quiet small screen", textContent: "Shaded rows have exact attention in every layer. Click a heading to sort." }));
}

// --- the rest, folded

function classCard(reports) {
  const body = make("tbody"), names = Object.keys(reports);
  const pick = make("select", { id: "class-model" }, ...names.map((name) => make("option", { textContent: name, value: name })));
  const fill = () => body.replaceChildren(...Object.entries(reports[pick.value]).map(([name, v]) => make("tr", {},
    make("td", { className: "text", textContent: name }),
    ...["precision", "recall", "f1-score"].map((key) => make("td", { textContent: (100 * v[key]).toFixed(1) })),
    make("td", { textContent: v.support.toLocaleString("en") }))));
  if (names.includes(view.classModel)) pick.value = view.classModel;
  pick.onchange = () => { view.classModel = pick.value; fill(); };
  fill();
  const head = make("tr", {}, ...["class", "precision %", "recall %", "F1 %", "images"].map((name, i) => make("th", { scope: "col", className: i ? "plain" : "text plain", textContent: name })));
  return card("figure", "Class report", {},
    make("div", { className: "tools" }, make("label", { htmlFor: "class-model", textContent: "Model" }), pick),
    ...few("classes", "classes", Object.keys(reports[names[0]]), make("div", { className: "tablebox scroll", tabIndex: 0, attributes: { role: "region", "aria-label": "Class report" } }, make("table", {}, make("thead", {}, head), body))),
    make("figcaption", { textContent: "On the test images; the model's first seed." }));
}

function list(lines, ...codes) {
  return make("ul", { className: "lines" }, ...lines.map((line) => make("li", { textContent: line })), ...codes.map((code) => make("li", {}, make("code", { textContent: code }))));
}

function folded(name, about, fill) {
  const id = `section-${name.toLowerCase().replaceAll(" ", "-")}`;
  const inside = make("div", { className: "inside" }), summary = make("summary", {}, make("h2", { textContent: name }), make("span", { className: "quiet", textContent: about }));
  const box = make("details", { id, open: view.open.has(id) }, summary, inside);
  const show = () => { if (box.open && !inside.childElementCount) inside.append(...fill()); };
  box.ontoggle = () => { view.open[box.open ? "add" : "delete"](id); show(); };
  show();
  return box;
}

const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function section(name, ...children) {
  const id = `section-${name.toLowerCase().replaceAll(" ", "-")}`;
  return make("section", { id, attributes: { "aria-labelledby": `${id}-h` } }, make("h2", { id: `${id}-h`, textContent: name }), ...children);
}

function render(found) {
  report = found;
  const active = document.activeElement, several = report.conclusions.length > 1;
  if (!report.conclusions.some((one) => one.protocol === view.protocol)) view.protocol = report.conclusions[0]?.protocol ?? null;
  byId("title").textContent = document.title = report.title;
  byId("lead").textContent = report.lead;
  const parts = [], more = [];
  if (report.rows.length) {
    const answer = report.conclusions.find((one) => one.protocol === view.protocol);
    if (several) parts.push(section("All answers", keep("answers", [report.conclusions, view.protocol], allAnswers)));
    parts.push(section("Answer", ...(several ? [make("p", { className: "quiet", textContent: answer.protocol })] : []), keep("answer", answer, () => answerCard(answer))));
    const pareto = keep("pareto", [view.protocol, mine(report.figures.filter((f) => f.axis))], paretoCard);
    if (pareto) parts.push(section("Accuracy and cost", pareto));
    parts.push(section("Models", keep("table", [view.protocol, report.columns, report.rows], tableCard), list(report.warnings)));
    const lines = report.sentences[view.protocol] ?? [];
    if (lines.length) more.push(folded("All comparisons", counted(lines.length, "answer"), () => [list([...lines, report.explained[view.protocol]])]));
  }
  const reports = Object.fromEntries(mine(report.reports).map((one) => [one.name, one.classes]));
  for (const name of report.sections) {
    const figures = mine(report.figures).filter((f) => f.section === name), pictures = mine(report.pictures).filter((p) => p.section === name);
    const table = name === "Classes" && Object.keys(reports).length;
    const counts = [[figures.length, "chart"], [table ? 1 : 0, "table"], [pictures.length, "picture"]].filter(([n]) => n).map(([n, what]) => counted(n, what));
    if (!counts.length) continue;
    const cards = () => [make("div", { className: name === "Where models look" ? "cards small" : "cards" }, ...figures.map(chartCard), ...(table ? [keep("classes", reports, () => classCard(reports))] : []), ...pictures.map(pictureCard))];
    if (name === "Now training") parts.push(section(name, ...cards()));
    else more.push(folded(name, counts.join(", "), cards));
  }
  if (report.notes.length) more.push(folded("How this was measured", "and how to save it", () => [list(report.notes, report.tableCommand, report.figureCommand)]));
  byId("content").replaceChildren(...parts);
  byId("details").replaceChildren(...more);
  const again = active?.isConnected ? active : active?.id && byId(active.id);
  if (again && again !== document.body) again.focus({ preventScroll: true });
  const anchors = [...document.querySelectorAll("main section, main details")].map((s) => make("li", {}, make("a", { href: `#${s.id}`, textContent: s.querySelector("h2").textContent, onclick: () => { if (s.tagName === "DETAILS") s.open = true; } })));
  byId("sections").replaceChildren(...anchors);
  byId("foot").textContent = report.foot;
  byId("state").hidden = report.rows.length > 0;
  byId("state").className = "empty";
  byId("state").textContent = report.rows.length ? "" : report.empty;
}

const given = byId("report").textContent.trim();
if (given) render(JSON.parse(given));
