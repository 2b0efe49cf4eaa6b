"use strict";
/* The review: a page of suspects, or of the audit sample, one row of it in the panel. A key is a decision about the suspect that is
   seen when it is pressed: the panel moves to the next at once, and decisions are sent one after another.
   All text is set as text, never as markup: ids, labels and columns come from anywhere. */

const at = (id) => document.getElementById(id);
const LEAST_WAIT = 2000;
const FOLDED = 14, FOLDED_NEAR = 8, BRIEF = 4; /* columns of a suspect, a neighbour and a card of the list; the rest is folded */
const LONG = 160; /* characters of a cell that are displayed at once */
const MOST_SHARES = 5; /* classes with a bar, beside the given label */
const NO_AUDIT = ["No row is left to audit, or none is drawn yet.", "The sample is drawn once 500 rows are held, or else at the end of the run."];
const KEYS = { k: "keep", r: "relabel", d: "drop", s: "skip", u: "undo", o: "other" };
const state = { list: "suspects", page: 0, current: 0, items: [], total: 0, classes: [], versions: {}, empty: [], made: [], unsent: new Map(), unfolded: false, drawn: "", near: "", queue: Promise.resolve() };

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json", "X-Tamis": "review" }, body: JSON.stringify(body),
  };
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || `status ${answer.status}`);
  return answer.json();
}

function drawPicture(preview, name) {
  if (!preview || typeof preview.image !== "string") return [];
  const image = make("img");
  image.src = "data:image/png;base64," + preview.image;
  image.alt = `row ${name}`;
  const box = make("div", undefined, "preview");
  box.append(image);
  return [box];
}

function columnsOf(preview) {
  /* Names and values; a hostile or an older file may hold anything. */
  return preview && preview.columns && typeof preview.columns === "object" && !Array.isArray(preview.columns) ? preview.columns : {};
}

function differsIn(preview) { return preview && Array.isArray(preview.differs) ? preview.differs.map(String) : []; }

function orderOf(preview) {
  /* Columns that differ from the neighbours come first. */
  const first = differsIn(preview), columns = columnsOf(preview);
  return [...first.filter((name) => Object.hasOwn(columns, name)), ...Object.keys(columns).filter((name) => !first.includes(name))];
}

function isMissing(value) { return value === null || value === undefined || value === ""; }

function drawValue(value) {
  if (isMissing(value)) return make("i", "missing", "soft");
  const text = String(value);
  if (text.length <= LONG) return document.createTextNode(text);
  const box = make("details", undefined, "long");
  box.append(make("summary", `${text.slice(0, LONG)}…`), make("p", text));
  return box;
}

function drawList(names, columns, differs, word) {
  const list = make("dl");
  for (const name of names) {
    const group = make("div", undefined, differs.includes(name) ? "differs" : ""), term = make("dt", name), cell = make("dd");
    if (word && differs.includes(name)) term.append(" ", make("span", word, "mark"));
    cell.append(drawValue(Object.hasOwn(columns, name) ? columns[name] : null));
    group.append(term, cell);
    list.append(group);
  }
  return list;
}

function drawRow(preview, order, differs, most, word) {
  /* All columns: the first ones, and the rest folded; one fold opens all in the panel. */
  const box = make("div", undefined, "preview"), columns = columnsOf(preview);
  if (order.length) {
    box.append(drawList(order.slice(0, most), columns, differs, word));
    if (order.length > most) {
      const rest = make("details", undefined, "rest");
      rest.open = state.unfolded;
      rest.append(make("summary", `${order.length - most} more columns`), drawList(order.slice(most), columns, differs, word));
      rest.addEventListener("toggle", () => unfold(rest.open));
      box.append(rest);
    }
  } else if (preview && typeof preview.text === "string") {
    box.append(drawValue(preview.text));
  }
  return box;
}

function unfold(open) {
  state.unfolded = open;
  for (const rest of at("panel").querySelectorAll("details.rest")) rest.open = open;
}

function drawBrief(preview) {
  /* The row in a list of many, inside a button: a few columns, nothing to open. */
  const order = orderOf(preview), columns = columnsOf(preview), box = make("div", undefined, "preview");
  if (order.length) {
    const short = Object.fromEntries(order.slice(0, BRIEF).map((name) => [name, isMissing(columns[name]) ? null : String(columns[name]).slice(0, LONG / 2)]));
    const more = (Number(preview.count) || order.length) - BRIEF;
    box.append(drawList(Object.keys(short), short, differsIn(preview)));
    if (more > 0) box.append(make("span", `${more} more columns`, "soft"));
  } else if (preview && typeof preview.text === "string") box.append(make("p", preview.text.slice(0, LONG)));
  return box;
}

