// The map of topics on a canvas: circles by share, colours by choice, labels where there is room for them.
//
// What changes seldom is drawn on a layer that is larger than what is seen. While people move the map the layer is shown
// shifted or stretched, which costs one copy of it whatever it holds; at rest, and at its edge, it is drawn again. Circles and
// labels are stamps, each drawn once.
import { groupWords } from "./data.js";
import { COLOURS, NO_COLOUR, bdi, cleanLabel, download, el, isEmpty, isTyping, nameOf, percent, picture, portrait, scaleColour, svg, tool } from "./parts.js";
import { change, names, onChange, select, state } from "./state.js";

const LABEL = "12px system-ui, sans-serif";
const MOST_LABELS = 220;
/** Pixels that the layer has beyond each edge. */
const MARGIN = 160;
/** Radius up to which circles are stamps: the larger ones are few. */
const LARGEST_STAMP = 40;
const MOST_STAMPS = 3000;
/** Milliseconds without a move that are rest, and those that drawing may take to be done in every frame of a zoom. */
const REST = 140;
const QUICK = 7;

export function makeMap(data, place) {
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": `Map of ${data.says.topics}: arrows move, + and - zoom, Enter opens the ${data.says.topic} in the middle` });
  const tip = el("div", { class: "tip", hidden: true });
  const legend = el("div", { class: "legend" });
  const choice = el("select", { id: "color", "aria-label": "Colour by", change: () => change({ color: choice.value }) },
    el("option", { value: "group" }, "colour: group"),
    data.measures.map(({ key, name }) => el("option", { value: key }, `colour: ${name}`)));
  const tools = el("div", { class: "tools" }, choice,
    tool("+", "Closer (+)", () => zoomBy(1.5)), tool("−", "Further away (-)", () => zoomBy(1 / 1.5)),
    tool("⤢", "All of it (0)", () => change({ mapX: 0, mapY: 0, zoom: 1 })), tool("SVG", "Save the map as SVG", saveSvg));
  const plane = el("div", { class: "plane" }, canvas, tip);
  place.append(tools, plane, legend);
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const screen = canvas.getContext("2d"), sheet = el("canvas"), pen = sheet.getContext("2d");
  const thumbs = data.pictures ? Array.from({ length: data.topics }, () => null) : null;
  const order = data.bySize;
  let labels = [], width = 0, height = 0, hovered = null, colours = [], drawing = 0, resting = 0;
  let ratio = 1, ink = "", paper = "", stamps = new Map();
  /** The view that the layer was drawn for; none where it is to be drawn anew. */
  let layer = null, took = 0;

  // A little less than all, so that circles at the edge are whole.
  const furthest = order.reduce((most, k) => Math.max(most, Math.max(Math.abs(data.x[k]), Math.abs(data.y[k])) + data.radius[k]), 0);
  const half = () => Math.min(0.44, 0.49 / furthest) * Math.min(width, height);
  const scale = () => half() * state.zoom;
  const toX = (x) => width / 2 + (x - state.mapX) * scale();
  const toY = (y) => height / 2 + (y - state.mapY) * scale();
  // Circles grow more slowly than the map, so that coming closer parts them.
  const size = (k) => Math.max(1.5, data.radius[k] * half() * Math.pow(state.zoom, 0.75));

  function paintColours() {
    const measure = data.measures.find(({ key }) => key === state.color);
    if (!measure) {
      colours = Array.from(data.group, (g) => (g < 0 ? NO_COLOUR : COLOURS[g]));
      legend.replaceChildren(...data.groups.map((topics, g) => el("button", {
        class: "link", "aria-pressed": String(state.group === g), title: `Only these ${data.says.topics} in the table`,
        click: () => change({ group: state.group === g ? null : g, show: state.show === "map" ? "map" : "table" }),
      }, el("i", { class: "dot", style: `background:${COLOURS[g]}` }), bdi(cleanLabel(groupWords(data, topics, 3).join(data.kind === "topics" ? " " : ", "), 36)))));
      return;
    }
    const { name, values: list, said } = measure;
    const sorted = Array.from(list).filter(Number.isFinite).sort((a, b) => a - b);
    const [least, most] = [sorted[0] ?? 0, sorted[sorted.length - 1] ?? 1];
    // By rank, since a few topics are far larger than all others; in so few shades that circles of one look can be stamps.
    const rank = (x) => sorted.findIndex((other) => other >= x) / Math.max(1, sorted.length - 1);
    const ranks = new Map(sorted.map((x, at) => [x, at / Math.max(1, sorted.length - 1)]));
    colours = Array.from(list, (x) => (Number.isFinite(x) ? scaleColour(Math.round(63 * (ranks.get(x) ?? rank(x))) / 63) : NO_COLOUR));
    const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map(scaleColour).join(",");
    legend.replaceChildren(el("span", {}, `${name}, by rank:`), el("span", {}, said(least)),
      el("div", { class: "ramp", style: `background:linear-gradient(to right,${stops})` }), el("span", {}, said(most)));
  }

  /** What stands by a circle, and half of its width; both are found once. */
  function label(k) {
    if (!labels[k]) {
      const text = cleanLabel(data.picture ? names.get(k) ?? String(k) : nameOf(data, k, 2), 28);
      labels[k] = { text, half: pen.measureText(text).width / 2 + 3 };
    }
    return labels[k];
  }

  /** Labels with room for them: the largest topics first, and the one that is looked at before all. */
  function placeLabels(margin) {
    pen.font = LABEL;
    // Places that are taken, by lines of 16 pixels: a label can only meet those of its own line and the next ones.
    const taken = new Map(), found = [];
    const place = (k) => {
      const x = toX(data.x[k]), y = toY(data.y[k]), chosen = k === state.topic;
      if (x < -40 - margin || y < -margin || x > width + 40 + margin || y > height + margin) return;
      if (((state.group !== null && data.group[k] !== state.group) || isEmpty(data, k)) && !chosen) return;
      const { text, half } = label(k), radius = size(k);
      // Within the plane where its circle is, or it could not be read.
      const middle = x >= 0 && x <= width && width > 2 * half ? Math.min(Math.max(x, half), width - half) : x;
      const top = labelTops(y, radius, half).find((top) => isFree(taken, middle - half, middle + half, top));
      if (top === undefined) return;
      const line = Math.floor(top / 16);
      if (!taken.has(line)) taken.set(line, []);
      taken.get(line).push({ left: middle - half, right: middle + half, top });
      found.push({ k, text, half, x: middle, top });
    };
    if (state.topic !== null) place(state.topic);
    for (const k of order) {
      if (found.length >= MOST_LABELS) break;
      if (k !== state.topic) place(k);
    }
    return found;
  }

  /** Where the label of a circle may stand: in it where it fits, or else below or above. */
  const labelTops = (y, radius, half) => (radius > half && !thumbs ? [y - 8] : [y + radius + 1, y - radius - 17]);

  function isFree(taken, left, right, top) {
    const line = Math.floor(top / 16);
    for (let at = line - 1; at <= line + 1; at++) {
      for (const b of taken.get(at) ?? []) if (b.left < right && left < b.right && Math.abs(b.top - top) < 16) return false;
    }
    return true;
  }

  /** A small picture that is drawn once: `draw` is given a pen whose origin is its middle. */
  function stamp(key, across, down, draw) {
    let found = stamps.get(key);
    if (!found) {
      if (stamps.size >= MOST_STAMPS) stamps.clear();
      const image = el("canvas", { width: Math.ceil(across * ratio), height: Math.ceil(down * ratio) }), its = image.getContext("2d");
      its.setTransform(ratio, 0, 0, ratio, image.width / 2, image.height / 2);
      draw(its);
      found = { image, across: image.width / ratio, down: image.height / ratio };
      stamps.set(key, found);
    }
    return found;
  }

  function circle(onto, colour, dim, x, y, r) {
    onto.beginPath();
    onto.arc(x, y, r, 0, 7);
    onto.fillStyle = colour;
    onto.globalAlpha = dim ? 0.15 : 0.75;
    onto.fill();
    onto.globalAlpha = 1;
    onto.lineWidth = 1;
    onto.strokeStyle = paper;
    onto.stroke();
  }

  /** Text that can be read on anything: with a rim in the colour of the paper. */
  function write(onto, { text, half, x, top }, bold) {
    const { image, across, down } = stamp(`${bold} ${text}`, 2 * half * (bold ? 1.12 : 1) + 6, 20, (its) => {
      its.textAlign = "center";
      its.lineJoin = "round";
      its.font = bold ? "bold " + LABEL : LABEL;
      its.strokeStyle = paper;
      its.lineWidth = 3.5;
      its.globalAlpha = 0.85;
      its.strokeText(text, 0, 4);
      its.globalAlpha = 1;
      its.fillStyle = ink;
      its.fillText(text, 0, 4);
    });
    // At whole pixels of the screen, or letters would be washed out.
    const sharp = (at) => Math.round(at * ratio) / ratio;
    onto.drawImage(image, sharp(x - across / 2), sharp(top + 8 - down / 2), across, down);
  }

  /** Draw the layer for what is looked at now. */
  function paint() {
    const began = performance.now(), styles = getComputedStyle(document.documentElement);
    const now = [devicePixelRatio || 1, styles.getPropertyValue("--ink"), styles.getPropertyValue("--paper")];
    if (now.join() !== [ratio, ink, paper].join()) stamps = new Map();
    [ratio, ink, paper] = now;
    const [across, down] = [width + 2 * MARGIN, height + 2 * MARGIN].map((length) => Math.round(length * ratio));
    if (sheet.width !== across || sheet.height !== down) [sheet.width, sheet.height] = [across, down];
    pen.setTransform(ratio, 0, 0, ratio, MARGIN * ratio, MARGIN * ratio);
    pen.clearRect(-MARGIN, -MARGIN, width + 2 * MARGIN, height + 2 * MARGIN);
    for (const k of order) {
      const x = toX(data.x[k]), y = toY(data.y[k]), r = size(k);
      if (x < -r - MARGIN || y < -r - MARGIN || x > width + r + MARGIN || y > height + r + MARGIN) continue;
      const dim = state.group !== null && data.group[k] !== state.group;
      if (r > LARGEST_STAMP) {
        circle(pen, colours[k], dim, x, y, r);
        continue;
      }
      const shown = r < 8 ? Math.round(4 * r) / 4 : Math.round(2 * r) / 2;
      const found = stamp(`${colours[k]} ${dim} ${shown}`, 2 * shown + 3, 2 * shown + 3, (its) => circle(its, colours[k], dim, 0, 0, shown));
      pen.drawImage(found.image, x - found.across / 2, y - found.down / 2, found.across, found.down);
    }
    if (thumbs) drawPictures();
    if (data.next_state) drawTransitions(ink);
    else if (state.topic !== null) {
      // Lines to similar topics, thick to the nearest.
      const k = state.topic, n = data.neighbours;
      pen.strokeStyle = ink;
      for (let i = 0; i < Math.min(n, 6); i++) {
        const j = data.near_topic[k * n + i];
        if (isEmpty(data, j) && !isEmpty(data, k)) continue;
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
    for (const [k, thick] of [[state.topic, 3], ...marked.map((k) => [k, 2])]) if (k !== null) ring(pen, k, thick);
    for (const place of placeLabels(MARGIN)) write(pen, place, place.k === state.topic);
    layer = { mapX: state.mapX, mapY: state.mapY, zoom: state.zoom, width, height };
    took = performance.now() - began;
  }

  function ring(onto, k, thick) {
    onto.strokeStyle = ink;
    onto.lineWidth = thick;
    onto.beginPath();
    onto.arc(toX(data.x[k]), toY(data.y[k]), size(k) + 2, 0, 7);
    onto.stroke();
  }

  /** Show the layer where it belongs now; draw it first where it does not do. */
  function draw() {
    drawing = 0;
    if (!width || !height) return;
    const isOld = !layer || layer.width !== width || layer.height !== height || ratio !== (devicePixelRatio || 1);
    if (isOld || (layer.zoom !== state.zoom && (took < QUICK || !resting)) || !reaches()) paint();
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== across || canvas.height !== down) [canvas.width, canvas.height] = [across, down];
    const { left, top, by } = shift();
    screen.setTransform(1, 0, 0, 1, 0, 0);
    screen.clearRect(0, 0, across, down);
    // At whole pixels while its size stays: then it is a plain copy.
    if (by === 1) screen.drawImage(sheet, Math.round(left * ratio), Math.round(top * ratio));
    else screen.drawImage(sheet, left * ratio, top * ratio, sheet.width * by, sheet.height * by);
    screen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (hovered !== null) {
      ring(screen, hovered, hovered === state.topic ? 3 : 1.5);
      const { text, half } = label(hovered), top = labelTops(toY(data.y[hovered]), size(hovered), half)[0];
      write(screen, { text, half, x: toX(data.x[hovered]), top }, true);
    }
  }

  /** Where the corner of the layer is on the screen, and how much larger it is shown than it was drawn. */
  function shift() {
    const by = state.zoom / layer.zoom;
    const left = width / 2 + (layer.mapX - state.mapX) * scale() - by * (width / 2 + MARGIN);
    const top = height / 2 + (layer.mapY - state.mapY) * scale() - by * (height / 2 + MARGIN);
    return { left, top, by };
  }

  /** Whether the layer covers all that is seen. */
  function reaches() {
    const { left, top, by } = shift();
    return left <= 0.5 && top <= 0.5 && left + by * (width + 2 * MARGIN) >= width - 0.5 && top + by * (height + 2 * MARGIN) >= height - 0.5;
  }

  /** Pictures of clusters in their circles, where these are large enough for one. */
  function drawPictures() {
    pen.imageSmoothingEnabled = false;
    const [high, wide] = data.picture;
    for (const k of order) {
      const x = toX(data.x[k]), y = toY(data.y[k]), reach = size(k) * 1.3;
      if (reach < 9 || x < -reach - MARGIN || y < -reach - MARGIN || x > width + reach + MARGIN || y > height + reach + MARGIN) continue;
      thumbs[k] ??= picture(portrait(data, k), data.picture, "");
      const across = reach * Math.min(1, wide / high), down = reach * Math.min(1, high / wide);
      pen.globalAlpha = state.group !== null && data.group[k] !== state.group ? 0.2 : 1;
      pen.drawImage(thumbs[k], x - across / 2, y - down / 2, across, down);
      pen.globalAlpha = 1;
    }
  }

  /** What follows what: arrows of the probable transitions, those of the state that is looked at in ink. */
  function drawTransitions(ink) {
    const n = data.transitions;
    const chosen = state.topic === null ? order.slice(0, 60) : [state.topic];
    for (const k of chosen) {
      for (let i = 0; i < n; i++) {
        // Of the ways to leave the state, since many stay for long.
        const j = data.next_state[k * n + i], p = data.next_probability[k * n + i] / Math.max(1 - data.stay[k], 1e-300);
        if (j === k || p < 0.1) continue;
        const [x0, y0, x1, y1] = [toX(data.x[k]), toY(data.y[k]), toX(data.x[j]), toY(data.y[j])];
        const [dx, dy] = [x1 - x0, y1 - y0], length = Math.hypot(dx, dy) || 1;
        const [mx, my] = [(x0 + x1) / 2 - dy * 0.15, (y0 + y1) / 2 + dx * 0.15];
        // The arrow begins and ends at circles.
        const [ex, ey] = [x1 - mx, y1 - my], last = Math.hypot(ex, ey) || 1, reach = size(j) + 3;
        const [tx, ty] = [x1 - (ex / last) * reach, y1 - (ey / last) * reach];
        pen.strokeStyle = pen.fillStyle = ink;
        pen.globalAlpha = Math.min(0.85, 0.15 + p) * (length < 1e-3 ? 0 : 1);
        pen.lineWidth = Math.max(1, 5 * p);
        pen.beginPath();
        const [bx, by] = [mx - x0, my - y0], away = size(k) / (Math.hypot(bx, by) || 1);
        pen.moveTo(x0 + bx * away, y0 + by * away);
        pen.quadraticCurveTo(mx, my, tx, ty);
        pen.stroke();
        const turn = Math.atan2(ty - my, tx - mx), head = 6 + 5 * p;
        pen.beginPath();
        pen.moveTo(tx + 2 * Math.cos(turn), ty + 2 * Math.sin(turn));
        for (const side of [2.65, -2.65]) pen.lineTo(tx + head * Math.cos(turn + side), ty + head * Math.sin(turn + side));
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
  }

  /** Topics of the word or document that is looked at. */
  function markedByWord() {
    if (state.word !== null) return !data.in_start ? [] : Array.from(data.in_topic.subarray(data.in_start[state.word], Math.min(data.in_start[state.word] + 12, data.in_start[state.word + 1])));
    if (state.doc !== null) {
      const start = data.doc_share_start[state.doc], end = Math.min(start + 8, data.doc_share_start[state.doc + 1]);
      return Array.from(data.doc_topic.subarray(start, end)).filter((_, i) => data.doc_share[start + i] >= 0.01);
    }
    return [];
  }

  /** Show the map in the next frame: drawn anew, or as it is where it was only moved. */
  function redraw(moved = false) {
    if (moved !== true) layer = null;
    if (!drawing) drawing = requestAnimationFrame(draw);
  }

  /** After the last move the layer is drawn again, sharp and with the labels of its level. */
  function rest() {
    clearTimeout(resting);
    resting = setTimeout(() => {
      resting = 0;
      redraw(layer && layer.mapX === state.mapX && layer.mapY === state.mapY && layer.zoom === state.zoom);
    }, REST);
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
      tip.replaceChildren(el("b", {}, `${capital(data.says.topic)} ${k}`), ` ${percent(data.share[k])}`, el("br"), bdi(nameOf(data, k, 8)));
      tip.style.left = `${Math.min(x + 14, width - 230)}px`;
      tip.style.top = `${Math.min(y + 14, height - 70)}px`;
    }
    if (k !== hovered) {
      hovered = k;
      redraw(true);
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
    for (const { text, x, top } of placeLabels(0)) {
      image.append(svg("text", { x: x.toFixed(1), y: (top + 12).toFixed(1), fill: ink, "text-anchor": "middle", "font-family": "sans-serif", "font-size": 12 }, text));
    }
    download("map.svg", "image/svg+xml", new XMLSerializer().serializeToString(image));
  }

  function measure() {
    width = plane.clientWidth;
    height = plane.clientHeight;
    if (width && height) redraw();
  }
  new ResizeObserver(measure).observe(plane);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  onChange((changed) => {
    if (["color", "group"].some((key) => changed.has(key))) paintColours();
    choice.value = state.color;
    // A topic that is chosen elsewhere and cannot be seen is brought into sight.
    if (changed.has("topic") && state.topic !== null && width) {
      const x = toX(data.x[state.topic]), y = toY(data.y[state.topic]);
      if (x < 0 || y < 0 || x > width || y > height) change({ mapX: data.x[state.topic], mapY: data.y[state.topic] });
    }
    if (changed.has("names")) labels = [];
    const isMove = [...changed].every((key) => key === "mapX" || key === "mapY" || key === "zoom");
    if (isMove) {
      // What was under the pointer is there no longer.
      tip.hidden = true;
      hovered = null;
      rest();
    }
    redraw(isMove);
  });
  choice.value = state.color;
  paintColours();
  measure();
  return { redraw, place: (k) => [toX(data.x[k]), toY(data.y[k])] };
}
