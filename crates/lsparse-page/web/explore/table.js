// The table of topics: sorted by any column, filtered, with names that can be written into it. Only rows in sight exist.
import { topWords } from "./data.js";
import { csv, download, el, firstWords, groupColour, isEmpty, picture, portrait, tool, whole } from "./parts.js";
import { change, names, namesChanged, onChange, select, state } from "./state.js";

const ROW = 30;

export function makeTable(data, place, file) {
  const columns = [
    ["topic", "#", `Number of the ${data.says.topic} in the model`],
    ["name", "name", `A name of your own; the first ${data.says.words} where there is none`],
    ...data.measures.map(({ key, head, title }) => [key, head, title]),
  ];
  const filter = el("input", { type: "search", id: "filter", placeholder: `Filter by name, ${data.says.word}, number`, "aria-label": `Filter ${data.says.topics}`,
    input: () => change({ filter: filter.value }) });
  const count = el("span", { class: "count", id: "count" });
  const load = el("input", { type: "file", id: "load", accept: ".csv,text/csv", hidden: true, change: async () => {
    if (load.files.length) takeNames(await load.files[0].text());
    load.value = "";
  } });
  const message = el("p", { class: "message", role: "status", hidden: true });
  const tools = el("div", { class: "tools" }, filter, count, tool("CSV", "Save these rows as CSV", saveTable),
    tool("Save names", `Save the names as CSV, for --names of lsparse explore${data.kind === "topics" ? ", topics and assign" : ""}`, saveNames),
    tool("Load names", "Load names from such a file", () => load.click()), load);
  const heads = columns.map(([key, text, title]) => el("th", { scope: "col", class: key },
    el("button", { title, "data-sort": key, click: () => change({ sort: key, down: state.sort === key ? !state.down : !["topic", "name"].includes(key) }) }, text)));
  const body = el("tbody"), scroll = el("div", { class: "scroll", tabindex: 0, "aria-label": data.says.topics },
    el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
  place.append(tools, message, scroll);
  place.style.setProperty("--digits", String(data.topics - 1).length);
  let rows = [], first = -1;
  const words = Array.from({ length: data.topics }, (_, k) => topWords(data, k, 10));
  const sought = words.map((list) => list.join(" ").toLowerCase());

  const nameless = (k, count) => firstWords(data, k, count);
  const measures = new Map(data.measures.map((measure) => [measure.key, measure]));

  function value(key, k) {
    if (key === "topic") return k;
    if (key === "name") return (names.get(k) ?? nameless(k, 3)).toLowerCase();
    return measures.get(key).values[k];
  }

  function arrange() {
    const parts = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (k) => parts.every((part) => String(k) === part || sought[k].includes(part) || names.get(k)?.toLowerCase().includes(part));
    rows = data.bySize.filter((k) => (state.group === null || data.group[k] === state.group) && fits(k));
    const sign = state.down ? -1 : 1;
    const compare = (a, b) => {
      const [x, y] = [value(state.sort, a), value(state.sort, b)];
      // What has no value comes last, whichever way.
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
      return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
    };
    rows.sort(compare);
    count.textContent = rows.length === data.topics ? `${whole(data.topics)} ${data.says.topics}` : `${whole(rows.length)} of ${whole(data.topics)}`;
    heads.forEach((head, i) => head.setAttribute("aria-sort", columns[i][0] !== state.sort ? "none" : state.down ? "descending" : "ascending"));
    first = -1;
    show();
  }

  function show() {
    const from = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 10), until = Math.min(rows.length, from + Math.ceil(scroll.clientHeight / ROW) + 20);
    if (from === first) return;
    first = from;
    const gap = (count) => el("tr", { class: "gap", "aria-hidden": "true", style: `height:${count * ROW}px` }, el("td"));
    body.replaceChildren(gap(from), ...rows.slice(from, until).map(row), gap(rows.length - until));
  }

  function row(k) {
    const input = el("input", { class: "name", value: names.get(k) ?? "", placeholder: data.pictures && !isEmpty(data, k) ? "name" : nameless(k, 6), maxlength: 200, dir: "auto",
      "aria-label": `Name of ${data.says.topic} ${k}`, change: () => rename(k, input.value), click: (event) => event.stopPropagation(),
      keydown: (event) => { if (event.key === "Enter" || event.key === "Escape") input.blur(); } });
    const cells = {
      topic: () => el("td", { class: "topic" }, el("button", { class: "link", "aria-label": `${data.says.topic} ${k}`, click: () => select("topic", k) },
        el("i", { class: "dot", style: `background:${groupColour(data, k)}` }), String(k))),
      name: () => el("td", { class: "name" }, data.pictures && picture(portrait(data, k), data.picture, "", 26), input),
    };
    const number = ({ key, said, values }) => el("td", { class: `number ${key}` }, said(values[k]));
    return el("tr", { "data-topic": k, "aria-selected": String(state.topic === k), click: () => select("topic", k) },
      columns.map(([key]) => (cells[key] ?? (() => number(measures.get(key))))()));
  }

  function saveTable() {
    const held = data.kind === "topics" ? "tokens" : data.says.docs;
    const head = [data.says.topic, "name", "share", held, ...data.measures.slice(1).map(({ key }) => key), data.says.words];
    const line = (k) => [k, names.get(k) ?? "", data.share[k], data.tokens[k], ...data.measures.slice(1).map(({ values }) => values[k]), words[k].join(" ")];
    download(`${file}-${data.says.topics}.csv`, "text/csv", csv([head, ...rows.map(line)]));
  }

  function saveNames() {
    const known = [...names].sort((a, b) => a[0] - b[0]);
    download(`${file}-names.csv`, "text/csv", csv([[data.says.topic, "name"], ...known]));
  }

  function takeNames(text) {
    const found = readNames(text, data.topics, data.says.topic);
    message.hidden = false;
    if (typeof found === "string") {
      message.textContent = found;
      return;
    }
    found.forEach((name, k) => names.set(k, name));
    message.textContent = `${found.size} names are taken over.`;
    keepNames(data);
    namesChanged();
  }

  scroll.addEventListener("scroll", show);
  new ResizeObserver(() => { first = -1; show(); }).observe(scroll);
  onChange((changed) => {
    if (filter.value !== state.filter) filter.value = state.filter;
    if (["sort", "down", "filter", "group"].some((key) => changed.has(key)) || (changed.has("names") && document.activeElement?.className !== "name")) arrange();
    else if (changed.has("topic") || changed.has("names")) {
      first = -1;
      show();
    }
    const at = rows.indexOf(state.topic);
    if (changed.has("topic") && at >= 0) {
      const top = at * ROW;
      if (top < scroll.scrollTop || top > scroll.scrollTop + scroll.clientHeight - 3 * ROW) scroll.scrollTop = Math.max(0, top - scroll.clientHeight / 2);
    }
  });
  filter.value = state.filter;
  arrange();
  /** The topic before or after this one, in the order of the table. */
  return { step: (by) => {
    const at = rows.indexOf(state.topic), to = at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by));
    if (rows.length) select("topic", rows[to]);
  }, takeNames };

  function rename(k, text) {
    setName(data, k, text);
  }
}

