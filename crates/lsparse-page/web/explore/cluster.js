// A cluster of a mixture, or a state of sequences: what it looks like, what is like it, and rows that show it.
import { clusterColumns, columnName, rowValues, rowsOf } from "./data.js";
import { chart, figures, histogram } from "./charts.js";
import { cleanLabel, csv, download, downloadSvg, el, fixed, groupColour, isEmpty, link, nameOf, percent, picture, rowPicture, shadesOf, significant, svg, tool, topicLink, treeAround, whole } from "./parts.js";
import { facetsPart } from "./facets.js";
import { nearList, ofSample } from "./topic.js";
import { setName } from "./table.js";
import { change, names, select, state } from "./state.js";

const COLUMN_BARS = 30;

export function clusterView(data, k) {
  const { topic: one, topics: many, docs } = data.says;
  const name = el("input", { class: "name", id: "name", value: names.get(k) ?? "", placeholder: `a name: ${nameOf(data, k, 5)}`, maxlength: 200, dir: "auto",
    "aria-label": `Name of ${one} ${k}`, change: () => setName(data, k, name.value), keydown: (event) => { if (event.key === "Enter") name.blur(); } });
  const [typical, doubtful] = [rowsOf(data, k, false, 8), rowsOf(data, k, true, 4)];
  return el("article", { class: "topic-view cluster-view" },
    el("h2", {}, el("i", { class: "dot", style: `background:${groupColour(data, k)}` }), `${one[0].toUpperCase()}${one.slice(1)} ${k}`, " ", el("span", { class: "steps" },
      tool("‹", "The one before in the table (k)", () => window.stepTopic(-1)), tool("›", "The next one in the table (j)", () => window.stepTopic(1)))),
    name,
    figures([[`share of all ${docs}`, percent(data.share[k])], [docs, whole(data.tokens[k])], data.certainty && ["certainty", fixed(data.certainty[k])],
      data.likely && ["mean score", significant(data.likely[k])], data.duration && ["expected duration", `${significant(data.duration[k], 3)} steps`], data.start && ["starts a sequence", percent(data.start[k])]]),
    isEmpty(data, k) && el("p", { class: "flag" }, `Empty: it holds less than half a ${data.says.doc}, and looks as the prior has it.`),
    data.pictures && picturesPart(data, k),
    columnsPart(data, k),
    data.correlation && correlationPart(data, k),
    data.next_state && followersPart(data, k),
    facetsPart(data, k),
    sureChart(data, k),
    el("h3", {}, `Similar ${many}`), nearList(data, k),
    data.topics > 1 && el("h3", {}, "Place in the tree"), treeAround(data, k),
    typical.length > 0 && el("h3", {}, `The most typical ${docs}`), typical.length > 0 && el("p", { class: "said" }, `${ofSample(data)} By log p(x) + log r.`), rowList(data, typical, k),
    doubtful.length > 0 && el("h3", {}, `The most doubtful ${docs}`), rowList(data, doubtful, k));
}

/** Rows with the responsibility that one cluster has for them, or their first. */
export function rowList(data, rows, cluster = null) {
  const share = (doc, k) => {
    for (let i = data.doc_share_start[doc]; i < data.doc_share_start[doc + 1]; i++) if (data.doc_topic[i] === k) return data.doc_share[i];
    return 0;
  };
  return el("ol", { class: "list rows" }, rows.map((doc) => {
    const k = cluster ?? data.doc_topic[data.doc_share_start[doc]];
    return el("li", { "data-doc": doc }, data.picture && rowPicture(data, rowValues(data, doc), "", 28), link("doc", doc, rowName(data, doc)),
      cluster === null && topicLink(data, k, 3),
      el("span", { class: "number", title: "Responsibility" }, fixed(share(doc, k))), el("span", { class: "number score", title: "log p(x)" }, significant(data.sample_score[data.doc_sample[doc]])));
  }));
}

export function rowName(data, doc) {
  return data.named_rows ? data.doc_names[doc] : `${data.says.doc} ${data.doc_names[doc]}`;
}

function picturesPart(data, k) {
  const first = data.captions.length - (data.direction_share ? data.direction_share.length / data.topics : 0);
  const share = (at) => (data.direction_share && at >= first ? data.direction_share[k * (data.captions.length - first) + at - first] : null);
  return el("div", { class: "pictures" }, data.captions.map((caption, at) => el("figure", {}, picture(shadesOf(data, k, at), data.picture, caption, at < first ? 96 : 72),
    el("figcaption", {}, share(at) === null ? caption : [caption, el("br"), el("span", { class: "number", title: "Share of the variance" }, percent(share(at), 1))]))));
}