function drawShares(item) {
  const shares = Object.entries(item.probabilities || {}).filter(([, share]) => typeof share === "number").sort((one, two) => two[1] - one[1]);
  if (!shares.length) return [];
  const list = make("ul", undefined, "shares");
  for (const [name, share] of shares.filter(([name], rank) => rank < MOST_SHARES || name === item.given)) {
    const entry = make("li"), bar = make("meter");
    bar.max = 1;
    bar.value = share;
    bar.setAttribute("aria-label", `Probability of ${name}`);
    entry.append(make("span", name), bar, make("span", share.toFixed(3), "number"));
    list.append(entry);
  }
  return [make("h3", "Probabilities by the model"), list];
}

function describe(decision) {
  if (!decision) return "";
  return decision.decision === "relabel" ? `relabelled ${decision.label}` : decision.decision;
}

function drawLabels(item) {
  const line = make("div", undefined, "labels");
  if (item.suggested) line.append(make("s", item.given), document.createTextNode(" → "), make("b", item.suggested));
  else line.append(make("b", item.given)); /* a row of the audit sample */
  return line;
}

function factsOf(item) {
  /* A row of the audit sample has none of them. */
  const score = typeof item.score === "number" ? [item.score.toFixed(3)] : [], slot = typeof item.slot === "number" ? [`slot ${item.slot}`] : [];
  return [...score, ...slot];
}

function fillCard(card, item) {
  const facts = [item.id, ...factsOf(item), ...(item.annotator ? [`by ${item.annotator}`] : [])];
  card.replaceChildren(...drawPicture(item.preview, item.id), drawBrief(item.preview), drawLabels(item), make("span", facts.join(" · "), "soft"));
  const decided = describe(item.decision);
  if (decided) card.append(make("strong", ` ${decided}`));
  card.classList.toggle("decided", Boolean(item.decision && item.decision.decision !== "skip"));
}

function drawCards() {
  at("cards").classList.toggle("broad", state.items.some((item) => orderOf(item.preview).length));
  at("cards").replaceChildren(...state.items.map((item, number) => {
    const card = make("button", undefined, "card");
    card.type = "button";
    fillCard(card, item);
    card.addEventListener("click", () => { move(number); at("panel").focus(); });
    const entry = make("li");
    entry.append(card);
    return entry;
  }));
}

function drawPanel() {
  const item = state.items[state.current];
  const cards = at("cards").querySelectorAll(".card");
  cards.forEach((card, number) => card.setAttribute("aria-current", String(number === state.current)));
  for (const button of at("words").querySelectorAll("button")) button.disabled = !item && button.dataset.word !== "undo";
  if (!item) {
    const [reason, ...next] = state.total ? ["Nothing here."] : state.list === "audit" ? NO_AUDIT : state.empty;
    at("current").replaceChildren(make("p", reason), ...next.map((text) => make("p", text, "soft")));
    at("panel").classList.add("wide");
    at("row").replaceChildren();
    at("neighbours").replaceChildren();
    state.drawn = state.near = "";
    return;
  }
  const [score, ...slot] = factsOf(item), facts = score === undefined ? "is this label right?" : [`score ${score}`, ...slot].join(", ");
  at("current").replaceChildren(...drawPicture(item.preview, item.id), drawLabels(item), make("p", `${item.id}, ${facts}`, "soft"));
  drawDecided(item);
  const drawn = JSON.stringify([item.id, item.preview, item.probabilities]);
  if (drawn !== state.drawn) { /* else what a reader has opened stays open */
    state.drawn = drawn;
    state.near = "";
    fillRow(item, item.preview);
    at("neighbours").replaceChildren();
  }
  if (state.list === "suspects") drawNeighbours(item); /* an audit is of the row alone */
}

function fillRow(item, preview) {
  at("panel").classList.toggle("wide", !preview || typeof preview.image !== "string");
  at("row").replaceChildren(drawRow(preview, orderOf(preview), differsIn(preview), FOLDED, "differs"), ...drawShares(item));
}

function drawDecided(item) {
  const before = at("current").querySelector("strong"), decided = describe(item.decision);
  if (before) before.remove();
  if (decided) at("current").append(make("strong", `${decided}${item.decision.author ? ` by ${item.decision.author}` : ""}`));
}

