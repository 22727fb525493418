// Small parts that views are made of. Text always goes in as text.
import { children, groupWords, topWords, topicsOf } from "./data.js";
import { names, select } from "./state.js";

const SVG = "http://www.w3.org/2000/svg";

/** Colours that the colour-blind can tell apart too (after Okabe and Ito), on light and on dark. */
export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f7fe0", "#a6a23c"];
export const NO_COLOUR = "#8b9099";

/** Small to large, in the colours of cividis, which look the same to everybody. */
const SCALE = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];

export function scaleColour(at) {
  const place = Math.min(0.9999, Math.max(0, at)) * (SCALE.length - 1), i = Math.floor(place), part = place - i;
  return `rgb(${SCALE[i].map((c, n) => Math.round(c + part * (SCALE[i + 1][n] - c))).join(",")})`;
}

/** An element with attributes, listeners (by functions) and children; strings become text. */
export function el(tag, attributes = {}, ...inside) {
  return fill(document.createElement(tag), attributes, inside);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...inside) {
  return fill(document.createElementNS(SVG, tag), attributes, inside);
}

function fill(element, attributes, inside) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...inside.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Words, names and documents may be in any script; each keeps its direction to itself. */
export function bdi(text, attributes = {}) {
  return el("bdi", attributes, text);
}

/** Numbers as they are shown: to significant digits and whole where they are larger than that, as shares, whole. */
export const significant = (x, digits = 4) => {
  const text = Number.isFinite(x) ? x.toPrecision(digits) : "–";
  return text.includes("e+") && Math.abs(x) < 1e15 ? whole(x) : text;
};
export const fixed = (x) => (Number.isFinite(x) ? x.toFixed(3) : "–");
export const percent = (x, digits = 2) => (100 * x).toFixed(digits) + " %";
export const tokensOf = (x) => (x < 100 ? x.toFixed(1) : whole(x));
export const whole = (x) => Math.round(x).toLocaleString("en-US");

/** What a topic is called: its name, or else its first words; a cluster by the columns that are its own, or by its number. */
export function nameOf(data, topic, words = 3) {
  return names.get(topic) ?? firstWords(data, topic, words);
}

/** What is called so by its words or columns alone. */
export function firstWords(data, topic, words) {
  if (isEmpty(data, topic)) return "(empty)";
  const found = topWords(data, topic, data.kind === "topics" ? words : Math.max(1, Math.ceil(words / 2)));
  return found.length ? found.join(data.kind === "topics" ? " " : ", ") : `${data.says.topic} ${topic}`;
}

/** Numbers that every topic or cluster has, for the table and the colours of the map: { key, head, name, title, values, said }. */
export function measuresOf(data) {
  const one = data.says.topic, all = data.kind === "topics" ? "words" : data.says.docs;
  return [
    { key: "share", head: "share", name: "share", title: `Share of all ${all}`, values: data.share, said: (x) => percent(x) },
    { key: "npmi", head: "NPMI", name: "coherence (NPMI)", title: "Coherence: how often the ten first words are in documents together (-1 to 1)", values: data.npmi, said: fixed },
    { key: "exclusivity", head: "excl.", name: "exclusivity", title: "Exclusivity: how much the ten first words are this topic's own (0 to 1)", values: data.exclusivity, said: fixed },
    { key: "trend", head: "trend", name: "trend", title: "Trend: (b - a) / (b + a) with its share a in the earlier half of all and b in the later (-1 to 1)", values: data.trend, said: fixed },
    { key: "certainty", head: "sure", name: "certainty", title: `Certainty: the mean responsibility of ${data.says.docs} whose first ${one} it is (0 to 1)`, values: data.certainty, said: fixed },
    { key: "likely", head: "score", name: "mean score", title: `Mean log p(x) of ${data.says.docs} whose first ${one} it is`, values: data.likely, said: (x) => significant(x) },
    { key: "apart", head: "apart", name: `distance to the nearest ${one}`, title: `Distance to the nearest ${one}: the root of the divergence both ways`, values: data.apart, said: (x) => (x >= 1000 ? whole(x) : significant(x, 3)) },
    { key: "stays", head: "stays", name: "expected duration", title: "Expected duration in steps: 1 / (1 - p of staying)", values: data.duration, said: (x) => significant(x, 3) },
  ].filter(({ values }) => values);
}

