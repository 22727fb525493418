// A column of the data: what it is in every cluster.
import { columnName } from "./data.js";
import { chart, figures } from "./charts.js";
import { bdi, el, significant, svg, topicLink } from "./parts.js";

const MOST_LISTED = 60;

export function columnView(data, d) {
  const list = [];
  for (let k = 0; k < data.topics; k++) {
    for (let i = data.word_start[k]; i < data.word_start[k + 1]; i++) {
      if (data.word[i] === d) list.push({ k, value: data.value[i], deviation: data.deviation?.[i], distinct: data.distinct[i] });
    }
  }
  list.sort((a, b) => b.value - a.value || a.k - b.k);
  const { topics } = data.says;
  return el("article", { class: "word-view column-view" },
    el("h2", {}, bdi(columnName(data, d))),
    figures([[`${data.value_name} of all ${data.says.docs}`, significant(data.overall[d])]]),
    list.length === 0 ? el("p", { class: "said" }, `No ${data.says.topic} is told from the others by it.`) : [
      chart(`${data.value_name[0].toUpperCase()}${data.value_name.slice(1)} by ${data.says.topic}`,
        list.length < data.topics ? `${list.length} of ${data.topics} ${topics}: those that it tells something of.` : null, stems(data, list),
        [[data.says.topic, data.value_name, ...(data.deviation ? ["standard deviation"] : []), "distinct"], ...list.map((e) => [e.k, e.value, ...(data.deviation ? [e.deviation] : []), e.distinct])], `column-${d + 1}`),
      el("ol", { class: "list" }, list.slice(0, MOST_LISTED).map(({ k, value, deviation }) => el("li", {}, topicLink(data, k, 3),
        el("span", { class: "number" }, significant(value)), deviation !== undefined && el("span", { class: "number score", title: "standard deviation" }, `± ${significant(deviation, 3)}`)))),
      list.length > MOST_LISTED && el("p", { class: "said" }, `The ${MOST_LISTED} largest; CSV has all.`)]);
}

/** Values from small to large as points, with the deviations of rows around them. */
function stems(data, list) {
  const [wide, high] = [420, 110], low = Math.min(...list.map((e) => e.value - (e.deviation ?? 0)), data.overall.length ? Infinity : 0);
  const top = Math.max(...list.map((e) => e.value + (e.deviation ?? 0))), py = (y) => 8 + (1 - (y - low) / (top - low || 1)) * (high - 16);
  const px = (i) => 50 + ((i + 0.5) / list.length) * (wide - 58);
  const drawing = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "plot", role: "img", "aria-label": "Values by cluster" },
    svg("text", { x: 45, y: py(top) + 6, class: "mark-y" }, significant(top, 3)), svg("text", { x: 45, y: py(low), class: "mark-y" }, significant(low, 3)));
  list.forEach(({ k, value, deviation }, i) => drawing.append(
    deviation !== undefined ? svg("line", { x1: px(i), x2: px(i), y1: py(value - deviation), y2: py(value + deviation), class: "branch" }) : "",
    svg("circle", { cx: px(i), cy: py(value), r: list.length > 100 ? 1.5 : 3, class: "point" }, svg("title", {}, `${data.says.topic} ${k}: ${significant(value)}`))));
  return drawing;
}
