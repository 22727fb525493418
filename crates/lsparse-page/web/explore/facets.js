// Shares over time, or by any other column of metadata.
import { barChart, chart, lineChart } from "./charts.js";
import { el, fixed, percent, whole } from "./parts.js";
import { change, state } from "./state.js";

/** The column that is looked at: the one that was chosen, or else the first. */
function chosen(data) {
  const at = data.facets.findIndex(({ name }) => name === state.over);
  return Math.max(0, at);
}

/** A choice between columns, where there are several. */
function choice(data, at) {
  if (data.facets.length < 2) return null;
  const list = el("select", { id: "over", "aria-label": "Shares by", change: () => change({ over: list.value }) },
    data.facets.map(({ name }, i) => el("option", { value: name, selected: i === at }, name)));
  return list;
}

/** Marks for ordered parts: a few labels that have room beside each other. */
function draw(data, facet, values, label, said) {
  const name = (i) => `${facet.labels[i]}: ${said(values[i])}, ${whole(facet.documents[i])} ${data.says.docs}`;
  if (!facet.is_time) {
    return barChart(facet.labels.map((text, i) => ({ name: text, value: values[i], said: said(values[i]), note: `${whole(facet.documents[i])} ${data.says.docs}` })), label);
  }
  const places = Array.from(facet.place), span = places[places.length - 1] - places[0] || 1;
  const marks = [];
  for (const place of places) if (!marks.length || place - marks[marks.length - 1] > span / 5.5) marks.push(place);
  return lineChart(places.map((place, i) => [place, values[i], name(i)]), label, { from: 0, sayY: said, xMarks: marks, sayX: (x) => facet.labels[places.indexOf(x)].slice(0, 10) });
}

/** The shares of a topic or cluster by the chosen column. */
export function facetsPart(data, k) {
  if (!data.facets?.length) return null;
  const at = chosen(data), facet = data.facets[at], parts = facet.labels.length;
  const values = Array.from(facet.share.subarray(k * parts, (k + 1) * parts));
  const digits = Math.max(...values.filter(Number.isFinite)) < 0.02 ? 2 : 1;
  const drawing = draw(data, facet, values, `Shares by ${facet.name}`, (x) => (Number.isFinite(x) ? percent(x, digits) : "–"));
  const trend = facet.is_time && Number.isFinite(facet.trend[k]) ? `, trend ${facet.trend[k] > 0 ? "+" : ""}${fixed(facet.trend[k])}` : "";
  return el("div", { "data-part": "facets" }, choice(data, at), chart(facet.is_time ? `Share over ${facet.name}` : `Share by ${facet.name}`,
    `Its share of ${data.kind === "topics" ? "the words of documents" : data.says.docs}${trend}${sampled(data)}.`, drawing,
    [[facet.name, "share", data.says.docs], ...facet.labels.map((text, i) => [text, values[i], facet.documents[i]])], `${data.says.topic}-${k}-by-${facet.name.replace(/[^\w.-]+/g, "-")}`));
}

/** How many documents or rows there are by the chosen column. */
export function documentsBy(data) {
  if (!data.facets?.length) return null;
  const at = chosen(data), facet = data.facets[at], { docs } = data.says;
  const drawing = draw(data, facet, Array.from(facet.documents), `${docs} by ${facet.name}`, (x) => whole(x));
  return el("div", { "data-part": "facets" }, choice(data, at), chart(`${docs[0].toUpperCase()}${docs.slice(1)} ${facet.is_time ? "over" : "by"} ${facet.name}`,
    `Choose a ${data.says.topic} to see its share${sampled(data)}.`, drawing, [[facet.name, docs], ...facet.labels.map((text, i) => [text, facet.documents[i]])], `${docs}-by-${facet.name.replace(/[^\w.-]+/g, "-")}`));
}

const sampled = (data) => (data.documents.looked_at < data.documents.all ? `, of a sample of ${whole(data.documents.looked_at)}` : "");
