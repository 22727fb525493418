// A row of the data: its clusters, how likely it is, and its values beside those of its cluster.
import { clusterColumns, columnName, rowValues } from "./data.js";
import { figures } from "./charts.js";
import { cleanLabel, el, fixed, link, percent, rowPicture, significant, topicLink, whole } from "./parts.js";
import { rowName } from "./cluster.js";
import { select } from "./state.js";

/** How many rows of the sample are less likely than this one, as a share. */
export function rankOf(data, s) {
  return data.sample_score.reduce((sum, score) => sum + (score < data.sample_score[s]), 0) / data.sample_score.length;
}

export function rowView(data, doc) {
  const s = data.doc_sample[doc], shares = [], { doc: one, docs, topics } = data.says;
  for (let i = data.doc_share_start[doc]; i < data.doc_share_start[doc + 1]; i++) shares.push([data.doc_topic[i], data.doc_share[i]]);
  const values = rowValues(data, doc), first = shares[0][0], of = new Map(clusterColumns(data, first).map((c) => [c.column, c]));
  const z = ({ column, value }) => { const c = of.get(column); return c?.deviation ? (value - c.value) / c.deviation : NaN; };
  // What is furthest from the cluster comes first; without a deviation, the largest values.
  const order = [...values].sort((a, b) => (Math.abs(z(b)) || 0) - (Math.abs(z(a)) || 0) || Math.abs(b.value) - Math.abs(a.value) || a.column - b.column);
  const most = 40;
  return el("article", { class: "document-view row-view" },
    el("h2", {}, rowName(data, doc)),
    el("p", { class: "said" }, `${one[0].toUpperCase()}${one.slice(1)} ${whole(data.doc_number[doc] + 1)} of ${whole(data.documents.all)}.`),
    figures([["log p(x)", significant(data.sample_score[s])], [`${docs} less likely`, percent(rankOf(data, s), 1)], ["largest responsibility", fixed(data.sample_largest[s])],
      [`captured by ${data.sparsity}`, percent(data.sample_captured[s], 1)]]),
    data.picture && rowPicture(data, values, "The row as a picture", 128),
    el("h3", {}, topics[0].toUpperCase() + topics.slice(1)),
    el("ol", { class: "list shares" }, shares.filter(([, r]) => r >= 0.0005).slice(0, 12).map(([k, r]) => el("li", {}, topicLink(data, k, 3),
      el("span", { class: "meter" }, el("span", { style: `width:${100 * r}%` })), el("span", { class: "number" }, fixed(r))))),
    el("h3", {}, "Values"),
    el("p", { class: "said" }, `${data.deviation ? `Those furthest from ${data.says.topic} ${first} first` : `Beside those of ${data.says.topic} ${first}, the largest first`}${values.length > most ? `; ${most} of ${whole(values.length)}` : ""}.`),
    el("table", { class: "values" }, el("thead", {}, el("tr", {}, ["column", "value", data.value_name, ...(data.deviation ? ["deviations"] : [])].map((text) => el("th", {}, text)))),
      el("tbody", {}, order.slice(0, most).map((entry) => el("tr", {}, el("td", {}, link("word", entry.column, cleanLabel(columnName(data, entry.column), 28))),
        el("td", { class: "number" }, significant(entry.value)), el("td", { class: "number" }, significant(of.get(entry.column)?.value ?? NaN)),
        data.deviation && el("td", { class: "number" }, Number.isFinite(z(entry)) ? z(entry).toFixed(2) : "–"))))),
    data.kind === "sequence" && neighbours(data, doc, docs));
}

/** The steps of the page before and after this one. */
function neighbours(data, doc, docs) {
  const near = [doc - 1, doc + 1].filter((other) => other >= 0 && other < data.doc_names.length);
  return el("p", { class: "said" }, `Other ${docs}: `, near.map((other) => el("button", { class: "link", click: () => select("doc", other) }, rowName(data, other))));
}