async function drawNeighbours(item) {
  const { neighbours, decision, preview } = await ask(`/neighbours?id=${encodeURIComponent(item.id)}`).catch(() => ({ neighbours: [], decision: item.decision }));
  if (state.items[state.current] !== item) return;
  if (!state.unsent.has(item.id) && describe(decision) !== describe(item.decision)) { /* somebody else has decided about the current suspect */
    item.decision = decision;
    refill(item);
    drawDecided(item);
  }
  const near = JSON.stringify([neighbours, preview]);
  if (near === state.near) return;
  state.near = near;
  if (item.preview && item.preview.cut && preview) fillRow(item, preview);
  const order = orderOf(preview), differs = differsIn(preview);
  at("neighbours").replaceChildren(...(neighbours.length ? [make("h3", "Nearest rows, with their labels")] : []), ...neighbours.map((other) => {
    const card = make("div", undefined, "card");
    card.append(...drawPicture(other.preview, other.id), make("b", String(other.label)), make("div", `${other.id} · ${Number(other.similarity).toFixed(2)}`, "soft"));
    card.append(drawRow(other.preview, order.length ? order : orderOf(other.preview), differs, FOLDED_NEAR));
    return card;
  }));
}

function move(number) {
  state.current = Math.max(0, Math.min(number, state.items.length - 1));
  at("others").hidden = true;
  drawPanel();
}

function filters() {
  const wanted = new URLSearchParams({ page: state.page });
  for (const name of ["given", "suggested", "low", "high", "which"]) if (at(name).value !== "") wanted.set(name, at(name).value);
  return wanted;
}

function later(task) {
  /* Everything that asks the server for suspects, or sends it decisions, waits for its turn. */
  state.queue = state.queue.then(task).catch((error) => { setOffline(error instanceof TypeError); });
  return state.queue;
}

async function load(keep) {
  const list = state.list, found = await ask(`/${list}?${filters()}`);
  if (list !== state.list) return; /* somebody has switched meanwhile, and that loads again */
  const pages = Math.max(1, Math.ceil(found.total / found.size));
  if (state.page >= pages) { state.page = pages - 1; return load(keep); }
  const current = keep ? state.items[state.current] : undefined;
  for (const item of found.items) if (state.unsent.has(item.id)) item.decision = state.unsent.get(item.id);
  let place = current ? found.items.findIndex((item) => item.id === current.id) : -1;
  if (current && place < 0) { /* nothing goes from under the hands of who is looking at it */
    place = Math.min(state.current, found.items.length);
    found.items.splice(place, 0, current);
  }
  if (!current) place = Math.max(0, found.items.findIndex((item) => !state.unsent.has(item.id)));
  Object.assign(state, { items: found.items, total: found.total, classes: found.classes, empty: found.empty || [] });
  state.versions.suspects = found.version;
  at("count").textContent = list === "audit" ? `${found.decided} of ${found.all} audited. ${found.text}` : `${found.total.toLocaleString("en")} of ${found.all.toLocaleString("en")} suspects, ${found.decided ? found.decided.toLocaleString("en") : "none"} decided${found.decided ? "" : " yet"}`;
  at("page").textContent = `page ${state.page + 1} of ${pages}`;
  at("before").disabled = state.page === 0;
  at("after").disabled = state.page + 1 >= pages;
  drawCards();
  if (current) { state.current = place; drawPanel(); } else move(place);
  document.body.dataset.ready = "yes";
}

