"use strict";
/* The review: a page of suspects, one of them on the desk, decisions sent as they are made.
   All text is set as text, never as markup: ids, labels and columns come from anywhere. */

const at = (id) => document.getElementById(id);
const LEAST_WAIT = 2000;
const KEYS = { k: "keep", r: "relabel", d: "drop", s: "skip", u: "undo", o: "other" };
const state = { page: 0, current: 0, items: [], total: 0, classes: [], versions: {}, made: [], busy: Promise.resolve() };

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

function drawSight(show, name) {
  const box = make("div", undefined, "sight");
  if (show && typeof show.image === "string") {
    const image = make("img");
    image.src = "data:image/png;base64," + show.image;
    image.alt = `row ${name}`;
    box.append(image);
  } else if (show && show.columns && typeof show.columns === "object") {
    const list = make("dl");
    for (const [column, value] of Object.entries(show.columns)) list.append(make("dt", column), make("dd", String(value)));
    box.append(list);
  } else if (show && typeof show.text === "string") {
    box.append(make("p", show.text));
  }
  return box;
}

function tell(decision) {
  if (!decision) return "";
  return decision.decision === "relabel" ? `relabelled ${decision.label}` : decision.decision;
}

function drawLabels(item) {
  const line = make("div", undefined, "labels");
  line.append(make("s", item.given), document.createTextNode(" → "), make("b", item.suggested));
  return line;
}

function fillCard(card, item) {
  const slot = item.slot === null ? "" : ` · slot ${item.slot}`;
  card.replaceChildren(drawSight(item.show, item.id), drawLabels(item), make("span", `${item.id} · ${item.score.toFixed(3)}${slot}`, "soft"));
  const decided = tell(item.decision);
  if (decided) card.append(make("strong", ` ${decided}`));
  card.classList.toggle("settled", Boolean(item.decision && item.decision.decision !== "skip"));
}

function drawCards() {
  at("cards").replaceChildren(...state.items.map((item, number) => {
    const card = make("button", undefined, "card");
    card.type = "button";
    fillCard(card, item);
    card.addEventListener("click", () => { move(number); at("desk").focus(); });
    const entry = make("li");
    entry.append(card);
    return entry;
  }));
}

function drawDesk() {
  const item = state.items[state.current];
  const cards = at("cards").querySelectorAll(".card");
  cards.forEach((card, number) => card.setAttribute("aria-current", String(number === state.current)));
  for (const button of at("words").querySelectorAll("button")) button.disabled = !item && button.dataset.word !== "undo";
  if (!item) {
    at("current").replaceChildren(make("p", state.total ? "Nothing here." : "No suspect fits.", "soft"));
    at("near").replaceChildren();
    return;
  }
  const slot = item.slot === null ? "" : `, slot ${item.slot}`;
  at("current").replaceChildren(drawSight(item.show, item.id), drawLabels(item), make("p", `${item.id}, score ${item.score.toFixed(3)}${slot}`, "soft"));
  const decided = tell(item.decision);
  if (decided) at("current").append(make("strong", `${decided}${item.decision.author ? ` by ${item.decision.author}` : ""}`));
  drawNear(item);
}

async function drawNear(item) {
  at("near").replaceChildren();
  const { near } = await ask(`/near?id=${encodeURIComponent(item.id)}`).catch(() => ({ near: [] }));
  if (state.items[state.current] !== item || !near.length) return;
  at("near").replaceChildren(make("h3", "Most like it, with their labels"), ...near.map((other) => {
    const card = make("div", undefined, "card");
    card.append(drawSight(other.show, other.id), make("b", String(other.label)), make("div", `${other.id} · ${Number(other.likeness).toFixed(2)}`, "soft"));
    return card;
  }));
}

function move(number) {
  state.current = Math.max(0, Math.min(number, state.items.length - 1));
  at("others").hidden = true;
  drawDesk();
}

function filters() {
  const wanted = new URLSearchParams({ page: state.page });
  for (const name of ["given", "suggested", "low", "high", "which"]) if (at(name).value !== "") wanted.set(name, at(name).value);
  return wanted;
}

async function load(keep) {
  const found = await ask(`/suspects?${filters()}`);
  const pages = Math.max(1, Math.ceil(found.total / found.size));
  if (state.page >= pages) { state.page = pages - 1; return load(keep); }
  const name = keep && state.items[state.current] && state.items[state.current].id;
  const same = name === null || name === undefined ? -1 : found.items.findIndex((item) => item.id === name);
  Object.assign(state, { items: found.items, total: found.total, classes: found.classes });
  state.versions.suspects = found.version;
  at("count").textContent = `${found.total.toLocaleString("en")} of ${found.all.toLocaleString("en")} suspects, ${found.settled.toLocaleString("en")} decided`;
  at("page").textContent = `page ${state.page + 1} of ${pages}`;
  at("before").disabled = state.page === 0;
  at("after").disabled = state.page + 1 >= pages;
  drawCards();
  move(same >= 0 ? same : keep ? state.current : 0);
  document.body.dataset.ready = "yes";
}