/** Give a topic a name; an empty one takes it away. */
export function setName(data, k, text) {
  const name = text.trim();
  if (name) names.set(k, name);
  else names.delete(k);
  keepNames(data);
  namesChanged();
}

/** Names by number out of CSV with the columns topic (or cluster, or state) and name, or what is wrong with it. */
export function readNames(text, topics, one = "topic") {
  const records = readCsv(text.replace(/^\ufeff/, ""));
  const head = (records.shift() ?? []).map((field) => field.trim());
  const [number, name] = [head.indexOf(one), head.indexOf("name")];
  if (number < 0 || name < 0) return `The file has no columns ${one} and name in its first line.`;
  const found = new Map();
  for (const record of records) {
    if (record.length === 1 && !record[0].trim()) continue;
    const k = Number(record[number]);
    if (!Number.isInteger(k) || k < 0 || k >= topics || record[number].trim() === "") return `There is no ${one} ${JSON.stringify(record[number] ?? "")}; this model has 0 to ${topics - 1}.`;
    const plain = (record[name] ?? "").replace(/[\u0000-\u001f]/g, " ").trim().slice(0, 200);
    if (plain) found.set(k, plain);
  }
  return found;
}

function readCsv(text) {
  const records = [[]];
  let field = "", quoted = false, started = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') field += c;
      else if (text[i + 1] === '"') field += text[++i];
      else quoted = false;
    } else if (c === '"') quoted = started = true;
    else if (c === "," || c === "\n" || c === "\r") {
      if (c === "\r" && text[i + 1] === "\n") i++;
      records[records.length - 1].push(field);
      field = "";
      started = c === ",";
      if (c !== ",") records.push([]);
    } else field += c;
  }
  if (field || started || records[records.length - 1].length) records[records.length - 1].push(field);
  return records.filter((record) => record.length);
}

/** Where the browser keeps names between two visits: by the model's title and words, so that others do not get them. */
function shelf(data) {
  let sum = 0;
  for (const x of data.tokens) sum = (sum * 31 + Math.round(x * 16)) % 4294967291;
  return `lsparse-names:${data.title}:${data.topics}:${data.vocab.length}:${sum}`;
}

export function keepNames(data) {
  try {
    localStorage.setItem(shelf(data), JSON.stringify([...names]));
  } catch {
    // Some browsers keep nothing for files; names can still be saved.
  }
}

/** Names that came with the page, and over them those that were given in this browser. */
export function bringNames(data) {
  data.names.forEach((name, k) => { if (name) names.set(k, name); });
  try {
    for (const [k, name] of JSON.parse(localStorage.getItem(shelf(data)) ?? "[]")) {
      if (Number.isInteger(k) && k >= 0 && k < data.topics && typeof name === "string") names.set(k, name);
    }
  } catch {
    // As above.
  }
}
