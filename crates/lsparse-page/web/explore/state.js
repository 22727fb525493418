// What is looked at, in one place: changes are told to all parts, and kept in the address so that it brings a view back.

const DEFAULTS = {
  topic: null, word: null, doc: null,
  by: "probability", weight: 0.6, color: "group", sort: "share", down: true, filter: "", group: null,
  show: "table", mapX: 0, mapY: 0, zoom: 1, over: "",
};

export const state = { ...DEFAULTS };

/** Names that people gave to topics, by number. */
export const names = new Map();

const listeners = [];
let waiting = 0;

/** Call `listener` with the names of what has changed. */
export function onChange(listener) {
  listeners.push(listener);
}

/** Change what is looked at. `step` makes it a step that the browser's back button undoes. */
export function change(patch, step = false) {
  const changed = new Set(Object.keys(patch).filter((key) => state[key] !== patch[key]));
  if (!changed.size) return;
  Object.assign(state, patch);
  // While the map is moved the address waits: browsers refuse it hundreds of changes a minute, and each costs a frame.
  clearTimeout(waiting);
  if (!step && [...changed].every((key) => key === "mapX" || key === "mapY" || key === "zoom")) waiting = setTimeout(() => writeAddress(false), 200);
  else writeAddress(step);
  for (const listener of listeners) listener(changed);
}

/** Tell all parts that names have changed. */
export function namesChanged() {
  for (const listener of listeners) listener(new Set(["names"]));
}

/** One of topic, word and document is looked at, or none. */
export function select(what, number) {
  change({ topic: null, word: null, doc: null, ...(what ? { [what]: number } : {}), ...(what ? { show: "detail" } : {}) }, true);
}

/** What things are called in addresses: a cluster is no topic. */
let says = {};

function writeAddress(step) {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value === DEFAULTS[key] || value === null) continue;
    parts.set(says[key] ?? key, typeof value === "number" ? String(+value.toPrecision(6)) : String(value));
  }
  try {
    history[step ? "pushState" : "replaceState"](null, "", "#" + parts);
  } catch {
    // A page inside another may have no address of its own.
  }
}

/** Take the view from the address; what makes no sense there is passed over. */
export function readAddress(data) {
  clearTimeout(waiting);
  says = data.kind === "topics" ? {} : { topic: data.says.topic, word: data.says.word, doc: data.says.doc };
  const parts = new URLSearchParams(location.hash.slice(1));
  const found = { ...DEFAULTS };
  const limits = { topic: data.topics, word: data.vocab.length, doc: data.doc_names?.length ?? 0, group: data.groups.length };
  for (const key of Object.keys(DEFAULTS)) {
    const text = parts.get(says[key] ?? key), value = Number(text);
    if (text === null) continue;
    if (key in limits) {
      if (Number.isInteger(value) && value >= 0 && value < limits[key] && text !== "") found[key] = value;
    } else if (typeof DEFAULTS[key] === "number") {
      if (Number.isFinite(value)) found[key] = value;
    } else if (typeof DEFAULTS[key] === "boolean") found[key] = text === "true";
    else found[key] = text.slice(0, 200);
  }
  const known = (key, choices) => (choices.includes(found[key]) ? found[key] : DEFAULTS[key]);
  found.by = known("by", ["probability", "relevance", "lift", "value", "order"]);
  const measures = data.measures.map(({ key }) => key);
  found.color = known("color", ["group", ...measures]);
  found.sort = known("sort", ["topic", "name", ...measures]);
  found.show = known("show", ["map", "table", "detail"]);
  found.weight = Math.round(Math.min(1, Math.max(0, found.weight)) * ((data.steps ?? 11) - 1)) / ((data.steps ?? 11) - 1);
  found.zoom = Math.min(200, Math.max(0.5, found.zoom));
  const changed = new Set(Object.keys(found).filter((key) => state[key] !== found[key]));
  Object.assign(state, found);
  if (changed.size) for (const listener of listeners) listener(changed);
}