function choices(select, names, first) {
  const before = select.value;
  select.replaceChildren(...first, ...names.map((name) => { const option = make("option", name); option.value = name; return option; }));
  select.value = before;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

function fillChoices() {
  for (const id of ["given", "suggested"]) {
    const any = make("option", "any");
    any.value = "";
    choices(at(id), state.classes, [any]);
  }
  choices(at("class"), state.classes, []);
}

async function send(word, label) {
  const item = word === "undo" ? null : state.items[state.current];
  const id = item ? item.id : state.made.pop();
  if (id === undefined) { at("news").textContent = "There is nothing to undo in this tab."; return; }
  const seen = item && item.decision ? [item.decision.decision, item.decision.label] : null;
  try {
    const { decision, changed } = await ask("/decisions", { id, decision: word, label: label === undefined ? null : label, author: at("author").value });
    away(false);
    const other = changed && item && JSON.stringify(changed) !== JSON.stringify(seen);
    at("news").textContent = word === "undo" ? `Undone: ${id}.`
      : `${id}: ${tell(decision)}.${other ? ` Somebody else had decided: ${tell({ decision: changed[0], label: changed[1] })}.` : ""}`;
    if (word !== "undo") {
      state.made.push(id);
      item.decision = decision;
      const card = at("cards").querySelectorAll(".card")[state.current];
      if (card) fillCard(card, item);
      await next();
    } else {
      await load(true);
      const place = state.items.findIndex((other) => other.id === id);
      if (place >= 0) move(place);
    }
  } catch (error) {
    if (word === "undo") state.made.push(id);
    away(error instanceof TypeError);
    at("news").textContent = `Not saved: ${error.message}`;
  }
}

async function next() {
  for (let step = 1; step < state.items.length; step += 1) {
    const number = (state.current + step) % state.items.length;
    if (!state.items[number].decision) return move(number);
  }
  await load(false);
}

function decide(word) {
  /* One after another: a key pressed twice is two decisions, about two suspects. */
  state.busy = state.busy.then(() => {
    const item = state.items[state.current];
    if (word === "undo") return send("undo");
    if (!item) return undefined;
    if (word === "relabel") return send("relabel", item.suggested);
    if (word === "other") {
      at("others").hidden = false;
      at("class").focus();
      return undefined;
    }
    return send(word);
  });
  return state.busy;
}

function relabel(label) {
  if (label === undefined) return;
  at("others").hidden = true;
  at("desk").focus();
  state.busy = state.busy.then(() => send("relabel", label));
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

function away(is) { at("away").hidden = !is; }

async function refresh(id) {
  const answer = await fetch(`/${id}`, { credentials: "same-origin" });
  if (answer.ok) at(id).innerHTML = await answer.text(); /* rendered and escaped by tamis watch */
}

async function poll() {
  try {
    const found = await ask("/state");
    away(false);
    at("state").textContent = found.state;
    if (!document.hidden && found.curves !== state.versions.curves) {
      await Promise.all([refresh("tiles"), refresh("curves")]);
      state.versions.curves = found.curves;
    }
    if (!document.hidden && found.suspects !== state.versions.suspects) {
      await state.busy;
      await load(true);
      fillChoices();
      await refresh("tiles");
    }
  } catch (error) {
    away(true);
  }
  setTimeout(poll, LEAST_WAIT);
}

async function begin() {
  const name = localStorage.getItem("tamis author");
  if (name) at("author").value = name;
  at("author").addEventListener("change", () => localStorage.setItem("tamis author", at("author").value));
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["given", "suggested", "low", "high", "which"]) at(id).addEventListener("change", () => { state.page = 0; load(false); });
  at("before").addEventListener("click", () => { state.page -= 1; load(false); });
  at("after").addEventListener("click", () => { state.page += 1; load(false); });
  at("desk").addEventListener("keydown", onKey);
  for (const button of at("words").querySelectorAll("[data-word]")) button.addEventListener("click", () => decide(button.dataset.word));
  at("choose").addEventListener("click", () => relabel(at("class").value));
  at("class").addEventListener("keydown", (event) => { if (event.key === "Enter") relabel(at("class").value); });
  try {
    await load(false);
    fillChoices();
    at("desk").focus({ preventScroll: true });
  } catch (error) {
    away(true);
  }
  poll();
}

begin();
