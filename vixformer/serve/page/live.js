
// --- runs that move

let seen = null;
async function refresh() {
  try {
    const { version } = await (await fetch("api/version")).json();
    if (version !== seen) {
      const found = await fetch("api/report");
      if (!found.ok) throw new Error((await found.json().catch(() => ({}))).detail ?? found.statusText);
      const before = window.scrollY;
      render(await found.json());
      window.scrollTo(0, before);
      seen = version;
      await listModels();
    }
  } catch (problem) {
    byId("state").hidden = false;
    byId("state").className = "error";
    byId("state").textContent = `The server does not answer: ${problem.message}. This page keeps trying.`;
    seen = null;
  }
  setTimeout(refresh, 3000);
}

// --- try it

let picture = null, asked = 0, known = [];
const state = (text, bad = false) => { byId("try-state").textContent = text; byId("try-state").className = bad ? "error" : "quiet"; };

async function listModels() {
  known = await (await fetch("api/models")).json();
  byId("try").hidden = known.length === 0;
  byId("try-none").hidden = known.length > 0;
  const chosen = new Set(picked().length ? picked() : known.slice(0, 1).map((m) => m.name));  // the best comes first
  const sets = Map.groupBy(known, (m) => m.data);
  const boxes = [...sets].flatMap(([data, models]) => [
    make("p", { className: "quiet knows", textContent: `${sets.size > 1 ? `${data}, ` : ""}${classesOf(models[0])}` }),
    ...models.map((m) => make("label", {},
      make("input", { type: "checkbox", value: m.name, checked: chosen.has(m.name), onchange: ready }),
      ` ${m.name} `, make("span", { className: "quiet", textContent: `${m.test_top1.toFixed(1)} %, ${m.attention}` }))),
  ]);
  byId("models").replaceChildren(byId("models").querySelector("legend"), ...boxes);
  ready();
}