function choices(select, names, first) {
  const before = select.value;
  select.replaceChildren(...first, ...names.map((name) => { const option = make("option", name); option.value = name; return option; }));
  select.value = before;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

function fillChoices() {
  const known = JSON.stringify(state.classes);
  if (known === state.chosen) return; /* a list that is open stays open */
  state.chosen = known;
  for (const id of ["given", "suggested"]) {
    const any = make("option", "any");
    any.value = "";
    choices(at(id), state.classes, [any]);
  }
  choices(at("class"), state.classes, []);
}

async function send(item, decision, before) {
  const { id } = item;
  try {
    const made = await ask("/decisions", { id, decision: decision.decision, label: decision.label, author: at("author").value });
    setOffline(false);
    const seen = before ? [before.decision, before.label] : null;
    const other = made.changed && JSON.stringify(made.changed) !== JSON.stringify(seen);
    Object.assign(decision, made.decision);
    at("news").textContent = `${id}: ${describe(decision)}.${other ? ` Somebody else had decided: ${describe({ decision: made.changed[0], label: made.changed[1] })}.` : ""}`;
  } catch (error) {
    setOffline(error instanceof TypeError);
    item.decision = before;
    state.made = state.made.filter((name) => name !== id);
    refill(item);
    at("news").textContent = `Not saved: ${error.message} (${id})`;
  }
  if (state.unsent.get(id) === decision) state.unsent.delete(id);
}

function refill(item) {
  const number = state.items.findIndex((other) => other.id === item.id);
  const card = at("cards").querySelectorAll(".card")[number];
  if (card) fillCard(card, state.items[number]);
}

function next() {
  for (let step = 1; step < state.items.length; step += 1) {
    const number = (state.current + step) % state.items.length;
    if (!state.items[number].decision) return move(number);
  }
  state.items = [];
  drawPanel();
  return later(() => load(false));
}

function take(word, label) {
  const item = state.items[state.current];
  if (!item) return;
  const before = item.decision;
  const decision = { decision: word, label: label === undefined ? null : label, author: at("author").value };
  item.decision = decision;
  state.unsent.set(item.id, decision);
  state.made.push(item.id);
  refill(item);
  later(() => send(item, decision, before));
  next();
}

function undo() {
  const id = state.made.pop();
  if (id === undefined) { at("news").textContent = "There is nothing to undo in this tab."; return; }
  later(async () => {
    try {
      await ask("/decisions", { id, decision: "undo", label: null, author: at("author").value });
      setOffline(false);
      at("news").textContent = `Undone: ${id}.`;
    } catch (error) {
      state.made.push(id);
      setOffline(error instanceof TypeError);
      at("news").textContent = `Not saved: ${error.message} (${id})`;
      return;
    }
    await load(true);
    const place = state.items.findIndex((item) => item.id === id);
    if (place >= 0) move(place);
  });
}

function decide(word) {
  const item = state.items[state.current];
  if (word === "undo") undo();
  else if (word === "relabel" && item && item.suggested) take("relabel", item.suggested);
  else if ((word === "other" || word === "relabel") && item) {
    at("others").hidden = false;
    at("class").focus();
  } else if (word !== "relabel" && word !== "other") take(word);
}

function relabel(label) {
  if (label === undefined) return;
  at("others").hidden = true;
  at("panel").focus();
  take("relabel", label);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === at("class")) return;
  if (KEYS[event.key]) decide(KEYS[event.key]);
  else if (/^[0-9]$/.test(event.key)) relabel(state.classes[Number(event.key)]);
  else if (event.key === "ArrowRight") move(state.current + 1);
  else if (event.key === "ArrowLeft") move(state.current - 1);
  else return;
  event.preventDefault();
}

function show(list) {
  Object.assign(state, { list, page: 0, current: 0, items: [] });
  at("review").classList.toggle("audit", list === "audit");
  at("about-audit").hidden = list !== "audit";
  for (const button of document.querySelectorAll("[data-list]")) button.setAttribute("aria-pressed", String(button.dataset.list === list));
  drawPanel();
  at("panel").focus({ preventScroll: true });
  return later(() => load(false));
}

function setOffline(is) { at("offline").hidden = !is; }

async function refresh(id) {
  const answer = await fetch(`/${id}`, { credentials: "same-origin" });
  if (answer.ok) charts.replace(at(id), await answer.text());
}

async function poll() {
  try {
    const found = await ask("/state");
    setOffline(false);
    at("state").textContent = found.state;
    if (!document.hidden && found.curves !== state.versions.curves) {
      await Promise.all([refresh("tiles"), refresh("curves")]);
      state.versions.curves = found.curves;
    }
    if (!document.hidden && found.suspects !== state.versions.suspects) {
      await later(() => load(true));
      fillChoices();
      await Promise.all([refresh("tiles"), refresh("classes")]);
    }
  } catch (error) {
    setOffline(true);
  }
  setTimeout(poll, LEAST_WAIT);
}

async function begin() {
  const name = localStorage.getItem("tamis author");
  if (name) at("author").value = name;
  at("author").addEventListener("change", () => localStorage.setItem("tamis author", at("author").value));
  at("choice").open = !matchMedia("(max-width: 40rem)").matches;
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["given", "suggested", "low", "high", "which"]) at(id).addEventListener("change", () => { state.page = 0; later(() => load(false)); });
  at("before").addEventListener("click", () => { state.page -= 1; later(() => load(false)); });
  at("after").addEventListener("click", () => { state.page += 1; later(() => load(false)); });
  for (const button of document.querySelectorAll("[data-list]")) button.addEventListener("click", () => show(button.dataset.list));
  at("panel").addEventListener("keydown", onKey);
  for (const button of at("words").querySelectorAll("[data-word]")) button.addEventListener("click", () => decide(button.dataset.word));
  at("choose").addEventListener("click", () => relabel(at("class").value));
  at("class").addEventListener("keydown", (event) => { if (event.key === "Enter") relabel(at("class").value); });
  await later(() => load(false));
  fillChoices();
  at("panel").focus({ preventScroll: true });
  poll();
}

begin();