/** A picture in shades between two colours, from numbers between 0 and 255; `channels` of them a pixel. */
export function picture(shades, [height, width, channels], label, side = 72) {
  const canvas = el("canvas", { class: "picture", width, height, role: "img", "aria-label": label, title: label,
    style: `width:${side}px;height:${Math.round((side * height) / width)}px` });
  const pen = canvas.getContext("2d"), image = pen.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = shades[channels * i + (channels === 3 ? c : 0)];
    image.data[4 * i + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** The shades of picture number `at` of a cluster. */
export function shadesOf(data, k, at) {
  const pixels = data.picture[0] * data.picture[1] * data.picture[2], start = (k * data.captions.length + at) * pixels;
  return data.pictures.subarray(start, start + pixels);
}

/** The shades that a cluster is known by: its mean, or where that is all but flat, as that of patches is, the first direction. */
export function portrait(data, k) {
  const mean = shadesOf(data, k, 0), contrast = mean.reduce((a, b) => Math.max(a, b), 0) - mean.reduce((a, b) => Math.min(a, b), 255);
  return contrast < 40 && data.captions.length > 1 ? shadesOf(data, k, 1) : mean;
}

/** A row as a picture, between its least and its largest value. */
export function rowPicture(data, values, label, side) {
  const shades = new Uint8ClampedArray(data.picture[0] * data.picture[1] * data.picture[2]);
  const numbers = values.map(({ value }) => value).filter(Number.isFinite);
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  values.forEach(({ column, value }) => { shades[column] = (255 * (value - least)) / Math.max(most - least, 1e-300); });
  return picture(shades, data.picture, label, side);
}

/** Whether a topic has no words of its own. */
export function isEmpty(data, topic) {
  return data.tokens[topic] < 0.5;
}

/** What a group of the tree is called. */
export function groupName(data, node) {
  return node < data.topics ? nameOf(data, node) : groupWords(data, topicsOf(data, node), 3).join(" ");
}

export function groupColour(data, topic) {
  return data.group[topic] < 0 ? NO_COLOUR : COLOURS[data.group[topic]];
}

/** A button that leads to a topic. */
export function topicLink(data, topic, words = 4, colour = groupColour(data, topic)) {
  return el("button", { class: "link topic", "data-topic": topic, click: () => select("topic", topic) },
    el("i", { class: "dot", style: `background:${colour}` }), el("b", {}, String(topic)), " ",
    bdi(nameOf(data, topic, words)));
}

/** A button that leads to a word or document. */
export function link(what, number, text) {
  return el("button", { class: `link ${what}`, click: () => select(what, number) }, bdi(text));
}

/** Hand the reader a file. */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const anchor = el("a", { href: address, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
  window.lastDownload = { name, type, text };
}

/** Rows as CSV. */
export function csv(rows) {
  const field = (value) => {
    const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(field).join(",")).join("\n") + "\n";
}

/** An SVG of the page as a file, with its colours written out. */
export function downloadSvg(name, drawing) {
  const copy = drawing.cloneNode(true);
  const styles = getComputedStyle(document.documentElement);
  copy.setAttribute("xmlns", SVG);
  copy.prepend(svg("style", {}, `text{font:12px sans-serif;fill:${styles.getPropertyValue("--ink").trim()}}`));
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill: styles.getPropertyValue("--paper").trim() }));
  download(name, "image/svg+xml", new XMLSerializer().serializeToString(copy));
}

/** A button of a row of tools. */
export function tool(text, title, click) {
  return el("button", { class: "tool", title, click }, text);
}

/** Where a topic stands in the tree: the smallest group around it with several topics, as a drawing. */
export function treeAround(data, topic, most = 12) {
  if (data.topics < 2) return null;
  let root = topic;
  while (data.parent[root] >= 0 && data.leaves[root] < most * 0.6) root = data.parent[root];
  // Open groups from the top, those with the topic first, until there are as many lines as fit.
  const above = new Set();
  for (let at = topic; at >= 0; at = data.parent[at]) above.add(at);
  const open = new Set();
  const lines = () => countLines(root);
  const countLines = (node) => (open.has(node) ? children(data, node).map(countLines).reduce((a, b) => a + b) : 1);
  for (let at = data.parent[topic]; at >= 0; at = data.parent[at]) {
    open.add(at);
    if (at === root) break;
  }
  const inner = (node) => (open.has(node) ? children(data, node).flatMap(inner) : node >= data.topics ? [node] : []);
  while (lines() < most) {
    const closed = inner(root).sort((a, b) => data.tree_height[a - data.topics] - data.tree_height[b - data.topics]);
    if (!closed.length) break;
    open.add(closed[0]);
  }
  const height = 20, width = 420, left = 120, rows = lines();
  const tallest = Math.max(data.tree_height[root - data.topics] ?? 0, 1e-6);
  const across = (node) => (node < data.topics ? left : left - 110 * (data.tree_height[node - data.topics] / tallest));
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${rows * height + 4}`, class: "tree", role: "img", "aria-label": `Place in the tree of ${data.says.topics}` });
  let row = 0;
  const draw = (node) => {
    if (!open.has(node)) {
      const y = row++ * height + height / 2 + 2, single = node < data.topics;
      const text = single ? `${node} ${nameOf(data, node, 4)}` : `${data.leaves[node]} ${data.says.topics}: ${groupName(data, node)}`;
      const label = svg("text", { x: left + 8, y: y + 4, class: node === topic ? "here" : single ? "leaf" : "closed" }, cleanLabel(text, 44));
      if (single && node !== topic) label.addEventListener("click", () => select("topic", node));
      drawing.append(label);
      if (!single) drawing.append(svg("line", { x1: across(node), x2: left, y1: y, y2: y, class: "branch folded" }));
      return y;
    }
    const x = across(node);
    const ys = children(data, node).map((child) => {
      const y = draw(child);
      drawing.append(svg("line", { x1: x, x2: across(child), y1: y, y2: y, class: above.has(child) ? "branch on" : "branch" }));
      return y;
    });
    drawing.append(svg("line", { x1: x, x2: x, y1: ys[0], y2: ys[1], class: "branch" }));
    return (ys[0] + ys[1]) / 2;
  };
  draw(root);
  return drawing;
}

/** A label without marks that would turn what stands beside it around, and not too long. */
export function cleanLabel(text, most) {
  const plain = Array.from(text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, ""));
  return plain.length > most ? plain.slice(0, most - 1).join("") + "…" : plain.join("");
}

/** Whether keys that people press are meant for a field. */
export function isTyping(event) {
  return /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
}
