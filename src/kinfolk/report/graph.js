"use strict";
// The picture. Of a graph coordinates and edges come from Python; here they are drawn, moved, zoomed and thinned out.

// ---- edges of the graph that is shown
let level = view.kind === "graph" ? view.levels[view.fitted] : null;
let links = [];
const takeLevel = (k) => {
  level = view.levels[k];
  links = Array.from({ length: T }, () => []);
  level.i.forEach((i, e) => { links[i].push(e); links[level.j[e]].push(e); });
};
const other = (e, t) => (level.i[e] === t ? level.j[e] : level.i[e]);

// ---- the graph
const graph = {};
const drawGraph = () => {
  takeLevel(view.fitted);
  canvas.classList.add("graph");
  canvas.setAttribute("aria-label", `${D.map ? "Map" : "Graph"} of ${T} tasks`);
  if (D.map) $("picture-title").textContent = "A map: which tasks are alike";
  graph.world = svg("g", {});
  graph.lines = svg("g", { "aria-hidden": "true" });
  graph.near = svg("g", { "aria-hidden": "true" });  // edges of the open task, above all others
  graph.dots = svg("g", {});
  graph.world.append(graph.lines, graph.near, graph.dots);
  canvas.append(graph.world);
  graph.zoom = { k: 1, x: 0, y: 0 };
  graph.at = view.xy.map(([x, y]) => [x, y]);
  graph.nodes = D.names.map((_, t) => {
    const g = groupOf(t);
    const node = svg("g", { class: "node", tabindex: t === 0 ? 0 : -1, role: "button", "data-task": t },
      g < 0 ? svg("circle", { class: "ring" }) : null, marker(g, { class: "dot", fill: colour(g) }));
    node.setAttribute("aria-label", `${D.names[t]}, ${groupName(g)}`);
    if (T <= LABELLED) node.append(svg("text", {}));
    return node;
  });
  graph.circles = graph.nodes.map((node) => ({ dot: node.querySelector(".dot"), ring: node.querySelector(".ring") }));
  graph.dots.append(...graph.nodes);
  fitGraph();
  drawEdges();
  listenToGraph();
  marks.push(markGraph);
  addEventListener("resize", fitGraph);
};
const fitGraph = () => {
  graph.width = canvas.clientWidth || 700;
  graph.height = Math.max(340, Math.min(0.72 * graph.width, 640));
  canvas.setAttribute("height", graph.height);
  canvas.setAttribute("viewBox", `0 0 ${graph.width} ${graph.height}`);  // paper is narrower than the screen
  graph.r = (T <= 30 ? 13 : T <= 60 ? 11 : T <= 120 ? 8 : T <= 400 ? 6 : 3.6) * (graph.width < 500 ? 0.75 : 1);
  const edge = T <= LABELLED ? 30 : 12;
  graph.place = ([x, y]) => [edge + x * (graph.width - 2 * edge), edge + y * (graph.height - 2 * edge - 8)];
  moveAll();
};
const moveAll = () => {
  const { k, x, y } = graph.zoom;
  graph.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  // Lines grow with their group; nodes keep their size on the screen, so a zoom moves them and a pan does not.
  const resized = graph.drawn !== graph.width;
  if (graph.k !== k || resized) graph.nodes.forEach((_, t) => moveNode(t));
  if (resized) moveLines(allLines());
  graph.k = k;
  graph.drawn = graph.width;
  if (T <= LABELLED) placeLabels();
};
// Nodes of a higher level are larger: from 0.7 to 1.3 times the usual radius.
const heights = (D.tasks.level || []).filter((v) => v !== null), lowest = Math.min(...heights), highest = Math.max(...heights);
const bySize = (t) => (highest > lowest && D.tasks.level[t] !== null ? 0.7 + (0.6 * (D.tasks.level[t] - lowest)) / (highest - lowest) : 1);
const moveNode = (t) => {
  const [x, y] = graph.place(graph.at[t]);
  const node = graph.nodes[t];
  node.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${1 / graph.zoom.k})`);
  const grow = Math.min(Math.sqrt(graph.zoom.k), 2.5) * bySize(t);
  sized(graph.circles[t].dot, graph.r * grow);
  graph.circles[t].ring?.setAttribute("r", graph.r * grow);  // a self-loop, above the dot
  graph.circles[t].ring?.setAttribute("cy", -1.5 * graph.r * grow);
};
const allLines = () => [...graph.lines.children, ...graph.near.children];
const moveLines = (lines) => {
  for (const line of lines) {
    const e = Number(line.dataset.edge);
    const [x1, y1] = graph.place(graph.at[level.i[e]]), [x2, y2] = graph.place(graph.at[level.j[e]]);
    line.setAttribute("x1", x1); line.setAttribute("y1", y1);
    line.setAttribute("x2", x2); line.setAttribute("y2", y2);
  }
};
// How many edges run through a box: its four sides cut the line into what is inside, if anything.
const crossings = (box, segments) => segments.filter(([[x1, y1], [x2, y2]]) => {
  let from = 0, to = 1;
  for (const [start, step, low, high] of [[x1, x2 - x1, box[0], box[2]], [y1, y2 - y1, box[1], box[3]]]) {
    const [a, b] = [(low - start) / (step || 1e-9), (high - start) / (step || 1e-9)];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  }
  return from < to;
}).length;
// Short names stand in their node; others below, above or beside it, where they hit neither a node nor a label placed before
// and the fewest edges run through them.
const placeLabels = () => {
  const grow = graph.r * Math.min(Math.sqrt(graph.zoom.k), 2.5);
  const spots = graph.at.map((at) => graph.place(at).map((v, axis) => v * graph.zoom.k + [graph.zoom.x, graph.zoom.y][axis]));
  const taken = spots.map(([x, y]) => [x - grow, y - grow, x + grow, y + grow]);
  const order = D.names.map((_, t) => t).sort((a, b) => links[b].length - links[a].length);
  const looked = T > 100 ? 0 : level.i.length;  // more would make dragging slow
  const segments = level.i.slice(0, looked).map((i, e) => [spots[i], spots[level.j[e]]]);
  let hidden = 0;
  for (const t of [...order.filter((u) => u === opened), ...order.filter((u) => u !== opened)]) {
    const label = graph.nodes[t].querySelector("text");
    const short = cut(D.names[t], 16), size = Array.from(short).length;
    const inside = size * 7 + 6 <= 2 * grow;
    label.textContent = short;
    label.setAttribute("class", inside ? "inside" : "under");
    label.style.fill = inside ? inkOn(colour(groupOf(t))) : "";
    label.setAttribute("y", inside ? 4 : grow + 13);
    label.setAttribute("x", 0);
    label.setAttribute("visibility", "visible");
    if (inside) continue;
    if (spots[t].some((v, axis) => v < 0 || v > [graph.width, graph.height][axis])) { label.setAttribute("visibility", "hidden"); continue; }
    const half = size * 3.6 + 3, y = spots[t][1], aside = grow + half + 2;
    const x = Math.max(half, Math.min(spots[t][0], graph.width - half));  // whole, also at the edge
    const boxAt = ([centre, base]) => [centre - half, y + base - 10, centre + half, y + base + 3, base, centre];
    const boxes = [[x, grow + 13], [x, -grow - 6], [spots[t][0] + aside, 4], [spots[t][0] - aside, 4]].map(boxAt);
    const hit = (box) => taken.some((b, u) => u !== t && b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3]);
    const free = boxes.filter((b) => b[0] >= 0 && b[1] >= 0 && b[2] <= graph.width && b[3] <= graph.height && !hit(b)).map((b) => [crossings(b, segments), b]);
    const box = free.sort((a, b) => a[0] - b[0])[0]?.[1] || (t === opened ? boxes[0] : null);
    label.setAttribute("visibility", box ? "visible" : "hidden");
    if (!box) { hidden += 1; continue; }
    label.setAttribute("y", box[4]);
    label.setAttribute("x", box[5] - spots[t][0]);
    taken.push(box);
  }
  $("names-said").textContent = hidden ? `${hidden} of ${T} names have no room here: zoom in, search, or open a task.` : "";
};
const line = (e, kind = "edge") => {
  const share = level.w[e] / level.w[0], sure = level.c ? level.c[e] : null;
  const width = T > LABELLED && kind === "edge" ? 0.3 + 0.9 * share : 0.5 + 3.5 * share;
  return svg("line", { class: kind, "data-edge": e, "stroke-width": width.toFixed(2),
    "stroke-dasharray": sure !== null && sure < 0.5 ? "4 3" : null,
    opacity: (T > LABELLED ? 0.1 + 0.2 * share : 0.25 + 0.35 * share).toFixed(2) });
};
const drawEdges = () => {
  const few = Math.min(level.i.length, EDGES_DRAWN);
  graph.lines.replaceChildren(...Array.from({ length: few }, (_, e) => line(e)));
  moveLines(graph.lines.children);
  $("slider-said").textContent = `${say(level.neighbors)} on average, ${say(level.i.length)} edges`
    + (level === view.levels[view.fitted] ? ": the fitted graph" : "");
  const limits = [];
  if (level.i.length > few) limits.push(`Only the ${say(few)} heaviest edges are drawn, and all of a task that you open.`);
  if (T > LABELLED) limits.push("Names are left out: hover, search or open a task. Each disc is a group.");
  if (level.c && few) limits.push("Dashed edges have a confidence below one half.");
  if (view.levels.length > 1) limits.unshift(`The slider shows ${view.path}.`);
  const coloured = D.groupless ? "one colour: there are no groups" : "colour is group";
  const drawn = few ? `Line width is edge weight, ${coloured}.` : "No two tasks are joined in this graph.";
  const sizes = heights.length && highest > lowest ? "Larger nodes have a higher level at mean inputs." : "";
  $("picture-said").textContent = [D.map, drawn, sizes, D.limit, ...limits].filter(Boolean).join(" ");
  markGraph();
};
const markGraph = () => {
  const mine = opened === null ? [] : links[opened];
  graph.near.replaceChildren(...mine.map((e) => line(e, "edge near")));
  moveLines(graph.near.children);
  const near = new Set(mine.map((e) => other(e, opened)));
  if (opened !== null) graph.dots.append(graph.nodes[opened]);  // above all others, and so is its name
  graph.nodes.forEach((node, t) => {
    node.classList.toggle("open", t === opened);
    node.classList.toggle("faint", faint(t) && t !== opened && !near.has(t));
  });
  if (T <= LABELLED) placeLabels();
};
const zoomBy = (factor, x = graph.width / 2, y = graph.height / 2) => {
  const z = graph.zoom, k = Math.max(0.5, Math.min(z.k * factor, 40));
  graph.zoom = { k, x: x - (x - z.x) * (k / z.k), y: y - (y - z.y) * (k / z.k) };
  moveAll();
};
const zoomAll = () => { graph.zoom = { k: 1, x: 0, y: 0 }; moveAll(); };
const bringIntoView = (t) => {
  const [x, y] = graph.place(graph.at[t]), z = graph.zoom, sx = x * z.k + z.x, sy = y * z.k + z.y;
  if (sx < 0 || sy < 0 || sx > graph.width || sy > graph.height) {
    graph.zoom = { k: z.k, x: graph.width / 2 - x * z.k, y: graph.height / 2 - y * z.k };
    moveAll();
  }
};
const taskAt = (event) => {
  const node = event.target.closest?.(".node");
  return node ? Number(node.dataset.task) : null;
};
const stepTo = (t) => {  // one tab stop for the whole graph; arrows move it
  canvas.querySelector(".node[tabindex='0']")?.setAttribute("tabindex", -1);
  graph.nodes[t].setAttribute("tabindex", 0);
  bringIntoView(t);
  graph.nodes[t].focus({ preventScroll: true });
};
const neighbourTowards = (t, [dx, dy]) => {
  const [x, y] = graph.place(graph.at[t]);
  let best = t, least = Infinity;
  graph.at.forEach((at, u) => {
    const [ux, uy] = graph.place(at), along = (ux - x) * dx + (uy - y) * dy;
    const aside = Math.abs((ux - x) * dy) + Math.abs((uy - y) * dx), cost = along + 2 * aside;
    if (u !== t && along > 0.5 && cost < least) { best = u; least = cost; }
  });
  return best;
};
const listenToGraph = () => {
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { task: taskAt(event), x: event.clientX, y: event.clientY, moved: false, zoom: { ...graph.zoom } };
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    hideTip();
    if (drag.task === null) {
      graph.zoom = { k: graph.zoom.k, x: drag.zoom.x + dx, y: drag.zoom.y + dy };
      moveAll();
    } else {
      const box = canvas.getBoundingClientRect(), z = graph.zoom;
      const [x0, y0] = graph.place([0, 0]), [x1, y1] = graph.place([1, 1]);
      graph.at[drag.task] = [((event.clientX - box.left - z.x) / z.k - x0) / (x1 - x0), ((event.clientY - box.top - z.y) / z.k - y0) / (y1 - y0)];
      moveNode(drag.task);
      moveLines(allLines().filter((l) => [level.i[l.dataset.edge], level.j[l.dataset.edge]].includes(drag.task)));
      if (T <= LABELLED) placeLabels();
    }
  });
  addEventListener("pointerup", () => {
    if (drag && !drag.moved && drag.task !== null) { stepTo(drag.task); openTask(drag.task); }
    drag = null;
  });
  addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerover", (event) => {
    const t = taskAt(event);
    if (t !== null && !drag) showTip(facts(t), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerout", hideTip);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !canvas.contains(document.activeElement)) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    const t = taskAt(event);
    if (t !== null && ways[event.key]) stepTo(neighbourTowards(t, ways[event.key]));
    else if (t !== null && (event.key === "Enter" || event.key === " ")) openTask(t);
    else if (event.key === "+" || event.key === "=") zoomBy(1.4);
    else if (event.key === "-") zoomBy(1 / 1.4);
    else if (event.key === "0") zoomAll();
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("focusin", (event) => {
    const node = event.target.closest(".node");
    if (!node || !node.matches(":focus-visible")) return;
    const box = node.getBoundingClientRect();
    showTip(facts(Number(node.dataset.task)), box.right, box.bottom);
  });
  canvas.addEventListener("focusout", hideTip);
  for (const id of ["sparsity", "zoom"]) $(id).hidden = false;
  $("zoom-in").addEventListener("click", () => zoomBy(1.4));
  $("zoom-out").addEventListener("click", () => zoomBy(1 / 1.4));
  $("zoom-all").addEventListener("click", zoomAll);
  const slider = $("slider");
  slider.max = view.levels.length - 1;
  slider.value = view.fitted;
  const slide = () => {
    takeLevel(Number(slider.value));
    slider.setAttribute("aria-valuetext", `${level.neighbors} neighbours per task`);
    drawEdges();
    if (opened !== null) fillPanel(opened);
  };
  slider.addEventListener("input", slide);
  $("refit").addEventListener("click", () => { slider.value = view.fitted; slide(); });
  if (view.levels.length < 2) $("sparsity").hidden = true;
};

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
