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
const say = (v, least = 1, most = 4) => {
  if (v === null || v === undefined) return "–";
  if (typeof v !== "number") return String(v);
  if (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e6)) return v.toExponential(2);
  return v.toLocaleString("en", { minimumSignificantDigits: least, maximumSignificantDigits: most });
};
// Decimals of a column, for points below each other; null where all are whole numbers, or too large or small for it.
const decimals = (values) => {
  const most = values.reduce((m, v) => (typeof v === "number" ? Math.max(m, Math.abs(v)) : m), 0);
  return most < 1e-3 || most >= 1e6 || !values.some((v) => v % 1) ? null : Math.max(0, 3 - Math.floor(Math.log10(most)));
};
const even = (v, digits) => (digits === null || typeof v !== "number" || (v !== 0 && Math.abs(v) < 0.5 / 10 ** digits) ? say(v)
  : v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const columns = (key) => D.tasks[key];
const groupOf = (t) => columns("group")[t];
const groupName = (g) => (g < 0 ? "alone" : D.groupless ? "around one mean" : `group ${g + 1}`);
const groupCell = (g) => (g < 0 || D.groupless ? "–" : String(g + 1));
const SHAPES = [null, "M-1 -1H1V1H-1z", "M0 -1.25L1.15 0.85H-1.15z", "M0 -1.35L1.35 0L0 1.35L-1.35 0z"];
const shape = (g) => (g < 0 ? null : SHAPES[Math.floor(g / D.palette.length) % SHAPES.length]);  // null is a disc
const marker = (g, attributes) => (shape(g) ? svg("path", { ...attributes, d: shape(g) }) : svg("circle", attributes));
const sized = (node, r) => (node.tagName === "path" ? node.setAttribute("transform", `scale(${r})`) : node.setAttribute("r", r));
const told = (key, v, digits = null) => (key === "gain" && typeof v === "number" ? (Math.round(10 * v) / 10 + 0).toFixed(1) : even(v, digits));  // never -0.0
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
  const round = (low, high) => {  // multiples of 1, 2 or 5 times a power of ten: three to six of them
    const rough = (high - low) / 3 || 1, power = 10 ** Math.floor(Math.log10(rough)), step = power * [5, 2, 1].find((m) => m * power <= rough);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => (first + k) * step);
  };
  for (const v of round(y0, y1)) {
    chart.append(svg("line", { class: "grid", x1: box.left, x2: box.left + box.width, y1: Y(v), y2: Y(v) }),
      svg("text", { x: box.left - 5, y: Y(v) + 4, "text-anchor": "end" }, brief(y0, y1)(v)));
  }
  chart.append(...round(x0, x1).map((v) => svg("text", { x: X(v), y: box.top + box.height + 16, "text-anchor": "middle" }, brief(x0, x1)(v))));
  chart.append(svg("text", { x: box.left + box.width / 2, y: 298, "text-anchor": "middle" }, labels[0]),
    svg("text", { transform: `translate(12 ${box.top + box.height / 2}) rotate(-90)`, "text-anchor": "middle" }, labels[1]));
  return { chart, X, Y };
};
const drawChain = () => {
  if (!D.gains) return;
  $("chain").hidden = false;
  const left = [100];
  for (const step of D.gains) left.push(left[left.length - 1] - 100 * step.mean);
  const most = Math.max(...left), size = (v) => (260 * Math.max(v, 0)) / most, labels = [D.ridge, ...D.gains.map((step) => `+ ${step.label}`)];
  const all = 100 - left[left.length - 1], addsUp = Math.round(all) === D.gains.reduce((sum, step) => sum + Math.round(100 * step.mean), 0);
  const digits = Math.abs(all) < 10 || !addsUp ? 1 : 0, rounded = (v) => (Math.round(v * 10 ** digits) / 10 ** digits + 0).toFixed(digits);
  const change = (k) => {
    const { mean, error } = D.gains[k - 1], se = error ? ` ± ${(100 * error).toFixed(1)}` : "";
    return mean ? `${mean > 0 ? "−" : "+"}${rounded(100 * Math.abs(mean))}${se}` : "no part";
  };
  fill($("chain-plot"), { viewBox: `0 0 640 ${26 * left.length}` }, left.flatMap((v, k) => [
    svg("text", { x: 222, y: 26 * k + 17, "text-anchor": "end" }, cut(labels[k], 34)),
    svg("rect", { class: "bar-fill", x: 230, y: 26 * k + 4, width: size(v), height: 18 }),
    svg("text", { x: 236 + size(v), y: 26 * k + 17 }, k ? `${rounded(v)}  (${change(k)})` : "100")]));
};
if (D.units) $("kinds-brackets").textContent = D.units;
const drawErrors = () => {
  const own = columns("own"), error = columns("error");
  const both = D.names.map((_, t) => t).filter((t) => own[t] !== null && error[t] !== null);
  if (!D.errors) return;
  $("errors").hidden = false;
  $("protocol").textContent = D.errors;
  if (!both.length) {
    for (const node of [$("error-plot"), $("error-said")]) node.setAttribute("hidden", "");
    return;
  }
  // The 98th percentile bounds the picture, so that one task does not squeeze all others into a corner.
  const all = both.flatMap((t) => [own[t], error[t]]).sort((a, b) => a - b);
  const top = 1.02 * all[Math.min(all.length - 1, Math.ceil(0.98 * all.length))];
  const { chart, X, Y } = frame("error-plot", [0, top], [0, top], [`own ridge (${D.loss})`, `model (${D.loss})`]);
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
  const sure = Boolean(level.c), digits = decimals(edges.map((e) => level.w[e])), head = ["task", "weight", ...(sure ? ["confidence"] : [])];
  return part(`Neighbours (${edges.length})`, el("table", { id: "neighbours" },
    el("tr", {}, ...head.map((h, k) => el("th", { class: k ? "number" : null }, h))),
    ...edges.slice(0, 25).map((e) => el("tr", {}, el("td", {}, link(other(e, t))), el("td", { class: "number" }, even(level.w[e], digits)),
      sure ? el("td", { class: "number" }, level.c[e].toFixed(2)) : null))));
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
  const interval = (j) => `${brief(own[j] - 1.645 * se[j])} to ${brief(own[j] + 1.645 * se[j])}`, brief = (v) => say(v, 3, 3);
  const said = `Bars are coefficient times the spread of the feature within tasks, largest first${mean ? "; the diamond is the mean of the group" : ""}${se ? "; the thin line is the 90 % interval" : ""}. Numbers are coefficients.${columns("level") ? ` Level at mean inputs ${say(columns("level")[t])}.` : ""}${D.tasks.trunk ? ` These are the lines beside the boosted trees; they make ${Math.round(100 - D.tasks.trunk[t])}\u00a0% of the predictions.` : ""}`;
  const holder = el("div", { id: "coefficients" }, el("p", { class: "said" }, said), el("div", { class: "bars" }, ...shown.flatMap((j) => [
    el("span", { title: cut(D.features[j], 200) }, el("bdi", {}, D.features[j])), bar(effect(own, j), mean && effect(mean, j), most, range(j) ? se[j] * D.spread[j] : 0),
    el("span", { class: "number", title: mean ? `group mean ${say(mean[j])}` : null }, say(own[j], 4),
      range(j) ? el("small", {}, ` ${interval(j)}`) : null)])));
  if (rest > 0) holder.append(el("button", { type: "button", onclick: () => holder.replaceWith(coefficientPart(t, true)[1]) }, `Show ${rest} more`));
  return part("Coefficients", holder);
};
const sharePart = (t) => {
  if (!D.shares || !D.shares[t]) return [];
  const [tasks, shares, prior, own, trunk] = D.shares[t], most = Math.max(prior, trunk, ...shares.map(Math.abs)), percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
  const row = (what, share) => [what, bar(share, null, most), el("span", { class: "number" }, percent(share))];
  const said = `Its own rows ${percent(own)}, rows of other tasks ${percent(1 - own - prior - trunk)}${trunk ? `, boosted trees (rows of all tasks) ${percent(trunk)}` : ""}, the penalty ${percent(prior)}; by task, largest first:`;
  return part(trunk ? "Whose data made its predictions" : "Whose data made its coefficients", el("p", { class: "said", id: "shares-said" }, said),
    el("div", { class: "bars", id: "shares" }, ...(trunk ? row(el("span", {}, "boosted trees"), trunk) : []), ...tasks.flatMap((u, k) => (Math.abs(shares[k]) < 5e-4 ? [] : row(link(u), shares[k]))), ...row(el("span", {}, "the penalty"), prior)));
};
const pointPart = (t) => {
  const points = D.points && D.points[t];
  if (!points || !points[0].length) return [];
  const both = points.flat(), range = [Math.min(...both), Math.max(...both)];
  const { chart, X, Y } = frame(svg("svg", { role: "img", "aria-label": "Observed against predicted", id: "scatter" }), range, range, ["observed", "predicted"]);
  chart.append(svg("line", { class: "axis", x1: X(range[0]), y1: Y(range[0]), x2: X(range[1]), y2: Y(range[1]) }),
    ...points[0].map((v, k) => svg("circle", { class: "point", cx: X(v), cy: Y(points[1][k]), r: 4 })));
  return part("Predictions", chart, el("p", { class: "said" }, `${points[0].length} of the rows given, by the model as fitted. Rows of the fit lie nearer to the line than new ones would: the error above is held out.`));
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
  const places = Object.fromEntries(D.columns.map((c) => [c.key, decimals(columns(c.key))]));
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
      c.key === "group" ? groupCell(groupOf(t)) : told(c.key, columns(c.key)[t], places[c.key])));
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
  const tasksTable = () => [heads.map((h) => h.label), ...order.map((t) => heads.map((h) => (h.key === "group" ? groupCell(groupOf(t)).replace("–", "") : value(h.key, t))))];
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
  const head = ["task", "feature", "coefficient", ...(D.coef_se ? ["standard error", "low", "high"] : [])];  // of the 90 % interval
  const range = (w, se) => (se === null ? [null, null, null] : [se, w - 1.645 * se, w + 1.645 * se].map((v) => Number(v.toPrecision(4))));
  return [head, ...D.names.flatMap((task, t) => D.features.map((feature, j) => [task, feature, D.coef[t][j], ...(D.coef_se ? range(D.coef[t][j], D.coef_se[t][j]) : [])]))];
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
  drawChain();
  if (D.errors) drawErrors();
  $("kinds").hidden = !D.kinds || !D.kinds.length;
  $("kinds-brackets").hidden = !(D.kinds || []).some((text) => / beside |\(elsewhere /.test(text));
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
