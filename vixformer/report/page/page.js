const byId = (id) => document.getElementById(id);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let report = null, sorted = { column: null, up: false }, filter = "", classModel = null;

function make(tag, options = {}, ...children) {
  const { attributes, ...rest } = options;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function looks(room) {
  const ink = colour("--ink"), quiet = colour("--quiet"), line = colour("--line"), font = "system-ui, sans-serif";
  const axis = { labelColor: quiet, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: 500 };
  return {
    background: null, font, view: { stroke: line }, axis, title: { color: ink },
    legend: { labelColor: ink, titleColor: ink, orient: "bottom", layout: { bottom: { anchor: "start", direction: "vertical", margin: 6 } }, columns: room < 420 ? 1 : 3, labelLimit: Math.max(room - 40, 120), symbolBaseFillColor: quiet, symbolBaseStrokeColor: quiet }, header: { labelColor: ink, titleColor: ink },
    rule: { color: quiet }, text: { color: ink }, tick: { color: colour("--accent") },
  };
}

const drawn = new Map();
async function draw(holder, figure) {
  try {
    const told = { ...figure.spec, description: `${figure.title}. ${figure.says}` };
    const room = holder.parentElement.clientWidth - 90;  // what axes take
    if (told.width && room > 150 && room < told.width) told.width = room;
    if (told.spec?.width && room > 150 && room < told.spec.width) told.spec = { ...told.spec, width: room };
    if (told.facet && room < 2 * (told.spec.width + 60)) {  // panels below one another
      told.facet = told.facet.column ?? told.facet;
      told.columns = 1;
    }
    drawn.get(holder)?.finalize();
    holder.textContent = "";
    // An interpreter of expressions, and style.css instead of styles that scripts add: a strict Content-Security-Policy allows no others.
    drawn.set(holder, await window.vegaEmbed(holder, told, { renderer: "svg", actions: false, config: looks(room), ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } }));
  } catch (problem) {
    holder.replaceChildren(make("p", { className: "error", textContent: `This chart could not be drawn: ${problem.message}` }));
    console.error(problem);
  }
}

function titled(tag, title, options, ...children) {
  const id = `title-${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}`;
  return make(tag, { ...options, attributes: { "aria-labelledby": id } }, make("h3", { id, textContent: title }), ...children);
}

// What has not changed stays in the page, with what was picked and typed in it.
const kept = new Map();
function keep(name, content, build) {
  const key = JSON.stringify(content);
  if (kept.get(name)?.key !== key) kept.set(name, { key, card: build() });
  return kept.get(name).card;
}

function caption(item) {
  const parts = [make("span", { textContent: item.says })];
  if (item.command) parts.push(make("code", { textContent: item.command }));
  return make("figcaption", {}, ...parts);
}

function chartCard(figure) {
  const holder = make("div", { className: "chart scroll", id: `chart-${figure.name}`, tabIndex: 0, attributes: { role: "group", "aria-label": figure.title } });
  const inside = make("div");  // vega-embed gives this one its own style
  holder.append(inside);
  const card = titled("figure", figure.title, { className: figure.wide || figure.spec.width > 520 ? "wide" : "" }, holder, caption(figure));
  requestAnimationFrame(() => draw(inside, figure));  // once it has a width
  return card;
}

function pictureCard(picture) {
  const image = make("img", { src: picture.uri, alt: `${picture.title}. ${picture.says}` });
  return titled("figure", picture.title, { className: picture.wide ? "picture wide" : "picture" }, image, caption(picture));
}

function rowsShown() {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  let rows = report.rows.filter((row) => words.every((word) => row.cells.some((cell) => cell.show.toLowerCase().includes(word))));
  if (sorted.column !== null) {
    const key = (row) => row.cells[sorted.column].value;
    const order = (a, b) => (a === null) - (b === null) || (typeof a === "string" ? a.localeCompare(b) : a - b);
    rows = rows.toSorted((a, b) => {
      const [x, y] = [key(a), key(b)];
      return x === null || y === null ? order(x, y) : (sorted.up ? 1 : -1) * order(x, y);
    });
  }
  return rows;
}

function fillTable(body, count) {
  const rows = rowsShown();
  body.replaceChildren(...rows.map((row) => make("tr", { className: row.exact ? "exact" : "" },
    ...row.cells.map((cell, i) => make("td", { className: report.columns[i].text ? "text" : "", textContent: cell.show })))));
  if (!rows.length) body.append(make("tr", {}, make("td", { className: "text quiet", colSpan: report.columns.length, textContent: "No model has all of these words." })));
  count.textContent = `${rows.length} of ${report.rows.length} models`;
}

