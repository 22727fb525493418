// A topic: its words, what is like it, where it stands in the tree, and documents that show it.
import { bestDocuments, rankedWords } from "./data.js";
import { bdi, csv, download, downloadSvg, el, fixed, groupColour, isEmpty, link, nameOf, percent, significant, svg, tool, topicLink, treeAround, whole } from "./parts.js";
import { facetsPart } from "./facets.js";
import { snippet } from "./document.js";
import { setName } from "./table.js";
import { change, names, select, state } from "./state.js";

const BARS = 30;

export function topicView(data, k) {
  const name = el("input", { class: "name", id: "name", value: names.get(k) ?? "", placeholder: `a name: ${nameOf(data, k, 5)}`, maxlength: 200, dir: "auto",
    "aria-label": `Name of topic ${k}`, change: () => setName(data, k, name.value), keydown: (event) => { if (event.key === "Enter") name.blur(); } });
  const figures = [
    ["share of all words", percent(data.share[k])], ["tokens", whole(data.tokens[k])], ["alpha", significant(data.alpha[k])],
    data.npmi && ["coherence (NPMI)", fixed(data.npmi[k])], ["exclusivity", fixed(data.exclusivity[k])],
  ].filter(Boolean);
  const flag = isEmpty(data, k) ? "Empty: no document has words of it, and all words are alike to it."
    : data.share[k] * data.topics < data.tiny ? "Tiny: less than a tenth of the average share." : null;
  const documents = bestDocuments(data, k, 10);
  return el("article", { class: "topic-view" },
    el("h2", {}, el("i", { class: "dot", style: `background:${groupColour(data, k)}` }), `Topic ${k}`, " ", el("span", { class: "steps" },
      tool("‹", "The one before in the table (k)", () => window.stepTopic(-1)), tool("›", "The next one in the table (j)", () => window.stepTopic(1)))),
    name,
    el("dl", { class: "figures" }, figures.map(([what, number]) => el("div", {}, el("dt", {}, what), el("dd", {}, number)))),
    flag && el("p", { class: "flag" }, flag),
    wordsPart(data, k),
    facetsPart(data, k),
    alikePart(data, k),
    el("h3", {}, "Similar topics"), nearList(data, k),
    data.topics > 1 && el("h3", {}, "Place in the tree"), treeAround(data, k),
    documents.length > 0 && el("h3", {}, "Documents that show it best"),
    documents.length > 0 && el("p", { class: "said" }, ofSample(data)),
    documents.map(({ doc, share }) => el("div", { class: "example" },
      el("div", {}, link("doc", doc, data.doc_names[doc]), el("span", { class: "number" }, percent(share))), snippet(data, doc, k))),
  );
}

/** Of which documents the page speaks. */
export function ofSample(data) {
  const { all, looked_at } = data.documents, shown = data.doc_names.length, { docs } = data.says;
  if (shown === all) return `Of all ${whole(all)} ${docs}.`;
  return looked_at < all
    ? `Of the ${whole(shown)} ${docs} in this page, chosen from a sample of ${whole(looked_at)} of ${whole(all)}.`
    : `Of the ${whole(shown)} ${docs} in this page, chosen from all ${whole(all)}.`;
}

