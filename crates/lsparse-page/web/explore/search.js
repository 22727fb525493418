// Search as one types: topics by number, name and words, words, and documents by name and text.
import { topWords } from "./data.js";
import { bdi, el, nameOf, percent, whole } from "./parts.js";
import { names, select } from "./state.js";

export function makeSearch(data, input, list) {
  const lower = data.vocab.map((word) => word.toLowerCase());
  const docNames = data.doc_names?.map((name) => name.toLowerCase());
  let texts = null, answers = [], at = -1;

  /** Everything that a query finds: a few of each kind, the best first. */
  function find(query) {
    const sought = query.trim().toLowerCase();
    if (!sought) return [];
    const found = [];
    for (const k of data.bySize) {
      const named = names.get(k)?.toLowerCase().includes(sought);
      if (String(k) === sought) found.unshift({ what: "topic", number: k });
      else if (named) found.push({ what: "topic", number: k });
      if (found.length >= 4) break;
    }
    const words = [];
    for (let v = 0; v < lower.length; v++) {
      const place = lower[v].indexOf(sought);
      if (place >= 0) words.push({ what: "word", number: v, rank: (lower[v] === sought ? 0 : place === 0 ? 1 : 2), tokens: data.word_tokens?.[v] ?? 0 });
    }
    words.sort((a, b) => a.rank - b.rank || b.tokens - a.tokens || a.number - b.number);
    found.push(...words.slice(0, 6));
    // The topics that have most of the best word.
    if (words.length && data.in_start) {
      const v = words[0].number;
      for (let i = data.in_start[v]; i < Math.min(data.in_start[v] + 4, data.in_start[v + 1]); i++) {
        if (!found.some((other) => other.what === "topic" && other.number === data.in_topic[i])) found.push({ what: "topic", number: data.in_topic[i] });
      }
    }
    if (docNames) {
      const named = [], inside = [];
      for (let d = 0; d < docNames.length && named.length < 5; d++) if (docNames[d].includes(sought)) named.push(d);
      if (data.doc_texts && sought.length > 2) {
        texts ??= data.doc_texts.map((text) => text.toLowerCase());
        for (let d = 0; d < texts.length && named.length + inside.length < 6; d++) if (!named.includes(d) && texts[d].includes(sought)) inside.push(d);
      }
      found.push(...[...named, ...inside].map((d) => ({ what: "doc", number: d })));
    }
    return found;
  }

  function show() {
    const began = performance.now();
    answers = find(input.value);
    at = answers.length ? 0 : -1;
    list.replaceChildren(...answers.map((answer, i) => el("li", { role: "option", id: `answer-${i}`, "data-what": answer.what, "data-number": answer.number,
      mousedown: (event) => { event.preventDefault(); take(i); } }, describe(answer))));
    if (!answers.length && input.value.trim()) list.append(el("li", { class: "none" }, "nothing found"));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    point();
    window.searchTook = performance.now() - began;
  }

  function describe({ what, number }) {
    if (what === "topic") return [el("small", {}, `${data.says.topic} ${number}`), " ", bdi(nameOf(data, number, 5)), el("small", { class: "number" }, percent(data.share[number]))];
    if (what === "word" && !data.word_tokens) return [el("small", {}, "column"), " ", bdi(data.vocab[number])];
    if (what === "word") return [el("small", {}, "word"), " ", bdi(data.vocab[number]), el("small", { class: "number" }, `${whole(data.word_tokens[number])} in ${whole(data.word_topics[number])} topics`)];
    return [el("small", {}, data.says.doc), " ", bdi(data.doc_names[number])];
  }

  function point() {
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    if (at >= 0) input.setAttribute("aria-activedescendant", `answer-${at}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function take(i) {
    const { what, number } = answers[i];
    input.value = "";
    show();
    input.blur();
    select(what, number);
  }

  input.addEventListener("input", show);
  input.addEventListener("blur", () => { list.hidden = true; });
  input.addEventListener("focus", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (answers.length) at = (at + (event.key === "ArrowDown" ? 1 : answers.length - 1)) % answers.length;
      point();
      event.preventDefault();
    } else if (event.key === "Enter" && at >= 0) take(at);
    else if (event.key === "Escape") {
      input.value = "";
      show();
      input.blur();
    }
  });
}