/** Columns as bars: those that differ most, by value, or in the order of the data. */
function columnsPart(data, k) {
  const ways = [["distinct", "Distinct", `Columns by how much they differ: ${data.distinct_name}`], ["value", data.value_name[0].toUpperCase() + data.value_name.slice(1), `Columns by ${data.value_name}`],
    ["order", "In order", "Columns as the data have them"]];
  const by = ["value", "order"].includes(state.by) ? state.by : "distinct";
  const keys = { distinct: (c) => -Math.abs(c.distinct), value: (c) => -c.value, order: (c) => c.column };
  const all = clusterColumns(data, k).sort((a, b) => keys[by](a) - keys[by](b) || a.column - b.column), columns = all.slice(0, COLUMN_BARS);
  const drawing = columnBars(data, columns, by);
  const save = () => download(`${data.says.topic}-${k}.csv`, "text/csv", csv([["column", data.value_name, ...(data.deviation ? ["standard deviation"] : []), "all rows", "distinct"],
    ...all.map((c) => [data.vocab[c.column], c.value, ...(data.deviation ? [c.deviation] : []), data.overall[c.column], c.distinct])]));
  return el("div", { class: "words", "data-part": "columns" },
    el("div", { class: "tools" }, el("div", { class: "choice", role: "radiogroup", "aria-label": "Rank columns by" }, ways.map(([key, text, title]) =>
      el("button", { role: "radio", "aria-checked": String(by === key), "data-by": key, title, click: () => change({ by: key }) }, text))),
    tool("CSV", "Save these columns as CSV", save), tool("SVG", "Save these bars as SVG", () => downloadSvg(`${data.says.topic}-${k}.svg`, drawing))),
    (data.vocab.length > columns.length) && el("p", { class: "said" }, `${columns.length} of ${whole(data.vocab.length)} columns.`), drawing);
}

