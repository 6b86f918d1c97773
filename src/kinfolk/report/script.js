"use strict";
// Everything on the page comes from this one object; names are data and only ever become text.
const D = JSON.parse(document.getElementById("summary").textContent);
const T = D.names.length;
const EDGES_DRAWN = 2500, ROWS_SHOWN = 100, LABELLED = 400;
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// ---- elements and numbers
const fill = (node, attributes, children) => {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
};
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const name = (t) => el("bdi", {}, D.names[t]);
const cut = (text, most) => {
  const letters = Array.from(text.replace(/\s+/g, " "));
  return letters.length <= most ? letters.join("") : letters.slice(0, most - 1).join("") + "…";
};
const say = (v) => {
  if (v === null || v === undefined) return "–";
  if (typeof v !== "number") return String(v);
  if (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e6)) return v.toExponential(2);
  return v.toLocaleString("en", { maximumSignificantDigits: 4 });
};
const columns = (key) => D.tasks[key];
const groupOf = (t) => columns("group")[t];
const groupName = (g) => (g < 0 ? "alone" : `group ${g + 1}`);
const SHAPES = [null, "M-1 -1H1V1H-1z", "M0 -1.25L1.15 0.85H-1.15z", "M0 -1.35L1.35 0L0 1.35L-1.35 0z"];
const shape = (g) => (g < 0 ? null : SHAPES[Math.floor(g / D.palette.length) % SHAPES.length]);  // null is a disc
const marker = (g, attributes) => (shape(g) ? svg("path", { ...attributes, d: shape(g) }) : svg("circle", attributes));
const sized = (node, r) => (node.tagName === "path" ? node.setAttribute("transform", `scale(${r})`) : node.setAttribute("r", r));
const told = (key, v) => (key === "gain" && typeof v === "number" ? (Math.round(10 * v) / 10 + 0).toFixed(1) : say(v));  // never -0.0
const lost = (key, v) => key === "gain" && v !== null && v <= -5;  // per cent, as in the sentences above
const colour = (g) => (g < 0 ? D.outlier : D.palette[g % D.palette.length]);
const inkOn = (hex) => {
  const [r, g, b] = [1, 3, 5].map((k) => (parseInt(hex.slice(k, k + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#111" : "#fff";
};

// ---- tooltip
const tip = $("tip");
const facts = (t) => [
  D.names[t].length > 80 ? cut(D.names[t], 80) : D.names[t],
  ...D.columns.map((c) => `${c.label}: ${c.key === "group" ? groupName(groupOf(t)) : told(c.key, columns(c.key)[t])}`),
].join("\n");
const showTip = (text, x, y) => {
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 8))}px`;
};
const hideTip = () => { tip.hidden = true; };

// ---- what is selected
const view = D.view, canvas = $("view");
let opened = null, wanted = null, pressed = null;
const marks = [];  // functions that redraw what depends on the selection
const refresh = () => marks.forEach((mark) => mark());
const faint = (t) => (wanted !== null && !wanted.has(t)) || (pressed !== null && groupOf(t) !== pressed);

// ---- matrix and tree, for methods without a graph
const leaf = (tasks, x, y, anchor, text) => {
  const side = anchor === "end" ? -1 : 1;
  const node = svg("g", { class: "leaf", role: "button", tabindex: 0, "aria-label": text, onclick: () => openTask(tasks[0]) },
    svg("circle", { cx: x + 4 * side, cy: y - 4, r: 3.5, fill: colour(groupOf(tasks[0])) }),
    svg("text", { x: x + 11 * side, y, "text-anchor": anchor }, cut(text, 16)));
  node.addEventListener("keydown", (event) => { if (event.key === "Enter") openTask(tasks[0]); });
  marks.push(() => {
    node.classList.toggle("open", tasks.includes(opened));
    node.classList.toggle("faint", tasks.every(faint));
  });
  return node;
};
const labelWidth = (names) => 20 + 7.4 * Math.max(...names.map((text) => Math.min(Array.from(text).length, 16)));
const drawMatrix = () => {
  const n = view.values.length, room = canvas.clientWidth || 700;
  const label = (row) => (view.blocks[row].length > 1 ? `${D.names[view.blocks[row][0]]} and ${view.blocks[row].length - 1} more` : D.names[view.blocks[row][0]]);
  const wide = labelWidth(view.blocks.map((_, row) => label(row))), text = Math.min(room - wide - 16, 640) / n >= 11;
  const left = text ? wide : 8, size = Math.min(room - left - 8, 640), cell = size / n;
  canvas.setAttribute("viewBox", `0 0 ${room} ${size + 16}`);
  canvas.setAttribute("aria-label", view.what);
  const shade = (v) => (v >= 0 ? `rgb(0 114 178 / ${Math.min(v, 1)})` : `rgb(213 94 0 / ${Math.min(-v, 1)})`);
  view.values.forEach((row, i) => {
    if (text) canvas.append(leaf(view.blocks[i], left - 4, 8 + (i + 0.5) * cell + 4, "end", label(i)));
    row.forEach((v, j) => {
      if (v !== 0) canvas.append(svg("rect", { x: left + j * cell, y: 8 + i * cell, width: cell, height: cell, fill: shade(v), "data-at": `${i} ${j}` }));
    });
  });
  canvas.append(svg("rect", { x: left, y: 8, width: size, height: size, class: "branch", "pointer-events": "none" }));
  const at = (event) => event.target.dataset?.at?.split(" ").map(Number);
  canvas.addEventListener("pointerover", (event) => {
    const [i, j] = at(event) || [];
    if (i !== undefined) showTip(`${cut(label(i), 60)}\n${cut(label(j), 60)}\n${say(view.values[i][j])}`, event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerout", hideTip);
  canvas.addEventListener("click", (event) => { if (at(event)) openTask(view.blocks[at(event)[0]][0]); });
  const averaged = n < T ? ` ${say(T)} tasks are more than can be drawn: each cell is the mean over a block of them.` : "";
  $("picture-said").textContent = view.empty ? "There is nothing to draw: no two tasks are related."
    : `${view.what}. Blue is positive, orange negative, the stronger the darker; the tasks of a group stand together.${averaged} ${D.limit}`;
};
const drawTree = () => {
  const row = 18, room = canvas.clientWidth || 700, right = room - labelWidth(D.names);
  const x = (h) => right - ((right - 16) * h) / view.levels, y = (k) => 16 + row * k;
  canvas.classList.add("tall");
  canvas.setAttribute("viewBox", `0 0 ${room} ${row * T + 20}`);
  canvas.setAttribute("aria-label", `Tree of ${T} tasks`);
  for (const [x1, y1, x2, y2] of view.lines) {
    canvas.append(svg("line", { class: "branch", x1: x(x1), y1: y(y1), x2: x(x2), y2: y(y2) }));
  }
  view.order.forEach((t, k) => canvas.append(leaf([t], right, y(k) + 4, "start", D.names[t])));
  $("picture-said").textContent = `Tasks on the right; the further left two branches meet, the less the tasks have in common. ${D.limit}`;
};

// ---- small charts
const frame = (id, xs, ys, labels) => {
  const box = { left: 76, top: 10, width: 326, height: 250 };
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const X = (v) => box.left + (box.width * (v - x0)) / (x1 - x0 || 1), Y = (v) => box.top + box.height * (1 - (v - y0) / (y1 - y0 || 1));
  const chart = typeof id === "string" ? $(id) : id;
  chart.setAttribute("viewBox", "0 0 420 305");
  const brief = (low, high) => {  // as many digits as tell the ends apart
    const most = Math.max(Math.abs(low), Math.abs(high)), digits = Math.max(3, Math.min(7, 2 + Math.ceil(Math.log10(most / (high - low || 1)))));
    return (v) => (most >= 1e6 || (most > 0 && most < 1e-3) ? v.toExponential(2) : String(Number(v.toPrecision(digits))));
  };
  const [saidX, saidY] = [brief(x0, x1), brief(y0, y1)];
  for (const part of [0, 0.5, 1]) {
    const vx = x0 + part * (x1 - x0), vy = y0 + part * (y1 - y0);
    chart.append(svg("line", { class: "grid", x1: box.left, x2: box.left + box.width, y1: Y(vy), y2: Y(vy) }),
      svg("text", { x: box.left - 5, y: Y(vy) + 4, "text-anchor": "end" }, saidY(vy)),
      svg("text", { x: X(vx), y: box.top + box.height + 16, "text-anchor": part === 1 ? "end" : "middle" }, saidX(vx)));
  }
  chart.append(svg("text", { x: box.left + box.width / 2, y: 298, "text-anchor": "middle" }, labels[0]),
    svg("text", { transform: `translate(12 ${box.top + box.height / 2}) rotate(-90)`, "text-anchor": "middle" }, labels[1]));
  return { chart, X, Y };
};
const drawErrors = () => {
  const own = columns("own"), error = columns("error");
  const both = D.names.map((_, t) => t).filter((t) => own[t] !== null && error[t] !== null);
  if (!both.length) return;
  $("errors").hidden = false;
  $("protocol").textContent = D.errors;
  // The 98th percentile bounds the picture, so that one task does not squeeze all others into a corner.
  const all = both.flatMap((t) => [own[t], error[t]]).sort((a, b) => a - b);
  const top = 1.02 * all[Math.min(all.length - 1, Math.ceil(0.98 * all.length))];
  const { chart, X, Y } = frame("error-plot", [0, top], [0, top], ["own ridge (RMSE)", "model (RMSE)"]);
  chart.append(svg("line", { class: "axis", x1: X(0), y1: Y(0), x2: X(top), y2: Y(top) }));
  const beyond = both.filter((t) => Math.max(own[t], error[t]) > top).length;
  if (beyond) $("protocol").textContent += ` ${beyond} task(s) with larger errors stand at the edge of the picture.`;
  for (const t of both) {
    const dot = svg("circle", { class: error[t] > 1.05 * own[t] ? "point task harmed" : "point task", cx: X(Math.min(own[t], top)), cy: Y(Math.min(error[t], top)), r: T > 300 ? 3 : 5, style: `fill: ${colour(groupOf(t))}` });
    dot.addEventListener("pointerover", (event) => showTip(facts(t), event.clientX, event.clientY));
    dot.addEventListener("pointerout", hideTip);
    dot.addEventListener("click", () => openTask(t));
    marks.push(() => dot.classList.toggle("open", t === opened));
    chart.append(dot);
  }
};
const drawCourse = () => {
  const history = D.course.history, rounds = history.map((_, k) => k);
  $("course-said").append(...D.course.said.map((text) => el("p", {}, text)));
  $("certificate").append(...D.course.rows.map(([what, value]) => el("tr", {}, el("td", {}, what), el("td", { class: "number" }, value))));
  if (history.length > 1) {
    const { chart, X, Y } = frame("course-plot", rounds, history, ["round", "objective"]);
    chart.append(svg("polyline", { class: "curve", points: rounds.map((k) => `${X(k)},${Y(history[k])}`).join(" ") }));
    if (rounds.length <= 40) chart.append(...rounds.map((k) => svg("circle", { class: "point", cx: X(k), cy: Y(history[k]), r: 3 })));
  } else $("course-plot").setAttribute("hidden", "");
  if (!D.course.said.length && !D.course.rows.length) $("course").hidden = true;
};

// ---- the panel of one task
const link = (t) => el("button", { type: "button", class: "link", title: cut(D.names[t], 200), onclick: () => openTask(t) }, name(t));
const part = (title, ...content) => [el("h3", {}, title), ...content];
const neighbourPart = (t) => {
  const edges = [...links[t]].sort((a, b) => level.w[b] - level.w[a]);
  if (!edges.length) return part("Neighbours", el("p", { class: "said" }, "None in this graph."));
  const sure = Boolean(level.c), head = ["task", "weight", ...(sure ? ["confidence"] : [])];
  return part(`Neighbours (${edges.length})`, el("table", { id: "neighbours" },
    el("tr", {}, ...head.map((h, k) => el("th", { class: k ? "number" : null }, h))),
    ...edges.slice(0, 25).map((e) => el("tr", {}, el("td", {}, link(other(e, t))), el("td", { class: "number" }, say(level.w[e])),
      sure ? el("td", { class: "number" }, say(level.c[e])) : null))));
};
const bar = (value, mean, most, error = 0) => {
  const x = (v) => 50 + (48 * Math.max(-most, Math.min(v, most))) / most;
  return svg("svg", { viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { class: "axis", x1: 50, x2: 50, y1: 0, y2: 14 }),
    svg("rect", { class: "bar-fill", x: Math.min(x(0), x(value)), width: Math.abs(x(value) - 50), y: 3, height: 8 }),
    error ? svg("line", { class: "bar-range", x1: x(value - 1.645 * error), x2: x(value + 1.645 * error), y1: 7, y2: 7 }) : null,
    mean === null ? null : svg("path", { class: "bar-mean", d: `M${x(mean)} 1 l2.2 6 l-2.2 6 l-2.2 -6 z` }));
};
const coefficientPart = (t, all) => {
  const own = D.coef[t], mean = groupOf(t) < 0 ? null : D.group_coef[groupOf(t)];
  const effect = (w, j) => w[j] * D.spread[j];
  const most = Math.max(...[own, mean || own].flatMap((w) => w.map((_, j) => Math.abs(effect(w, j))))) || 1;
  const order = own.map((_, j) => j).sort((a, b) => Math.abs(effect(own, b)) - Math.abs(effect(own, a)));
  const shown = all ? order : order.slice(0, 12);
  const rest = order.length - shown.length;
  const se = D.coef_se ? D.coef_se[t] : null, range = (j) => se && se[j] !== null;
  const interval = (j) => `${brief(own[j] - 1.645 * se[j])} to ${brief(own[j] + 1.645 * se[j])}`, brief = (v) => say(Number(v.toPrecision(3)));
  const said = `Bars are coefficient times the spread of the feature within tasks, largest first${mean ? "; the diamond is the mean of the group" : ""}${se ? "; the thin line is the 90 % interval" : ""}. Numbers are coefficients. Intercept ${say(columns("intercept")[t])}.`;
  const holder = el("div", { id: "coefficients" }, el("p", { class: "said" }, said), el("div", { class: "bars" }, ...shown.flatMap((j) => [
    el("span", { title: cut(D.features[j], 200) }, el("bdi", {}, D.features[j])), bar(effect(own, j), mean && effect(mean, j), most, range(j) ? se[j] * D.spread[j] : 0),
    el("span", { class: "number", title: mean ? `group mean ${say(mean[j])}` : null }, say(own[j]),
      range(j) ? el("small", {}, ` ${interval(j)}`) : null)])));
  if (rest > 0) holder.append(el("button", { type: "button", onclick: () => holder.replaceWith(coefficientPart(t, true)[1]) }, `Show ${rest} more`));
  return part("Coefficients", holder);
};
const sharePart = (t) => {
  if (!D.shares || !D.shares[t]) return [];
  const [tasks, shares, prior] = D.shares[t], most = Math.max(prior, ...shares.map(Math.abs));
  const row = (what, share) => [what, bar(share, null, most), el("span", { class: "number" }, `${(100 * share).toFixed(1)} %`)];
  return part("Whose data made its coefficients", el("p", { class: "said" }, "How much each task is listened to, largest first."),
    el("div", { class: "bars", id: "shares" }, ...tasks.flatMap((u, k) => (Math.abs(shares[k]) < 5e-4 ? [] : row(link(u), shares[k]))), ...row(el("span", {}, "the penalty"), prior)));
};
const pointPart = (t) => {
  const points = D.points && D.points[t];
  if (!points || !points[0].length) return [];
  const both = points.flat(), range = [Math.min(...both), Math.max(...both)];
  const { chart, X, Y } = frame(svg("svg", { role: "img", "aria-label": "Observed against predicted", id: "scatter" }), range, range, ["observed", "predicted"]);
  chart.append(svg("line", { class: "axis", x1: X(range[0]), y1: Y(range[0]), x2: X(range[1]), y2: Y(range[1]) }),
    ...points[0].map((v, k) => svg("circle", { class: "point", cx: X(v), cy: Y(points[1][k]), r: 4 })));
  return part("Predictions", chart, el("p", { class: "said" }, `${points[0].length} of the rows given, by the model as fitted.`));
};
const fillPanel = (t) => {
  const close = el("button", { type: "button", class: "close", "aria-label": "Close", onclick: closeTask }, "×");
  $("panel").replaceChildren(
    el("div", { class: "top" }, el("h2", { id: "panel-title", tabindex: -1 }, name(t)), close),
    el("table", { class: "facts", id: "panel-facts" }, ...D.columns.map((c) => el("tr", { title: c.help }, el("td", {}, c.label),
      el("td", { class: lost(c.key, columns(c.key)[t]) ? "number lost" : "number" }, c.key === "group" ? groupName(groupOf(t)) : told(c.key, columns(c.key)[t]))))),
    ...(level ? neighbourPart(t) : []), ...coefficientPart(t), ...sharePart(t), ...pointPart(t));
};
let cameFrom = null;
const openTask = (t) => {
  if (opened === null) cameFrom = document.activeElement;
  opened = t;
  hideTip();
  $("panel").hidden = false;
  document.querySelector(".stage").classList.add("open");
  fillPanel(t);
  if (level) { fitGraph(); bringIntoView(t); }
  refresh();
  $("panel-title").focus({ preventScroll: true });
  $("panel").scrollTop = 0;
  const box = $("panel").getBoundingClientRect();
  if (box.top > innerHeight - 120 || box.bottom < 120) $("panel").scrollIntoView({ block: "start" });
};
const closeTask = () => {
  if (opened === null) return;
  opened = null;
  $("panel").hidden = true;
  document.querySelector(".stage").classList.remove("open");
  if (level) fitGraph();
  refresh();
  if (cameFrom?.isConnected) cameFrom.focus();
};

// ---- search, legend, table
const listenToSearch = () => {
  const input = $("search"), list = $("found");
  const look = () => {
    const text = input.value.trim().toLowerCase();
    const hits = text ? D.names.map((_, t) => t).filter((t) => D.names[t].toLowerCase().includes(text)) : [];
    wanted = text ? new Set(hits) : null;
    list.hidden = !text;
    list.replaceChildren(...hits.slice(0, 8).map((t) => el("li", {}, el("button", { type: "button", onclick: () => take(t) }, name(t)))));
    if (text && hits.length !== 1) list.append(el("li", {}, el("p", { class: "said" }, hits.length > 8 ? `${hits.length} tasks, the first 8 here` : `${hits.length} tasks`)));
    refresh();
    return hits;
  };
  const take = (t) => { list.hidden = true; input.value = ""; wanted = null; cameFrom = null; openTask(t); cameFrom = input; };
  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { const hits = look(); if (hits.length) take(hits[0]); }
    if (event.key === "ArrowDown") { list.querySelector("button")?.focus(); event.preventDefault(); }
  });
  list.addEventListener("keydown", (event) => {
    const move = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!move) return;
    (document.activeElement.parentElement[move]?.querySelector("button") || input).focus();
    event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    if (!list.hidden) { input.value = ""; look(); input.focus(); } else closeTask();
  });
};
const drawLegend = () => {
  const count = new Map();
  columns("group").forEach((g) => count.set(g, (count.get(g) || 0) + 1));
  const groups = [...count.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b), shown = groups.filter((g, k) => k < 14 || g < 0);
  for (const g of shown) {
    const chip = svg("svg", { class: "chip", viewBox: "-1.6 -1.6 3.2 3.2", "aria-hidden": "true" }, marker(g, { r: 1.2, fill: colour(g), class: g < 0 ? "alone" : null }));
    const button = el("button", { type: "button", "aria-pressed": "false" }, chip, `${groupName(g)} (${count.get(g)})`);
    button.addEventListener("click", () => { pressed = pressed === g ? null : g; refresh(); });
    marks.push(() => button.setAttribute("aria-pressed", String(pressed === g)));
    $("legend").append(el("li", {}, button));
  }
  if (shown.length < groups.length) $("legend").append(el("li", { class: "said" }, `and ${groups.length - shown.length} smaller groups`));
};
const drawTable = () => {
  const heads = [{ key: null, label: "task", help: "" }, ...D.columns];
  let order = D.names.map((_, t) => t), sorted = { key: "group", down: false }, most = ROWS_SHOWN;
  const value = (key, t) => (key === null ? D.names[t] : key === "group" && groupOf(t) < 0 ? Infinity : columns(key)[t]);
  const compare = (key, down) => (a, b) => {
    const [x, y] = [value(key, a), value(key, b)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    const before = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (down ? -1 : 1) * (Number.isNaN(before) ? 0 : before) || a - b;
  };
  const numeric = (key) => key !== null && columns(key).some((v) => typeof v === "number");
  const kind = (key) => `${numeric(key) ? "number" : ""} of-${String(key).replace(/\W/g, "-")}`;
  const row = (t) => {
    const cells = D.columns.map((c) => el("td", { class: kind(c.key) + (lost(c.key, columns(c.key)[t]) ? " lost" : "") },
      c.key === "group" ? (groupOf(t) < 0 ? "–" : String(groupOf(t) + 1)) : told(c.key, columns(c.key)[t])));
    return el("tr", { "data-task": t, class: t === opened ? "open" : null }, el("td", {}, link(t)), ...cells);
  };
  const body = el("tbody", {});
  const write = () => {
    body.replaceChildren(...order.slice(0, most).map(row));
    $("more").hidden = order.length <= most;
    $("more").textContent = `Show all ${say(order.length)} tasks`;
    $("table-said").textContent = order.length > most ? `The first ${most} of ${say(order.length)} tasks in this order. ${D.limit}` : D.limit;
  };
  const headers = heads.map((h) => el("th", { class: h.key === null ? null : kind(h.key), scope: "col", title: h.help || null },
    el("button", { type: "button", onclick: () => sort(h.key) }, h.label)));
  const sort = (key) => {
    sorted = { key, down: sorted.key === key && !sorted.down };
    order = D.names.map((_, t) => t).sort(compare(key, sorted.down));
    headers.forEach((th, k) => th.setAttribute("aria-sort", heads[k].key !== key ? "none" : sorted.down ? "descending" : "ascending"));
    write();
  };
  $("tasks").append(el("thead", {}, el("tr", {}, ...headers)), body);
  $("more").addEventListener("click", () => { most = Infinity; write(); });
  const tasksTable = () => [heads.map((h) => h.label), ...order.map((t) => heads.map((h) => (h.key === "group" ? (groupOf(t) < 0 ? "" : groupOf(t) + 1) : value(h.key, t))))];
  $("save-tasks").addEventListener("click", () => saveTable("tasks.csv", tasksTable()));
  marks.push(() => body.querySelectorAll("tr").forEach((tr) => tr.classList.toggle("open", Number(tr.dataset.task) === opened)));
  sorted.down = true;
  sort("group");
};

// ---- what can be taken along
const save = (name, type, text) => {
  const link = el("a", { download: name, href: `data:${type};charset=utf-8,${encodeURIComponent(text)}` });
  document.body.append(link);
  link.click();
  link.remove();
};
const saveTable = (name, rows) => {
  const cell = (v) => (v === null || v === undefined ? "" : /[",\n\r]/.test(String(v)) ? `"${String(v).replace(/"/g, '""')}"` : String(v));
  save(name, "text/csv", rows.map((row) => row.map(cell).join(",")).join("\n") + "\n");
};
const coefficientTable = () => {
  const head = ["task", "feature", "coefficient", ...(D.coef_se ? ["standard error"] : [])];
  return [head, ...D.names.flatMap((task, t) => D.features.map((feature, j) => [task, feature, D.coef[t][j], ...(D.coef_se ? [D.coef_se[t][j]] : [])]))];
};
const PAINT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "text-anchor", "visibility"];
const pictureText = () => {  // a copy that needs no style sheet
  const copy = canvas.cloneNode(true), box = canvas.getBoundingClientRect();
  const [from, to] = [canvas, copy].map((root) => [...root.querySelectorAll("*")]);
  from.forEach((node, k) => { const style = getComputedStyle(node); PAINT.forEach((name) => to[k].style.setProperty(name, style.getPropertyValue(name))); });
  fill(copy, { xmlns: SVG, width: box.width, height: box.height }, []);
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor }));
  return new XMLSerializer().serializeToString(copy);
};
const savePng = () => {
  const box = canvas.getBoundingClientRect(), image = new Image();
  image.onload = () => {
    const paper = el("canvas", { width: 2 * box.width, height: 2 * box.height });
    paper.getContext("2d").drawImage(image, 0, 0, paper.width, paper.height);
    const link = el("a", { download: "graph.png", href: paper.toDataURL("image/png") });
    link.click();
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(pictureText())}`;
};

// ---- start
const start = () => {
  drawLegend();
  ({ graph: drawGraph, matrix: drawMatrix, tree: drawTree })[view.kind]();
  drawTable();
  if (D.errors) drawErrors();
  $("kinds").hidden = !D.kinds || !D.kinds.length;
  $("kinds-said").append(...(D.kinds || []).map((text) => el("li", {}, text)));
  $("save-coefficients").addEventListener("click", () => saveTable("coefficients.csv", coefficientTable()));
  $("save-svg").addEventListener("click", () => save("graph.svg", "image/svg+xml", pictureText()));
  $("save-png").addEventListener("click", savePng);
  drawCourse();
  for (const id of ["data", "settings"]) {
    $(id).append(...D[id].map(([what, text]) => el("tr", {}, el("td", {}, what), el("td", {}, el("bdi", {}, text)))));
  }
  listenToSearch();
  refresh();
};