function wordsPart(data, k) {
  const ways = [["probability", "Probability", "Words by their probability in the topic"], ["relevance", "Relevance", "Words that are the topic's own come first, as far as the slider says"],
    ["lift", "Lift", "Words by how much more probable they are here than in all topics"]];
  const weight = state.by === "probability" ? 1 : state.by === "lift" ? 0 : state.weight;
  const words = rankedWords(data, k, weight, BARS);
  const chart = wordBars(data, words);
  const slider = el("input", { type: "range", id: "weight", min: 0, max: 1, step: 1 / (data.steps - 1), value: state.weight,
    "aria-label": "Weight of probability against lift", input: () => change({ weight: Math.round(slider.value * (data.steps - 1)) / (data.steps - 1) }) });
  const saveWords = () => download(`topic-${k}.csv`, "text/csv",
    csv([["rank", "word", "probability", "lift", "relevance"], ...words.map((w, i) => [i + 1, data.vocab[w.word], w.p, w.lift, w.relevance])]));
  return el("div", { class: "words", "data-part": "words" },
    el("div", { class: "tools" },
      el("div", { class: "choice", role: "radiogroup", "aria-label": "Rank words by" }, ways.map(([by, text, title]) =>
        el("button", { role: "radio", "aria-checked": String(state.by === by), "data-by": by, title, click: () => change({ by }) }, text))),
      tool("CSV", "Save these words as CSV", saveWords), tool("SVG", "Save these bars as SVG", () => downloadSvg(`topic-${k}.svg`, chart))),
    state.by === "relevance" && el("label", { class: "slider" }, "lift", slider, "probability", el("output", { id: "weight-shown" }, state.weight.toFixed(1))),
    chart);
}

/** Words as bars of their probability, with probability and lift as numbers. */
function wordBars(data, words) {
  const row = 18, width = 420, left = 130, right = 284, most = Math.max(...words.map((w) => w.p), 1e-300);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${(words.length + 1) * row}`, class: "bars", role: "img", "aria-label": "Words of the topic" },
    svg("text", { x: 350, y: 12, class: "head" }, "probability"), svg("text", { x: width - 2, y: 12, class: "head" }, "lift"));
  words.forEach((w, i) => {
    const y = (i + 1) * row;
    drawing.append(svg("g", { class: "bar", "data-word": w.word, click: () => select("word", w.word) },
      svg("title", {}, `${data.vocab[w.word]}: probability ${significant(w.p)}, lift ${significant(w.lift)}, relevance ${significant(w.relevance)}`),
      svg("rect", { x: 0, y, width, height: row, class: "target" }),
      svg("text", { x: left - 6, y: y + 13, class: "word" }, cut(data.vocab[w.word])),
      svg("rect", { x: left, y: y + 3, width: Math.max(1, (right - left) * (w.p / most)).toFixed(1), height: row - 6, class: "length" }),
      svg("text", { x: 350, y: y + 13, class: "p" }, significant(w.p)), svg("text", { x: width - 2, y: y + 13, class: "lift" }, significant(w.lift, 3))));
  });
  return drawing;
}

/** A word for a bar: its start if it is long, and its direction to itself. */
function cut(word) {
  const plain = Array.from(word.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, ""));
  return "\u2068" + (plain.length > 18 ? plain.slice(0, 17).join("") + "…" : plain.join("")) + "\u2069";
}

export function nearList(data, k) {
  const n = data.neighbours;
  return el("ol", { class: "list near" }, Array.from({ length: n }, (_, i) => el("li", {},
    topicLink(data, data.near_topic[k * n + i]), el("span", { class: "number", title: data.kind === "topics" ? "Hellinger distance of words" : "The root of the divergence both ways" }, data.kind === "topics" ? fixed(data.near_distance[k * n + i]) : significant(data.near_distance[k * n + i])))));
}

/** Topics that are nearly the same, and what they would be as one. */
function alikePart(data, k) {
  const alike = data.alikeOf.get(k);
  if (!alike) return null;
  const all = [k, ...alike.map((other) => other.topic)];
  const share = all.reduce((sum, j) => sum + data.share[j], 0);
  const mass = new Map();
  for (const j of all) {
    for (let i = data.word_start[j]; i < data.word_start[j + 1]; i++) mass.set(data.word[i], (mass.get(data.word[i]) ?? 0) + data.share[j] * data.probability[i]);
  }
  const words = [...mass].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 12).map(([word]) => data.vocab[word]);
  return el("div", { class: "alike flag" },
    el("h3", {}, "Nearly the same"),
    el("ul", { class: "list" }, alike.map(({ topic, cosine }) => el("li", {}, topicLink(data, topic), el("span", { class: "number", title: "Cosine of counts of words" }, fixed(cosine))))),
    el("p", {}, `Merged, the ${all.length} would be one topic of ${percent(share)}: `, bdi(words.join(" ")), "."));
}