function classesOf(model, most = 12) {
  const more = model.classes.length - most;
  return `${model.classes.length} classes: ${model.classes.slice(0, most).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function picked() { return [...document.querySelectorAll("#models input:checked")].map((box) => box.value); }

function allow() {
  const names = picked();
  byId("ask").disabled = !picture || !names.length || names.length > 8;
}

// A drawing is a small gray picture: models of photographs would only guess.
function offerDrawing() {
  const drawn = known.filter((m) => picked().includes(m.name) && m.channels === 1 && Math.max(m.height, m.width) <= 64);
  byId("drawing").hidden = byId("invert-label").hidden = drawn.length === 0;
  if (!drawn.length) return;
  const digits = drawn[0].classes.every((name) => /^\d/.test(name));
  const what = digits ? "a digit" : `one of: ${drawn[0].classes.slice(0, 4).join(", ")}${drawn[0].classes.length > 4 ? " …" : ""}`;
  byId("draw-help").textContent = `Or draw ${what}, with finger or mouse. The models know white on black.`;
}

function ready() {
  const names = picked();
  allow();
  offerDrawing();
  if (names.length > 8) state("Choose at most eight models at a time.", true);
  else if (!names.length) state("Choose a model.");
  else if (!picture) state("Choose a picture first.");
  else state("");
}

function use(blob, drawn = false) {
  picture = blob;
  const image = byId("shown");
  if (image.src) URL.revokeObjectURL(image.src);
  image.src = URL.createObjectURL(blob);
  image.alt = "The picture to be classified";
  image.hidden = drawn;
  image.onerror = () => { image.hidden = true; };
  ready();
  if (!byId("ask").disabled) question(drawn);
}

async function question(drawn = false) {
  const mine = ++asked;
  const query = new URLSearchParams(picked().map((name) => ["model", name]));
  query.append("invert", byId("invert").checked);
  state("Classifying …");
  byId("ask").disabled = true;
  try {
    const kinds = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff", "image/x-portable-pixmap"];
    const kind = kinds.includes(picture.type) ? picture.type : "application/octet-stream";
    const reply = await fetch(`api/predict?${query}`, { method: "POST", body: picture, headers: { "Content-Type": kind } });
    const found = await reply.json();
    if (mine !== asked) return;
    if (!reply.ok) throw new Error(found.detail ?? reply.statusText);
    show(found);
    state(found.answers.map((a) => `${a.model}: ${a.top[0].label}, ${(100 * a.top[0].probability).toFixed(0)} %`).join("; "));
    // On a phone the answers are below the screen. Whoever draws wants to go on drawing.
    if (!drawn && byId("answers").getBoundingClientRect().top > window.innerHeight - 300) byId("answers").scrollIntoView({ block: "start" });
  } catch (problem) {
    if (mine !== asked) return;
    byId("answers").replaceChildren();
    state(problem.message, true);
  }
  byId("ask").disabled = false;
}

function show(found) {
  byId("answers").replaceChildren(...found.answers.map((answer) => make("div", { className: "card" },
    make("h3", { textContent: answer.model }),
    ...known.filter((m) => m.name === answer.model).map((m) => make("p", { className: "quiet", textContent: `${m.attention}. It assigns every picture to one of its ${m.classes.length} classes.` })),
    ...answer.top.map((guess) => make("div", { className: "guess" },
      make("span", { textContent: guess.label }), make("span", { textContent: `${(100 * guess.probability).toFixed(1)} %` }),
      make("i", { style: `width:${100 * guess.probability}%`, attributes: { "aria-hidden": "true" } }))),
    ...(answer.inverted ? [make("p", { className: "quiet", textContent: "Light and dark were swapped for this model: it was trained on images of the other kind." })] : []),
    make("p", { className: "quiet", textContent: `${answer.milliseconds.toFixed(1)} ms for this image` }),
    make("div", { className: "maps" }, ...Object.entries(answer.maps).map(([name, uri]) => make("figure", {},
      make("img", { src: uri, alt: `Where the model looks: ${name}`, width: 112, height: 112 }), make("figcaption", { textContent: name })))),
    ...(Object.keys(answer.maps).length ? [make("p", { className: "quiet small", textContent: `Bright places get the most attention.${answer.maps.rollout ? " Rollout combines the attention of all layers." : ""}` })] : [make("p", { className: "quiet", textContent: "This attention has no map to draw." })]))));
}

const drop = byId("drop"), file = byId("file");
drop.onclick = () => file.click();
drop.onkeydown = (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); file.click(); } };
file.onchange = () => { if (file.files[0]) use(file.files[0]); file.value = ""; };
for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => { event.preventDefault(); const [one] = event.dataTransfer.files; if (one) use(one); });
document.addEventListener("paste", (event) => {
  const one = [...(event.clipboardData?.items ?? [])].find((item) => item.type.startsWith("image/"))?.getAsFile();
  if (one) use(one);
});
byId("ask").onclick = () => question();
byId("invert").onchange = () => picture && question();

const canvas = byId("draw"), pen = canvas.getContext("2d");
let drawing = false;
function wipe() { pen.fillStyle = "#000"; pen.fillRect(0, 0, canvas.width, canvas.height); }
function place(event) {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
}
Object.assign(pen, { lineWidth: 18, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
canvas.onpointerdown = (event) => {
  drawing = true;
  canvas.setPointerCapture(event.pointerId);
  pen.beginPath();
  pen.moveTo(...place(event));
  pen.lineTo(...place(event));  // a dot
  pen.stroke();
};
canvas.onpointermove = (event) => { if (drawing) { pen.lineTo(...place(event)); pen.stroke(); } };
canvas.onpointerup = canvas.onpointercancel = () => { drawing = false; canvas.toBlob((blob) => use(blob, true), "image/png"); };
byId("clear").onclick = () => {
  wipe();
  picture = null;
  byId("shown").hidden = true;
  byId("answers").replaceChildren();
  ready();
};
wipe();
ready();
refresh();
