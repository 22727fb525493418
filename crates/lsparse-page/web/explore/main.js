// Open the data, put the parts together, and honour the keys that work everywhere.
import { openData, topWords } from "./data.js";
import { el, isTyping, measuresOf, whole } from "./parts.js";
import { makeMap } from "./map.js";
import { bringNames, makeTable } from "./table.js";
import { topicView } from "./topic.js";
import { documentView } from "./document.js";
import { wordView } from "./word.js";
import { clusterView } from "./cluster.js";
import { rowView } from "./row.js";
import { columnView } from "./column.js";
import { overview } from "./overview.js";
import { documentsBy } from "./facets.js";
import { makeSearch } from "./search.js";
import { change, onChange, readAddress, select, state } from "./state.js";

const KEYS = [["/", "search"], ["j  k", "next one of the table, the one before"], ["+  -  0", "closer, further away, all of the map"],
  ["arrows", "move the map, when it has the focus"], ["d", "dark or light"], ["Esc", "close what is open"], ["?", "this list"]];

async function start() {
  const byId = (id) => document.getElementById(id);
  const data = await openData();
  data.measures = measuresOf(data);
  bringNames(data);
  byId("waiting").remove();
  byId("title").textContent = data.title;
  byId("summary").textContent = `${whole(data.topics)} ${data.says.topics}, ${whole(data.vocab.length)} ${data.says.words}, trained on ${whole(data.trained_on)} ${data.says.docs}`;
  byId("query").placeholder = `Search ${data.says.words}, ${data.says.topics}, ${data.says.docs}`;
  byId("tabs").querySelector("[data-show=table]").textContent = data.says.topics[0].toUpperCase() + data.says.topics.slice(1);
  for (const part of ["map", "table"]) byId(part).setAttribute("aria-label", `${part[0].toUpperCase()}${part.slice(1)} of ${data.says.topics}`);
  dressUp(byId);
  readAddress(data);
  const map = makeMap(data, byId("map"));
  const table = makeTable(data, byId("table"), data.title.replace(/[^\w.-]+/g, "-") || data.says.topics);
  window.stepTopic = table.step;
  makeSearch(data, byId("query"), byId("answers"));

  const detail = byId("detail");
  function showDetail() {
    document.body.dataset.show = state.show;
    for (const tab of byId("tabs").children) tab.setAttribute("aria-selected", String(tab.dataset.show === state.show));
    const views = data.kind === "topics" ? [topicView, wordView, documentView, welcome] : [clusterView, columnView, rowView, overview];
    const [ofTopic, ofWord, ofDocument, ofNothing] = views;
    const view = state.topic !== null ? ofTopic(data, state.topic) : state.word !== null ? ofWord(data, state.word)
      : state.doc !== null ? ofDocument(data, state.doc) : ofNothing(data);
    detail.replaceChildren(view);
  }
  let shown = "";
  onChange((changed) => {
    document.body.dataset.show = state.show;
    const what = `${state.topic} ${state.word} ${state.doc}`;
    if (["topic", "word", "doc", "by", "weight", "show", "over"].some((key) => changed.has(key)) || changed.has("names")) {
      // A slider that is held, and a name that is written, keep the focus.
      const held = document.activeElement?.id, top = detail.scrollTop;
      showDetail();
      if (what === shown) detail.scrollTop = top;
      else detail.scrollTop = 0;
      if (held && held !== "query" && detail.querySelector(`[id="${CSS.escape(held)}"]`)) byId(held).focus();
      shown = what;
    }
  });
  showDetail();
  addEventListener("hashchange", () => readAddress(data));
  addEventListener("popstate", () => readAddress(data));
  for (const tab of byId("tabs").children) tab.addEventListener("click", () => change({ show: tab.dataset.show }));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
    if (event.key === "/") {
      byId("query").focus();
      event.preventDefault();
    } else if (event.key === "j") table.step(1);
    else if (event.key === "k") table.step(-1);
    else if (event.key === "d") byId("theme").click();
    else if (event.key === "?") byId("help").click();
    else if (event.key === "Escape") select(null);
  });
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
  window.lsparsePage = { data, state, map, table };
}

/** What the page is, while nothing is chosen. */
function welcome(data) {
  return el("article", { class: "welcome" },
    el("h2", {}, "Choose a topic"),
    el("p", {}, "Click a circle of the map or a row of the table, or search for a word. Circles lie near each other where topics share words; their area is the topic's share of all words."),
    el("p", {}, "Names that you write into the table are kept by this browser. Save them as a file to use them elsewhere."),
    data.documents ? null : el("p", { class: "said" }, "This page was made without documents. With them it would also have coherences, and documents that show topics."),
    documentsBy(data),
    el("p", { class: "said" }, `Every word of a document keeps its ${data.sparsity} most probable topics of ${whole(data.topics)}.`));
}

/** Theme and list of keys. */
function dressUp(byId) {
  const root = document.documentElement;
  const wear = (theme) => {
    root.dataset.theme = theme;
    try {
      localStorage.setItem("lsparse-theme", theme);
    } catch {
      // Then it is that of the system again next time.
    }
  };
  let theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try {
    theme = localStorage.getItem("lsparse-theme") ?? theme;
  } catch {
    // As above.
  }
  root.dataset.theme = theme === "dark" ? "dark" : "light";
  byId("theme").addEventListener("click", () => {
    wear(root.dataset.theme === "dark" ? "light" : "dark");
    window.lsparsePage?.map.redraw();
  });
  const keys = byId("keys");
  keys.append(el("h2", {}, "Keys"), el("table", {}, KEYS.map(([key, what]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, what)))),
    el("button", { class: "tool", click: () => keys.close() }, "Close"));
  byId("help").addEventListener("click", () => (keys.open ? keys.close() : keys.showModal()));
}

start().catch((error) => {
  document.body.append(el("p", { class: "broken" }, `This page cannot be shown: ${error.message}. A browser of 2023 or later is needed.`));
  throw error;
});
