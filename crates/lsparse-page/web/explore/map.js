// The map of topics on a canvas: circles by share, colours by choice, labels where there is room for them.
import { groupWords } from "./data.js";
import { COLOURS, NO_COLOUR, bdi, cleanLabel, download, el, fixed, isEmpty, isTyping, nameOf, percent, scaleColour, svg, tool } from "./parts.js";
import { change, onChange, select, state } from "./state.js";

/** What circles can be coloured by: its name, its values, how a value is said. */
const MEASURES = {
  share: ["share", (data) => data.share, (x) => percent(x)],
  npmi: ["coherence (NPMI)", (data) => data.npmi, fixed],
  exclusivity: ["exclusivity", (data) => data.exclusivity, fixed],
};

const LABEL = "12px system-ui, sans-serif";
const MOST_LABELS = 160;

export function makeMap(data, place) {
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "Map of topics: arrows move, + and - zoom, Enter opens the topic in the middle" });
  const tip = el("div", { class: "tip", hidden: true });
  const legend = el("div", { class: "legend" });
  const choice = el("select", { id: "color", "aria-label": "Colour by", change: () => change({ color: choice.value }) },
    el("option", { value: "group" }, "colour: group"),
    Object.entries(MEASURES).filter(([, [, values]]) => values(data)).map(([key, [name]]) => el("option", { value: key }, `colour: ${name}`)));
  const tools = el("div", { class: "tools" }, choice,
    tool("+", "Closer (+)", () => zoomBy(1.5)), tool("−", "Further away (-)", () => zoomBy(1 / 1.5)),
    tool("⤢", "All of it (0)", () => change({ mapX: 0, mapY: 0, zoom: 1 })), tool("SVG", "Save the map as SVG", saveSvg));
  const plane = el("div", { class: "plane" }, canvas, tip);
  place.append(tools, plane, legend);
  const pen = canvas.getContext("2d");
  const order = data.bySize;
  let labels = [], width = 0, height = 0, hovered = null, colours = [], drawing = 0;

  // A little less than all, so that circles at the edge are whole.
  const half = () => 0.44 * Math.min(width, height);
  const scale = () => half() * state.zoom;
  const toX = (x) => width / 2 + (x - state.mapX) * scale();
  const toY = (y) => height / 2 + (y - state.mapY) * scale();
  // Circles grow more slowly than the map, so that coming closer parts them.
  const size = (k) => Math.max(1.5, data.radius[k] * half() * Math.pow(state.zoom, 0.75));

  function paintColours() {
    if (state.color === "group" || !MEASURES[state.color]?.[1](data)) {
      colours = Array.from(data.group, (g) => (g < 0 ? NO_COLOUR : COLOURS[g]));
      legend.replaceChildren(...data.groups.map((topics, g) => el("button", {
        class: "link", "aria-pressed": String(state.group === g), title: "Only these topics in the table",
        click: () => change({ group: state.group === g ? null : g, show: state.show === "map" ? "map" : "table" }),
      }, el("i", { class: "dot", style: `background:${COLOURS[g]}` }), bdi(cleanLabel(groupWords(data, topics, 3).join(" "), 36)))));
      return;
    }
    const [name, values, said] = MEASURES[state.color];
    const list = values(data), sorted = Array.from(list).filter(Number.isFinite).sort((a, b) => a - b);
    const [least, most] = [sorted[0] ?? 0, sorted[sorted.length - 1] ?? 1];
    // By rank, since a few topics are far larger than all others.
    const rank = (x) => sorted.findIndex((other) => other >= x) / Math.max(1, sorted.length - 1);
    const ranks = new Map(sorted.map((x, at) => [x, at / Math.max(1, sorted.length - 1)]));
    colours = Array.from(list, (x) => (Number.isFinite(x) ? scaleColour(ranks.get(x) ?? rank(x)) : NO_COLOUR));
    const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map(scaleColour).join(",");
    legend.replaceChildren(el("span", {}, `${name}, by rank:`), el("span", {}, said(least)),
      el("div", { class: "ramp", style: `background:linear-gradient(to right,${stops})` }), el("span", {}, said(most)));
  }

  /** What stands by a circle, and half of its width; both are found once. */
  function label(k) {
    if (!labels[k]) {
      const text = cleanLabel(nameOf(data, k, 2), 28);
      labels[k] = { text, half: pen.measureText(text).width / 2 + 3 };
    }
    return labels[k];
  }

  /** Labels with room for them: the largest topics first, and the one that is looked at before all. */
  function placeLabels() {
    pen.font = LABEL;
    // Places that are taken, by lines of 16 pixels: a label can only meet those of its own line and the next ones.
    const taken = new Map(), found = [];
    const first = new Set([hovered, state.topic].filter((k) => k !== null));
    const place = (k) => {
      const x = toX(data.x[k]), y = toY(data.y[k]);
      if (x < -40 || y < 0 || x > width + 40 || y > height) return;
      if (((state.group !== null && data.group[k] !== state.group) || isEmpty(data, k)) && !first.has(k)) return;
      const { text, half } = label(k), radius = size(k), top = radius > half ? y - 8 : y + radius + 1;
      const line = Math.floor(top / 16), near = [line - 1, line, line + 1].flatMap((at) => taken.get(at) ?? []);
      const meets = (b) => b.left < x + half && x - half < b.right && Math.abs(b.top - top) < 16;
      if (!first.has(k) && near.some(meets)) return;
      if (!taken.has(line)) taken.set(line, []);
      taken.get(line).push({ left: x - half, right: x + half, top });
      found.push({ k, text, x, y: top + 12 });
    };
    first.forEach(place);
    for (const k of order) {
      if (found.length >= MOST_LABELS) break;
      if (!first.has(k)) place(k);
    }
    return found;
  }

  function draw() {
    drawing = 0;
    const ratio = devicePixelRatio || 1, styles = getComputedStyle(document.documentElement);
    const ink = styles.getPropertyValue("--ink"), paper = styles.getPropertyValue("--paper");
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    // Circles of one colour go in one stroke of the pen.
    const batches = new Map();
    for (const k of order) {
      const x = toX(data.x[k]), y = toY(data.y[k]), r = size(k);
      if (x < -r || y < -r || x > width + r || y > height + r) continue;
      const dim = state.group !== null && data.group[k] !== state.group;
      const key = colours[k] + (dim ? "·" : "");
      if (!batches.has(key)) batches.set(key, { colour: colours[k], dim, list: [] });
      batches.get(key).list.push(x, y, r);
    }
    pen.lineWidth = 1;
    pen.strokeStyle = paper;
    for (const { colour, dim, list } of batches.values()) {
      pen.beginPath();
      for (let i = 0; i < list.length; i += 3) {
        pen.moveTo(list[i] + list[i + 2], list[i + 1]);
        pen.arc(list[i], list[i + 1], list[i + 2], 0, 7);
      }
      pen.fillStyle = colour;
      pen.globalAlpha = dim ? 0.15 : 0.75;
      pen.fill();
      pen.globalAlpha = 1;
      pen.stroke();
    }
    if (state.topic !== null) {
      // Lines to similar topics, thick to the nearest.
      const k = state.topic, n = data.neighbours;
      pen.strokeStyle = ink;
      for (let i = 0; i < Math.min(n, 6); i++) {
        const j = data.near_topic[k * n + i];
        pen.globalAlpha = 0.5 * (1 - i / 8);
        pen.lineWidth = 1.5;
        pen.beginPath();
        pen.moveTo(toX(data.x[k]), toY(data.y[k]));
        pen.lineTo(toX(data.x[j]), toY(data.y[j]));
        pen.stroke();
      }
      pen.globalAlpha = 1;
    }
    const marked = markedByWord();
    for (const [k, thick] of [[hovered, 1.5], [state.topic, 3], ...marked.map((k) => [k, 2])]) {
      if (k === null) continue;
      pen.strokeStyle = ink;
      pen.lineWidth = thick;
      pen.beginPath();
      pen.arc(toX(data.x[k]), toY(data.y[k]), size(k) + 2, 0, 7);
      pen.stroke();
    }
    pen.textAlign = "center";
    pen.font = LABEL;
    pen.lineJoin = "round";
    for (const { k, text, x, y } of placeLabels()) {
      pen.strokeStyle = paper;
      pen.lineWidth = 3.5;
      pen.globalAlpha = 0.85;
      pen.strokeText(text, x, y);
      pen.globalAlpha = 1;
      pen.fillStyle = ink;
      pen.font = k === state.topic ? "bold " + LABEL : LABEL;
      pen.fillText(text, x, y);
      pen.font = LABEL;
    }
  }

  /** Topics of the word or document that is looked at. */
  function markedByWord() {
    if (state.word !== null) return Array.from(data.in_topic.subarray(data.in_start[state.word], Math.min(data.in_start[state.word] + 12, data.in_start[state.word + 1])));
    if (state.doc !== null) return Array.from(data.doc_topic.subarray(data.doc_share_start[state.doc], Math.min(data.doc_share_start[state.doc] + 8, data.doc_share_start[state.doc + 1])));
    return [];
  }

  function redraw() {
    if (!drawing) drawing = requestAnimationFrame(draw);
  }

  /** The topic under a point: the smallest circle around it, or the nearest within reach of a finger. */
  function topicAt(x, y, reach) {
    let best = null, bestScore = Infinity;
    for (let k = 0; k < data.topics; k++) {
      const away = Math.hypot(toX(data.x[k]) - x, toY(data.y[k]) - y) - size(k);
      const score = away <= 0 ? -1 / (size(k) + 1) : away;
      if (away <= reach && score < bestScore) [best, bestScore] = [k, score];
    }
    return best;
  }

  function zoomBy(by, x = width / 2, y = height / 2) {
    const zoom = Math.min(200, Math.max(0.5, state.zoom * by));
    // What is under the pointer stays there.
    const [px, py] = [state.mapX + (x - width / 2) / scale(), state.mapY + (y - height / 2) / scale()];
    const next = half() * zoom;
    change({ zoom, mapX: px - (x - width / 2) / next, mapY: py - (y - height / 2) / next });
  }

  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, point(event));
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = point(event), before = pointers.get(event.pointerId);
    if (!before) return hover(x, y);
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const ratio = Math.hypot(x - other[0], y - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1]));
      zoomBy(ratio, (x + other[0]) / 2, (y + other[1]) / 2);
    } else {
      change({ mapX: state.mapX - (x - before[0]) / scale(), mapY: state.mapY - (y - before[1]) / scale() });
    }
    moved += Math.hypot(x - before[0], y - before[1]);
    pointers.set(event.pointerId, [x, y]);
  });
  const release = (event) => {
    const was = pointers.delete(event.pointerId);
    if (event.type !== "pointerup" || !was || moved > 5) return;
    const k = topicAt(...point(event), event.pointerType === "touch" ? 16 : 4);
    if (k !== null) select("topic", k);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => hover(-99, -99));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...point(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = 40 / scale();
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) {
      change({ mapX: state.mapX + moves[event.key][0], mapY: state.mapY + moves[event.key][1] });
      event.preventDefault();
    } else if (event.key === "Enter") {
      const k = topicAt(width / 2, height / 2, 1e9);
      if (k !== null) select("topic", k);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") change({ mapX: 0, mapY: 0, zoom: 1 });
  });

  function hover(x, y) {
    const k = topicAt(x, y, 3);
    canvas.style.cursor = k === null ? "grab" : "pointer";
    tip.hidden = k === null;
    if (k !== null) {
      tip.replaceChildren(el("b", {}, `Topic ${k}`), ` ${percent(data.share[k])}`, el("br"), bdi(nameOf(data, k, 8)));
      tip.style.left = `${Math.min(x + 14, width - 230)}px`;
      tip.style.top = `${Math.min(y + 14, height - 70)}px`;
    }
    if (k !== hovered) {
      hovered = k;
      redraw();
    }
  }

  function saveSvg() {
    const styles = getComputedStyle(document.documentElement);
    const [ink, paper] = ["--ink", "--paper"].map((name) => styles.getPropertyValue(name).trim());
    const image = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height },
      svg("rect", { width, height, fill: paper }));
    for (const k of order) {
      const [x, y, r] = [toX(data.x[k]), toY(data.y[k]), size(k)];
      if (x < -r || y < -r || x > width + r || y > height + r) continue;
      image.append(svg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: r.toFixed(1), fill: colours[k], "fill-opacity": 0.75, stroke: paper },
        svg("title", {}, `${k} ${nameOf(data, k, 8)}`)));
    }
    for (const { text, x, y } of placeLabels()) {
      image.append(svg("text", { x: x.toFixed(1), y: y.toFixed(1), fill: ink, "text-anchor": "middle", "font-family": "sans-serif", "font-size": 12 }, text));
    }
    download("map.svg", "image/svg+xml", new XMLSerializer().serializeToString(image));
  }

  function measure() {
    width = plane.clientWidth;
    height = plane.clientHeight;
    if (width && height) redraw();
  }
  new ResizeObserver(measure).observe(plane);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  onChange((changed) => {
    if (["color", "group"].some((key) => changed.has(key))) paintColours();
    choice.value = state.color;
    // A topic that is chosen elsewhere and cannot be seen is brought into sight.
    if (changed.has("topic") && state.topic !== null && width) {
      const x = toX(data.x[state.topic]), y = toY(data.y[state.topic]);
      if (x < 0 || y < 0 || x > width || y > height) change({ mapX: data.x[state.topic], mapY: data.y[state.topic] });
    }
    if (changed.has("names")) labels = [];
    redraw();
  });
  choice.value = state.color;
  paintColours();
  measure();
  return { redraw, place: (k) => [toX(data.x[k]), toY(data.y[k])] };
}
