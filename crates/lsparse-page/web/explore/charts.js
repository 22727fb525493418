// Plain charts as SVG: histograms, lines and bars, each with its numbers as CSV.
import { bdi, cleanLabel, csv, download, downloadSvg, el, significant, svg, tool, whole } from "./parts.js";

const WIDE = 420, HIGH = 130, LEFT = 44, BOTTOM = 22, TOP = 8;

/** A chart under a title, with buttons that save it. */
export function chart(title, said, drawing, rows, name) {
  return el("figure", { class: "chart", "data-chart": name },
    el("div", { class: "tools" }, el("h3", {}, title), tool("CSV", "Save these numbers as CSV", () => download(`${name}.csv`, "text/csv", csv(rows))),
      tool("SVG", "Save this drawing as SVG", () => downloadSvg(`${name}.svg`, drawing))),
    said && el("p", { class: "said" }, said), drawing);
}

/** Round numbers between two, a few of them. */
export function roundMarks(low, high, most) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((width) => width >= rough * (1 - 1e-9));
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(+(n * step).toPrecision(12));
  return found;
}

/** The frame of a chart: marks of both axes; gives what turns numbers into places. */
function frame(drawing, [x0, x1], [y0, y1], sayX, sayY, xMarks = roundMarks(x0, x1, 6)) {
  const px = (x) => LEFT + ((x - x0) / (x1 - x0 || 1)) * (WIDE - LEFT - 8), py = (y) => TOP + (1 - (y - y0) / (y1 - y0 || 1)) * (HIGH - TOP - BOTTOM);
  for (const y of roundMarks(y0, y1, 3)) {
    drawing.append(svg("line", { x1: LEFT, x2: WIDE - 8, y1: py(y), y2: py(y), class: "rule" }), svg("text", { x: LEFT - 5, y: py(y) + 4, class: "mark-y" }, sayY(y)));
  }
  for (const x of xMarks) drawing.append(svg("text", { x: px(x), y: HIGH - 6, class: "mark-x" }, sayX(x)));
  return { px, py };
}

const short = (x) => (Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(0) : String(+x.toPrecision(4)));

/** How often numbers fall into equal parts of a stretch; what lies outside counts for the parts at its ends. */
export function histogram(values, low, high, bins, label) {
  const counts = new Array(bins).fill(0);
  for (const value of values) if (Number.isFinite(value)) counts[Math.min(bins - 1, Math.max(0, Math.floor(((value - low) / (high - low || 1)) * bins)))] += 1;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "plot", role: "img", "aria-label": label });
  const { px, py } = frame(drawing, [low, high], [0, Math.max(...counts, 1)], short, (y) => whole(y));
  const edge = (i) => low + ((high - low) * i) / bins;
  counts.forEach((count, i) => drawing.append(svg("rect", { x: px(edge(i)) + 0.5, width: Math.max(1, px(edge(i + 1)) - px(edge(i)) - 1), y: py(count),
    height: Math.max(count ? 1 : 0, py(0) - py(count)), class: "length", "data-count": count }, svg("title", {}, `${significant(edge(i), 3)} to ${significant(edge(i + 1), 3)}: ${whole(count)}`))));
  return { drawing, counts, rows: [["from", "to", "count"], ...counts.map((count, i) => [edge(i), edge(i + 1), count])] };
}

/** A line through points, with a mark at one of them. */
export function lineChart(points, label, { sayX = short, sayY = short, from = null, marked = null, xMarks } = {}) {
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y).filter(Number.isFinite);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)], [y0, y1] = [from ?? Math.min(...ys), Math.max(...ys, (from ?? 0) + 1e-12)];
  const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "plot", role: "img", "aria-label": label });
  const { px, py } = frame(drawing, x0 === x1 ? [x0 - 0.5, x1 + 0.5] : [x0, x1], [y0, y1], sayX, sayY, xMarks);
  const known = points.filter(([, y]) => Number.isFinite(y));
  drawing.append(svg("polyline", { points: known.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" "), class: "curve" }));
  for (const [x, y, title] of known) {
    drawing.append(svg("circle", { cx: px(x), cy: py(y), r: x === marked ? 5 : known.length > 40 ? 1.5 : 2.5, class: x === marked ? "point here" : "point" }, svg("title", {}, title ?? `${sayX(x)}: ${sayY(y)}`)));
  }
  return drawing;
}

/** Bars with names and numbers: { name, value, said, note }. */
export function barChart(entries, label, click = null) {
  const row = 18, left = 150, right = 340, most = Math.max(...entries.map(({ value }) => (Number.isFinite(value) ? value : 0)), 1e-300);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${entries.length * row + 4}`, class: "bars", role: "img", "aria-label": label });
  entries.forEach(({ name, value, said, note }, i) => drawing.append(svg("g", { class: "bar", ...(click ? { click: () => click(i) } : {}) },
    svg("title", {}, `${name}: ${said}${note ? `, ${note}` : ""}`), svg("rect", { x: 0, y: i * row, width: WIDE, height: row, class: "target" }),
    svg("text", { x: left - 6, y: i * row + 13, class: "word" }, "\u2068" + cleanLabel(name, 21) + "\u2069"),
    svg("rect", { x: left, y: i * row + 3, width: Number.isFinite(value) ? Math.max(value > 0 ? 1 : 0, (right - left) * (value / most)).toFixed(1) : 0, height: row - 6, class: "length" }),
    svg("text", { x: WIDE - 2, y: i * row + 13, class: "p" }, said))));
  return drawing;
}

/** A row of figures: [what, number] each. */
export function figures(list) {
  return el("dl", { class: "figures" }, list.filter(Boolean).map(([what, number]) => el("div", {}, el("dt", {}, what), el("dd", {}, bdi(number)))));
}
