"use strict";
/* Charts: values under the pointer or by the arrow keys, a legend that hides lines, cells of heat maps in words.
   Everything is drawn without this script already. What it shows is in `data-chart`, and is set as text. */

const charts = (() => {
  const hidden = new Set(); /* lines that were hidden, by chart and name: charts may be drawn again */
  const SVG = "http://www.w3.org/2000/svg", KEYS = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
  const NEAR = 0.02; /* of the axis: what is as near to the cursor is read with it */

  const make = (name, style, text) => {
    const element = document.createElement(name);
    element.className = style;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const share = ([low, high], value) => (value - low) / (high - low);
  const written = (value, unit) => (unit === "share" ? value.toFixed(3) : `${value.toFixed(1)} ms`);
  const keyOf = (figure, name) => `${figure.dataset.name}/${name}`;

  function nearest(slots, slot) {
    let low = 0, high = slots.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (slots[middle] < slot) low = middle + 1; else high = middle;
    }
    return low > 0 && slot - slots[low - 1] <= slots[low] - slot ? low - 1 : low;
  }

  function visible(figure) { return figure.read.lines.filter((line) => !hidden.has(keyOf(figure, line.name))); }

  function reach({ slots }, [low, high]) {
    /* How far from the cursor the nearest slot of a line may be. */
    return Math.max(NEAR * (high - low), (slots[slots.length - 1] - slots[0]) / Math.max(1, slots.length - 1) / 2 + 0.5);
  }

  function textOf(line, at, unit) {
    const band = line.low ? ` (${written(line.low[at], unit)} to ${written(line.high[at], unit)})` : "";
    return `${written(line.values[at], unit)}${band}`;
  }

  function readAt(figure, slot, spoken) {
    /* Put the cursor at a slot, and the values of all visible lines beside it. */
    const { read, tip, cursor, area } = figure, found = [];
    for (const line of visible(figure)) {
      const at = nearest(line.slots, slot);
      if (Math.abs(line.slots[at] - slot) <= reach(line, read.width)) found.push([line, at]);
    }
    if (!found.length) return leave(figure);
    figure.slot = slot;
    const x = share(read.width, slot), mean = Math.max(...found.map(([line]) => line.mean));
    cursor.replaceChildren();
    const rule = document.createElementNS(SVG, "line");
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: 1 })) rule.setAttribute(name, `${100 * value}%`);
    cursor.append(rule);
    const rows = found.map(([line, at]) => {
      const dot = document.createElementNS(SVG, "circle"), y = 1 - share(read.height, line.values[at]);
      dot.setAttribute("class", line.style);
      dot.setAttribute("r", "4");
      dot.setAttribute("cx", `${100 * share(read.width, line.slots[at])}%`);
      dot.setAttribute("cy", `${100 * Math.max(0, Math.min(1, y))}%`);
      cursor.append(dot);
      const row = make("div", ""), swatch = make("i", line.style);
      const when = Math.abs(line.slots[at] - slot) > 0.5 ? ` at ${Math.round(line.slots[at]).toLocaleString("en")}` : "";
      row.append(swatch, make("span", "name", line.name), make("b", "", textOf(line, at, read.unit) + when));
      return row;
    });
    const title = `slot ${Math.round(slot).toLocaleString("en")}${mean > 1 ? `, mean of ${mean.toLocaleString("en")}` : ""}`;
    const marks = read.marks.filter((mark) => Math.abs(mark.slot - slot) <= NEAR / 2 * (read.width[1] - read.width[0])).map((mark) => make("div", "mark", `${mark.text}, slot ${mark.slot.toLocaleString("en")}`));
    tip.replaceChildren(make("div", "soft", title), ...rows, ...marks);
    tip.hidden = false;
    const box = area.getBoundingClientRect(), plot = figure.plot.getBoundingClientRect(), wide = tip.offsetWidth;
    const place = plot.left - box.left + x * plot.width, left = place + 12 + wide > box.width ? place - wide - 12 : place + 12;
    tip.style.left = `${Math.max(0, Math.min(box.width - wide, left))}px`;
    if (spoken) figure.spoken.textContent = `${title}: ${found.map(([line, at]) => `${line.name} ${textOf(line, at, read.unit)}`).join("; ")}`;
  }

  function leave(figure) {
    figure.tip.hidden = true;
    figure.cursor.replaceChildren();
    figure.slot = null;
  }

  function slotsOf(figure) { return [...new Set(visible(figure).flatMap((line) => line.slots))].sort((one, two) => one - two); }

  function onKey(figure, event) {
    if (event.key === "Escape") return leave(figure);
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const slots = slotsOf(figure), last = slots.length - 1;
    if (last < 0) return;
    const from = figure.slot === null ? (KEYS[event.key] > 0 ? -1 : last + 1) : nearest(slots, figure.slot);
    readAt(figure, slots[Math.max(0, Math.min(last, from + KEYS[event.key]))], true);
  }

  function onPointer(figure, event) {
    const box = figure.plot.getBoundingClientRect(), { width } = figure.read;
    const x = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)), slots = slotsOf(figure);
    if (slots.length) readAt(figure, slots[nearest(slots, width[0] + x * (width[1] - width[0]))], false);
  }

  function toggle(figure, name, button) {
    const key = keyOf(figure, name), hide = !hidden.has(key);
    if (hide) hidden.add(key); else hidden.delete(key);
    apply(figure);
    button.focus();
    if (figure.slot !== null) readAt(figure, figure.slot, false);
  }

  function apply(figure) {
    figure.read.lines.forEach((line, number) => {
      const off = hidden.has(keyOf(figure, line.name));
      line.group.classList.toggle("off", off);
      figure.buttons[number].setAttribute("aria-pressed", String(!off));
    });
  }

  function prepareChart(figure) {
    figure.read = JSON.parse(figure.dataset.chart);
    figure.area = figure.querySelector(".area");
    figure.plot = figure.querySelector("svg.lines");
    figure.slot = null;
    figure.cursor = document.createElementNS(SVG, "g");
    figure.cursor.setAttribute("class", "cursor");
    figure.querySelector("svg.over").append(figure.cursor);
    figure.tip = make("div", "tip");
    figure.tip.hidden = true;
    figure.spoken = make("p", "spoken");
    figure.spoken.setAttribute("role", "status");
    figure.area.append(figure.tip);
    figure.append(figure.spoken);
    const groups = [...figure.plot.querySelectorAll("g:not(.background)")];
    figure.buttons = [...figure.querySelectorAll(".legend li")].map((entry, number) => {
      const line = figure.read.lines[number], button = make("button", "");
      line.group = groups[number];
      line.style = line.group.getAttribute("class");
      button.type = "button";
      button.dataset.focus = keyOf(figure, line.name);
      button.append(...entry.childNodes);
      entry.append(button);
      button.addEventListener("click", () => toggle(figure, line.name, button));
      return button;
    });
    figure.area.tabIndex = 0;
    figure.area.dataset.focus = keyOf(figure, "");
    figure.area.setAttribute("aria-roledescription", "chart, arrow keys read its values");
    figure.area.addEventListener("keydown", (event) => onKey(figure, event));
    figure.area.addEventListener("pointermove", (event) => onPointer(figure, event));
    figure.area.addEventListener("pointerdown", (event) => onPointer(figure, event));
    figure.area.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(figure); });
    figure.area.addEventListener("blur", () => leave(figure));
    apply(figure);
  }

  function prepareHeat(room) {
    const table = room.querySelector("table.heat"), reading = make("p", "reading soft");
    const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
    let at = null;
    reading.setAttribute("role", "status");
    reading.textContent = "Point at a cell, or use the arrow keys, to read it.";
    room.after(reading);
    function read(row, column, scroll) {
      const cell = rows[row].cells[column];
      table.querySelectorAll(".at").forEach((one) => one.classList.remove("at"));
      for (const one of [cell, rows[row].cells[0], heads[column]]) one.classList.add("at");
      at = [row, column];
      const parts = { value: cell.textContent || table.dataset.empty, row: rows[row].cells[0].textContent, column: heads[column].textContent };
      reading.textContent = table.dataset.sentence.replace(/\{(\w+)\}/g, (_, name) => parts[name]);
      if (scroll) cell.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    table.addEventListener("pointerover", (event) => {
      const cell = event.target.closest("td");
      if (cell && cell.parentNode.parentNode === table.tBodies[0]) read(rows.indexOf(cell.parentNode), cell.cellIndex, false);
    });
    room.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const [row, column] = at ? [at[0] + step[0], at[1] + step[1]] : [0, 1];
      read(Math.max(0, Math.min(rows.length - 1, row)), Math.max(1, Math.min(heads.length - 1, column)), true);
    });
  }

  function prepare(root) {
    document.documentElement.classList.add("scripted");
    root.querySelectorAll("figure.chart").forEach(prepareChart);
    root.querySelectorAll(".heat-room").forEach(prepareHeat);
  }

  function replace(element, markup) {
    /* Draw a part of the page again; a chart or a name of a legend that had the focus has it again. */
    const had = element.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
    const slot = had === undefined ? null : document.activeElement.closest("figure.chart").slot;
    element.innerHTML = markup; /* rendered and escaped by tamis watch */
    prepare(element);
    const again = had === undefined ? undefined : [...element.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === had);
    if (!again) return;
    again.focus({ preventScroll: true });
    if (slot !== null) readAt(again.closest("figure.chart"), slot, false);
  }

  prepare(document);
  return { replace };
})();