/** A bar from where all rows are to where the cluster is, or from zero, with the deviation of rows as a thin line. */
function columnBars(data, columns, by) {
  const row = 18, width = 420, left = 130, right = 284, signed = by === "distinct" || columns.some((c) => c.value < 0);
  const number = (c) => (by === "distinct" ? c.distinct : c.value), most = Math.max(...columns.map((c) => Math.abs(number(c))), 1e-300);
  const zero = signed ? (left + right) / 2 : left, reach = signed ? (right - left) / 2 : right - left;
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${(columns.length + 1) * row}`, class: "bars", role: "img", "aria-label": "Columns" },
    svg("text", { x: 350, y: 12, class: "head" }, data.value_name === "standard deviation" ? "deviation" : data.value_name), svg("text", { x: width - 2, y: 12, class: "head" }, data.deviation ? "± deviation" : "all rows"));
  columns.forEach((c, i) => {
    const y = (i + 1) * row, long = reach * (Math.abs(number(c)) / most);
    drawing.append(svg("g", { class: "bar", "data-word": c.column, click: () => select("word", c.column) },
      svg("title", {}, `${columnName(data, c.column)}: ${data.value_name} ${significant(c.value)}${c.deviation === undefined ? "" : ` ± ${significant(c.deviation)}`}, all rows ${significant(data.overall[c.column])}; ${significant(c.distinct, 3)} ${data.distinct_name}`),
      svg("rect", { x: 0, y, width, height: row, class: "target" }),
      svg("text", { x: left - 6, y: y + 13, class: "word" }, "\u2068" + cleanLabel(columnName(data, c.column), 16) + "\u2069"),
      svg("rect", { x: number(c) < 0 ? zero - long : zero, y: y + 3, width: Math.max(0.5, long).toFixed(1), height: row - 6, class: number(c) < 0 ? "length below" : "length" }),
      svg("text", { x: 350, y: y + 13, class: "p" }, significant(c.value)), svg("text", { x: width - 2, y: y + 13, class: "lift" }, significant(c.deviation ?? data.overall[c.column], 3))));
  });
  if (signed) drawing.append(svg("line", { x1: zero, x2: zero, y1: row, y2: (columns.length + 1) * row, class: "rule" }));
  return drawing;
}

/** Correlations of columns within the cluster as a table of squares. */
function correlationPart(data, k) {
  const D = data.vocab.length, pairs = (D * (D - 1)) / 2, side = Math.min(26, 300 / D), left = D <= 24 ? 110 : 10, top = 4;
  const at = (i, j) => data.correlation[k * pairs + (i * (i - 1)) / 2 + j] / 32767 - 1;
  const drawing = svg("svg", { viewBox: `0 0 420 ${top + D * side + 4}`, class: "bars", role: "img", "aria-label": "Correlations" });
  for (let i = 0; i < D; i++) {
    if (D <= 24) drawing.append(svg("text", { x: left - 6, y: top + i * side + side * 0.75, class: "word" }, "\u2068" + cleanLabel(columnName(data, i), 14) + "\u2069"));
    for (let j = 0; j <= i; j++) {
      const r = i === j ? 1 : at(i, j);
      drawing.append(svg("rect", { x: left + j * side, y: top + i * side, width: side - 0.5, height: side - 0.5, fill: r < 0 ? "var(--below)" : "var(--accent)", "fill-opacity": Math.abs(r).toFixed(3) },
        svg("title", {}, `${columnName(data, i)}, ${columnName(data, j)}: ${r.toFixed(2)}`)));
    }
  }
  const strongest = [];
  for (let i = 1; i < D; i++) for (let j = 0; j < i; j++) strongest.push([i, j, at(i, j)]);
  strongest.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
  return chart("Correlations", `The strongest: ${strongest.slice(0, 3).map(([i, j, r]) => `${columnName(data, i)} and ${columnName(data, j)} ${r.toFixed(2)}`).join("; ")}.`, drawing,
    [["column", "column", "correlation"], ...strongest.map(([i, j, r]) => [data.vocab[i], data.vocab[j], r])], `correlations-${k}`);
}

/** States that follow this one, and those that it follows. */
function followersPart(data, k) {
  const n = data.transitions, list = (entries) => el("ol", { class: "list shares" }, entries.slice(0, 8).map(([j, p]) => el("li", {}, j === k ? el("span", { class: "link" }, "stays") : topicLink(data, j, 3),
    el("span", { class: "meter" }, el("span", { style: `width:${100 * p}%` })), el("span", { class: "number" }, fixed(p)))));
  // What never happens, and states that nothing was ever in, are passed over.
  const next = Array.from({ length: n }, (_, i) => [data.next_state[k * n + i], data.next_probability[k * n + i]]).filter(([, p]) => p >= 0.0005);
  const before = [];
  for (let at = 0; at < data.next_state.length; at++) {
    const j = Math.floor(at / n);
    if (data.next_state[at] === k && j !== k && !isEmpty(data, j) && data.next_probability[at] >= 0.0005) before.push([j, data.next_probability[at]]);
  }
  before.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const lengths = data.runs?.[k] ?? [];
  const longest = Math.max(...lengths, 1), drawn = lengths.length > 1 && histogram(lengths, 0.5, longest + 0.5, Math.min(30, longest), "Durations");
  return el("div", { "data-part": "transitions" }, el("h3", {}, "What follows"), list(next), before.length > 0 && el("h3", {}, "What it follows, by the probability to come here"), before.length > 0 && list(before),
    drawn && chart("Durations", `${whole(lengths.length)} stays in the sample, ${significant(lengths.reduce((a, b) => a + b, 0) / lengths.length, 3)} steps on average, the longest ${whole(longest)}.`, drawn.drawing, drawn.rows, `durations-${k}`));
}

/** How sure rows of a cluster are, or all rows. */
export function sureChart(data, k = null) {
  if (!data.documents) return null;
  const { docs } = data.says, own = k === null ? data.sample_largest : data.sample_largest.filter((_, s) => data.sample_first[s] === k);
  if (!own.length) return null;
  const { drawing, rows } = histogram(own, 0, 1, 20, "Largest responsibilities"), sure = own.reduce((sum, r) => sum + (r >= 0.9), 0);
  return chart(k === null ? `How sure ${docs} are` : "How sure its rows are".replace("rows", docs), `The largest responsibility of ${whole(own.length)} ${docs}; ${percent(sure / own.length, 1)} of them are 0.9 or more.`,
    drawing, rows, k === null ? "responsibilities" : `responsibilities-${k}`);
}