function tableCard() {
  const body = make("tbody"), count = make("span", { className: "quiet", attributes: { role: "status" } });
  const heads = report.columns.map((column, i) => {
    const button = make("button", { type: "button", textContent: column.name, title: `${column.about}; click to sort` });
    const head = make("th", { className: column.text ? "text" : "", scope: "col" }, button);
    button.onclick = () => {
      sorted = { column: i, up: sorted.column === i ? !sorted.up : column.text };
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
      fillTable(body, count);
    };
    if (sorted.column === i) head.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
    return head;
  });
  const input = make("input", { type: "search", id: "filter", value: filter, placeholder: "such as mnist relu" });
  input.oninput = () => { filter = input.value; fillTable(body, count); };
  fillTable(body, count);
  const table = make("table", { id: "table" }, make("caption", { className: "quiet" }, make("span", { textContent: report.caption })), make("thead", {}, make("tr", {}, ...heads)), body);
  return make("div", { className: "card" },
    make("div", { className: "tools" }, make("label", { textContent: "Show only ", htmlFor: "filter" }), input, count),
    make("div", { className: "tablebox scroll", tabIndex: 0, attributes: { role: "region", "aria-label": "Table of models" } }, table),
    make("p", { className: "quiet" }, make("code", { textContent: report.tableCommand })));
}

function classCard() {
  const body = make("tbody"), names = Object.keys(report.reports);
  const pick = make("select", { id: "class-model" }, ...names.map((name) => make("option", { textContent: name, value: name })));
  const fill = () => body.replaceChildren(...Object.entries(report.reports[pick.value]).map(([name, v]) => make("tr", {},
    make("td", { className: "text", textContent: name }),
    ...["precision", "recall", "f1-score"].map((key) => make("td", { textContent: (100 * v[key]).toFixed(1) })),
    make("td", { textContent: v.support.toLocaleString("en") }))));
  if (names.includes(classModel)) pick.value = classModel;
  pick.onchange = () => { classModel = pick.value; fill(); };
  fill();
  const heads = ["class", "precision %", "recall %", "F1 %", "images"];
  const head = make("thead", {}, make("tr", {}, ...heads.map((name, i) => make("th", { scope: "col", className: i ? "" : "text", style: "padding:.4rem .6rem", textContent: name }))));
  return titled("figure", "Class report", {},
    make("div", { className: "tools" }, make("label", { htmlFor: "class-model", textContent: "Model" }), pick),
    make("div", { className: "tablebox scroll", tabIndex: 0, attributes: { role: "region", "aria-label": "Class report" } }, make("table", {}, head, body)),
    make("figcaption", { textContent: "On the test images, first seed." }));
}

function section(name, ...children) {
  const id = `section-${name.toLowerCase().replaceAll(" ", "-")}`;
  return make("section", { id, attributes: { "aria-labelledby": `${id}-h` } }, make("h2", { id: `${id}-h`, textContent: name }), ...children);
}

function render(found) {
  report = found;
  const active = document.activeElement;
  const cardOf = (figure) => keep(`figure ${figure.name}`, figure, () => chartCard(figure));
  byId("title").textContent = report.title;
  document.title = report.title;
  byId("lead").textContent = report.lead;
  const parts = [];
  if (report.rows.length) {
    const overview = report.figures.filter((f) => f.section === "Overview").map(cardOf);
    parts.push(section("Overview", make("div", { className: "cards" }, ...overview), make("p", {}), keep("table", [report.columns, report.rows], tableCard),
      make("ul", { className: "lines quiet" }, ...report.notes.map((note) => make("li", { textContent: note })))));
  }
  const answers = Object.entries(report.sentences);
  if (answers.length) parts.push(section("Answers", ...answers.flatMap(([where, lines]) => [
    make("h3", { textContent: where }), make("ul", { className: "lines" }, ...lines.map((line) => make("li", { textContent: line })))])));
  for (const name of report.sections) {
    const cards = report.figures.filter((f) => f.section === name).map(cardOf);
    if (name === "Classes" && Object.keys(report.reports).length) cards.push(keep("classes", report.reports, classCard));
    cards.push(...report.pictures.filter((p) => p.section === name).map(pictureCard));
    if (cards.length) parts.push(section(name, make("div", { className: name === "Where models look" ? "cards small" : "cards" }, ...cards)));
  }
  byId("content").replaceChildren(...parts);
  const again = active?.isConnected ? active : active?.id && byId(active.id);
  if (again && again !== document.body) again.focus({ preventScroll: true });
  const anchors = [...document.querySelectorAll("main section")].map((s) => make("li", {}, make("a", { href: `#${s.id}`, textContent: s.querySelector("h2").textContent })));
  byId("sections").replaceChildren(...anchors);
  byId("foot").textContent = report.foot;
  byId("state").hidden = report.rows.length > 0;
  byId("state").className = "empty";
  byId("state").textContent = report.rows.length ? "" : report.empty;
}

dark.addEventListener("change", () => { kept.clear(); if (report) render(report); });
const given = byId("report").textContent.trim();
if (given) render(JSON.parse(given));
