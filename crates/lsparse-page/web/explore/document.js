// A document: its topics, its text with every word's topic, and documents like it.
import { docTokens, docTopics, similarDocuments } from "./data.js";
import { COLOURS, NO_COLOUR, bdi, el, fixed, link, nameOf, percent, topicLink, whole } from "./parts.js";
import { ofSample } from "./topic.js";
import { select } from "./state.js";

/** Colours of the topics that a document has most of; the others share one that is no colour. */
function coloursOf(data, doc) {
  return new Map(docTopics(data, doc).slice(0, COLOURS.length).map(({ topic }, i) => [topic, COLOURS[i]]));
}

export function documentView(data, doc) {
  const topics = docTopics(data, doc), colours = coloursOf(data, doc);
  const most = topics[0]?.share ?? 1;
  const similar = similarDocuments(data, doc, 8);
  return el("article", { class: "document-view" },
    el("h2", {}, bdi(data.doc_names[doc])),
    el("p", { class: "said" }, `Document ${data.doc_number[doc] + 1} of ${whole(data.documents.all)}, ${whole(data.doc_length[doc])} words that the model knows.`),
    el("h3", {}, "Topics"),
    el("ol", { class: "list shares" }, topics.slice(0, 12).map(({ topic, share }) => el("li", {},
      topicLink(data, topic, 4, colours.get(topic) ?? NO_COLOUR),
      el("span", { class: "meter" }, el("span", { style: `width:${(100 * share) / most}%` })), el("span", { class: "number" }, percent(share))))),
    el("h3", {}, data.doc_texts ? "Text" : "Words"),
    el("div", { class: "text", dir: "auto" }, words(data, doc, colours)),
    data.doc_cut[doc] === 1 && el("p", { class: "said" }, "The page has only the start of this text."),
    similar.length > 0 && el("h3", {}, "Similar documents"),
    similar.length > 0 && el("p", { class: "said" }, ofSample(data)),
    el("ol", { class: "list" }, similar.map(({ doc: other, distance }) => el("li", {}, link("doc", other, data.doc_names[other]),
      el("span", { class: "number", title: "Hellinger distance of topics" }, fixed(distance))))));
}

/** A word with the colour of its topic; a click leads there. */
function mark(data, text, topic, colours) {
  const colour = colours.get(topic);
  return el("span", { class: colour ? "mark" : "mark rare", style: colour ? `--c:${colour}` : null, "data-topic": topic,
    title: `topic ${topic}: ${nameOf(data, topic, 4)}`, click: () => select("topic", topic) }, text);
}

function words(data, doc, colours) {
  const tokens = docTokens(data, doc);
  if (!data.doc_texts) {
    return tokens.flatMap(({ word, count, topic }) => [mark(data, data.vocab[word], topic, colours), count > 1 ? ` ×${count}  ` : "  "]);
  }
  const text = data.doc_texts[doc], parts = [];
  let end = 0;
  for (const { at, length, topic } of tokens) {
    parts.push(text.slice(end, at), mark(data, text.slice(at, at + length), topic, colours));
    end = at + length;
  }
  return [...parts, text.slice(end)];
}

/** A piece of a document around words of a topic, which are marked. */
export function snippet(data, doc, topic) {
  const tokens = docTokens(data, doc), own = new Map([[topic, "var(--accent)"]]);
  const room = 240;
  if (!data.doc_texts) {
    const list = tokens.filter((token) => token.topic === topic).slice(0, 20);
    return el("p", { class: "snippet" }, list.flatMap(({ word, count }) => [mark(data, data.vocab[word], topic, own), count > 1 ? ` ×${count} ` : " "]));
  }
  // The stretch with most words of the topic.
  const places = tokens.filter((token) => token.topic === topic);
  let best = 0, start = places[0]?.at ?? 0;
  for (let i = 0, j = 0; i < places.length; i++) {
    while (j < places.length && places[j].at < places[i].at + room) j++;
    if (j - i > best) [best, start] = [j - i, places[i].at];
  }
  const text = data.doc_texts[doc];
  start = Math.max(0, start - 20);
  while (start > 0 && /\S/.test(text[start - 1]) && start > 1) start--;
  const stop = Math.min(text.length, start + room), parts = [start > 0 ? "… " : ""];
  let end = start;
  for (const { at, length, topic: k } of tokens) {
    if (at < start || at + length > stop) continue;
    if (k !== topic) continue;
    parts.push(text.slice(end, at), mark(data, text.slice(at, at + length), k, own));
    end = at + length;
  }
  return el("p", { class: "snippet", dir: "auto" }, parts, text.slice(end, stop), stop < text.length ? " …" : "");
}
