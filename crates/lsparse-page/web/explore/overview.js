// What a mixture or a hidden Markov model makes of its rows, while nothing is chosen: how sure, what L captures, how likely, states over time.
import { sortRows } from "./data.js";
import { chart, histogram, lineChart } from "./charts.js";
import { COLOURS, NO_COLOUR, bdi, el, nameOf, percent, significant, svg, whole } from "./parts.js";
import { rowList, sureChart } from "./cluster.js";
import { documentsBy } from "./facets.js";
import { ofSample } from "./topic.js";
import { select } from "./state.js";

export function overview(data) {
  const { topic: one, topics: many, docs } = data.says;
  return el("article", { class: "welcome overview" },
    el("h2", {}, `Choose a ${one}`),
    el("p", {}, `Click a circle of the map or a row of the table, or search for a column. Circles lie near each other where ${many} are alike; their area is the share of ${docs}.${data.next_state ? " Arrows say what follows what." : ""}`),
    !data.documents && el("p", { class: "said" }, `This page was made without data. With them it would also show how sure ${docs} are, which are typical, doubtful and unlikely.`),
    data.documents && rowsPart(data));
}

function rowsPart(data) {
  const { docs } = data.says, shown = () => Array.from({ length: data.doc_names.length }, (_, doc) => doc);
  return [data.documents.looked_at < data.documents.all && el("p", { class: "said" }, `Of a sample of ${whole(data.documents.looked_at)} of ${whole(data.documents.all)} ${docs}.`),
    data.kind === "sequence" && timeChart(data), documentsBy(data), sureChart(data), capturedChart(data), scoreChart(data),
    el("h3", {}, `The least likely ${docs}`), el("p", { class: "said" }, ofSample(data)), el("div", { "data-part": "unlikely" }, rowList(data, sortRows(data, shown(), (s) => data.sample_score[s], 15))),
    el("h3", {}, `The most doubtful ${docs}`), el("div", { "data-part": "doubtful" }, rowList(data, sortRows(data, shown(), (s) => data.sample_largest[s], 10)))];
}

/** What the largest responsibilities of a row sum to: the average for each number of them, and L. */
function capturedChart(data) {
  if (data.topics < 2) return null;
  const { docs, topics } = data.says, n = data.sample_captured.length, mean = data.captured[data.sparsity - 1] ?? 1;
  const loses = data.sample_captured.reduce((sum, c) => sum + (c < 0.95), 0) / n;
  const points = Array.from(data.captured, (y, i) => [i + 1, y, `${i + 1}: ${percent(y)}`]);
  const said = data.sparsity >= data.topics ? `Every responsibility is kept (L = K = ${data.topics}).`
    : `L = ${data.sparsity} captures ${percent(mean)} of the responsibilities on average; ${percent(loses, 1)} of ${docs} lose more than 5 % of theirs.`;
  const drawing = lineChart(points, "Responsibilities captured by the largest ones", { from: Math.min(0.5, data.captured[0]), sayY: (y) => percent(y, 0), marked: data.sparsity });
  return chart(`What so many ${topics} capture`, said, drawing, [["kept", "captured"], ...points.map(([x, y]) => [x, y])], "captured");
}

/** Scores of rows: the lower, the stranger. */
function scoreChart(data) {
  const sorted = Array.from(data.sample_score).filter(Number.isFinite).sort((a, b) => a - b), at = (q) => sorted[Math.floor(q * (sorted.length - 1))];
  if (!sorted.length) return null;
  // Some rows are so unlikely that nothing else could be told apart beside them.
  const low = Math.max(sorted[0], at(0.5) - 6 * (at(0.75) - at(0.25) || 1)), high = sorted[sorted.length - 1];
  const { drawing, rows } = histogram(sorted, low, high > low ? high : low + 1, 40, "Scores");
  return chart("Anomaly scores", `log p(x), the lower the stranger: mean ${significant(sorted.reduce((a, b) => a + b, 0) / sorted.length)}, a hundredth are below ${significant(at(0.01))}${low > sorted[0] ? `; the first bar holds all down to ${significant(sorted[0])}` : ""}.`,
    drawing, rows, "scores");
}

/** States over time: a line a sequence, its stretches in the colours of the largest states. */
function timeChart(data) {
  const starts = [...data.sequence_start, data.sample_first.length], lines = starts.slice(0, -1).map((start, i) => [start, starts[i + 1]]).filter(([a, b]) => b > a).slice(0, 12);
  const longest = Math.max(...lines.map(([a, b]) => b - a), 1), row = 18, wide = 420, shown = Math.min(longest, 2000);
  const colour = new Map(data.bySize.slice(0, COLOURS.length).map((k, i) => [k, COLOURS[i]]));
  const drawing = svg("svg", { viewBox: `0 0 ${wide} ${lines.length * row + 20}`, class: "bars states", role: "img", "aria-label": "States over time" });
  const rows = [["sequence", "from", "to", "state"]];
  lines.forEach(([a, b], line) => {
    for (let from = a; from < Math.min(b, a + shown);) {
      let to = from;
      while (to < Math.min(b, a + shown) && data.sample_first[to] === data.sample_first[from]) to++;
      const k = data.sample_first[from];
      rows.push([line + 1, from - a + 1, to - a, k]);
      drawing.append(svg("rect", { x: (30 + ((from - a) / shown) * (wide - 32)).toFixed(2), y: line * row + 2, width: Math.max(0.4, ((to - from) / shown) * (wide - 32)).toFixed(2), height: row - 5, fill: colour.get(k) ?? NO_COLOUR,
        class: "stretch", click: () => select("topic", k) }, svg("title", {}, `state ${k} ${nameOf(data, k)}: steps ${from - a + 1} to ${to - a}`)));
      from = to;
    }
    drawing.append(svg("text", { x: 26, y: line * row + 13, class: "p" }, String(line + 1)));
  });
  drawing.append(svg("text", { x: 30, y: lines.length * row + 14, class: "start" }, "1"), svg("text", { x: wide - 2, y: lines.length * row + 14, class: "p" }, `step ${whole(shown)}`));
  return el("div", {}, chart("States over time", `The most probable state of every step, ${lines.length} of ${whole(data.sequence_start.length)} sequences${longest > shown ? `, their first ${whole(shown)} steps` : ""}.`, drawing, rows, "states"),
    el("div", { class: "legend" }, [...colour].map(([k, c]) => el("button", { class: "link", click: () => select("topic", k) }, el("i", { class: "dot", style: `background:${c}` }), bdi(nameOf(data, k)))),
      data.topics > colour.size && el("span", {}, el("i", { class: "dot", style: `background:${NO_COLOUR}` }), "others")));
}
