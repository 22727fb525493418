// A word: the topics that it is in, by how many of its tokens are theirs.
import { bdi, csv, download, el, percent, significant, tokensOf, tool, topicLink, whole } from "./parts.js";

export function wordView(data, v) {
  const start = data.in_start[v], end = data.in_start[v + 1], all = data.word_topics[v];
  const list = Array.from({ length: end - start }, (_, i) => ({ topic: data.in_topic[start + i], tokens: data.in_tokens[start + i] }));
  const most = list[0]?.tokens ?? 1, total = data.word_tokens[v];
  const save = () => download("word.csv", "text/csv", csv([["word", "topic", "tokens", "share"], ...list.map(({ topic, tokens }) => [data.vocab[v], topic, tokens, tokens / total])]));
  return el("article", { class: "word-view" },
    el("h2", {}, bdi(data.vocab[v])),
    el("dl", { class: "figures" }, [["tokens", whole(total)], ["share of all words", significant(data.overall[v])], ["topics", whole(all)]]
      .map(([what, number]) => el("div", {}, el("dt", {}, what), el("dd", {}, number)))),
    el("div", { class: "tools" }, el("h3", {}, "Topics that it is in"), tool("CSV", "Save these topics as CSV", save)),
    list.length < all && el("p", { class: "said" }, `The ${list.length} with most of its tokens, of ${whole(all)}.`),
    list.length === 0 && el("p", { class: "said" }, "In none: the documents of training did not have it."),
    el("ol", { class: "list shares" }, list.map(({ topic, tokens }) => el("li", {}, topicLink(data, topic),
      el("span", { class: "meter" }, el("span", { style: `width:${(100 * tokens) / most}%` })),
      el("span", { class: "number", title: "Share of the word's tokens" }, percent(tokens / total)), el("span", { class: "number tokens", title: "Tokens of the word" }, tokensOf(tokens))))));
}
