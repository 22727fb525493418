// What the page shows: the packed JSON and arrays, and what follows from them.

const KINDS = { f32: Float32Array, f64: Float64Array, u8: Uint8Array, u16: Uint16Array, u32: Uint32Array };

/** What things are called: what has a share, what it is described by, what it is shown by. */
const SAYS = {
  topics: { topic: "topic", topics: "topics", word: "word", words: "words", doc: "document", docs: "documents" },
  mixture: { topic: "cluster", topics: "clusters", word: "column", words: "columns", doc: "row", docs: "rows" },
  sequence: { topic: "state", topics: "states", word: "column", words: "columns", doc: "step", docs: "steps" },
};

/** Unpack the data of the page; numbers are read where they lie. */
export async function openData() {
  const text = atob(document.getElementById("data").textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const start = Math.ceil((length + 4) / 8) * 8;
  for (const [name, [kind, offset, count]] of Object.entries(data.arrays)) {
    data[name] = new KINDS[kind](buffer, start + offset, count);
  }
  data.says = SAYS[data.kind];
  data.bySize = Array.from({ length: data.topics }, (_, k) => k).sort((a, b) => data.share[b] - data.share[a] || a - b);
  data.alikeOf = new Map();
  for (let i = 0; i < data.alike_cosine.length; i++) {
    const [a, b, cosine] = [data.alike[2 * i], data.alike[2 * i + 1], data.alike_cosine[i]];
    for (const [from, to] of [[a, b], [b, a]]) {
      if (!data.alikeOf.has(from)) data.alikeOf.set(from, []);
      data.alikeOf.get(from).push({ topic: to, cosine });
    }
  }
  data.facets?.forEach((facet, i) => {
    for (const part of ["share", "documents", "place", "trend"]) facet[part] = data[`facet_${part}_${i}`];
  });
  data.trend = data.facets?.find((facet) => facet.is_time)?.trend;
  if (data.kind !== "topics") overSample(data);
  growTree(data);
  findGroups(data);
  return data;
}

/** What the sample of rows says of each cluster. */
function overSample(data) {
  data.apart = Float64Array.from({ length: data.topics }, (_, k) => (data.neighbours ? data.near_distance[k * data.neighbours] : NaN));
  if (data.stay) data.duration = data.stay.map((p) => 1 / Math.max(1 - p, 1e-300));
  if (!data.documents) return;
  if (data.sequence_start) data.runs = stays(data);
  const sums = Array.from({ length: data.topics }, () => [0, 0, 0]);
  data.sample_first.forEach((k, s) => {
    sums[k][0] += 1;
    sums[k][1] += data.sample_largest[s];
    sums[k][2] += data.sample_score[s];
  });
  data.certainty = Float64Array.from(sums, ([count, sum]) => (count ? sum / count : NaN));
  data.likely = Float64Array.from(sums, ([count, , sum]) => (count ? sum / count : NaN));
}

/** How long each state was stayed in, every time that it was. */
function stays(data) {
  const found = Array.from({ length: data.topics }, () => []), starts = new Set(data.sequence_start);
  let from = 0;
  for (let s = 1; s <= data.sample_first.length; s++) {
    if (s < data.sample_first.length && !starts.has(s) && data.sample_first[s] === data.sample_first[from]) continue;
    found[data.sample_first[from]].push(s - from);
    from = s;
  }
  return found;
}

/** Columns of a cluster: { column, value, distinct, deviation }, in the order of the data. */
export function clusterColumns(data, k) {
  const list = [];
  for (let i = data.word_start[k]; i < data.word_start[k + 1]; i++) {
    list.push({ column: data.word[i], value: data.value[i], distinct: data.distinct[i], deviation: data.deviation?.[i] });
  }
  return list;
}

/** What a column is called where it stands by itself. */
export function columnName(data, d) {
  return data.named_columns ? data.vocab[d] : `column ${data.vocab[d]}`;
}

/** The columns that differ most from those of all rows, each with the way that it does; pixels of pictures say nothing. */
function distinctColumns(data, columns, count) {
  if (data.picture) return [];
  const order = [...columns].sort((a, b) => Math.abs(b.distinct) - Math.abs(a.distinct) || a.column - b.column);
  return order.slice(0, count).map(({ column, distinct }) => `${columnName(data, column)} ${distinct < 0 ? "↓" : "↑"}`);
}

/** The words of a topic under a weight of the slider: relevance = w log p + (1 - w) log(p / p_v). Ties to the first word. */
export function rankedWords(data, topic, weight, count) {
  const list = [];
  for (let i = data.word_start[topic]; i < data.word_start[topic + 1]; i++) {
    const word = data.word[i], p = data.probability[i], lift = p / Math.max(data.overall[word], Number.MIN_VALUE);
    list.push({ word, p, lift, relevance: weight * Math.log(p) + (1 - weight) * Math.log(lift) });
  }
  list.sort((a, b) => b.relevance - a.relevance || a.word - b.word);
  return list.slice(0, Math.min(count, data.words_sure));
}

/** The most probable words of a topic, which its list starts with, or the most distinct columns of a cluster. */
export function topWords(data, topic, count) {
  if (data.kind !== "topics") return distinctColumns(data, clusterColumns(data, topic), Math.min(count, 4));
  const start = data.word_start[topic], end = Math.min(start + count, data.word_start[topic + 1]);
  return Array.from(data.word.subarray(start, end), (word) => data.vocab[word]);
}

/** Nodes below K are topics, node K + i is what merge i joins. */
function growTree(data) {
  const K = data.topics, nodes = 2 * K - 1;
  data.parent = new Int32Array(nodes).fill(-1);
  data.leaves = new Uint32Array(nodes).fill(1);
  for (let i = 0; i < K - 1; i++) {
    const [left, right] = [data.tree_left[i], data.tree_right[i]];
    data.parent[left] = data.parent[right] = K + i;
    data.leaves[K + i] = data.leaves[left] + data.leaves[right];
  }
}

export function children(data, node) {
  return node < data.topics ? [] : [data.tree_left[node - data.topics], data.tree_right[node - data.topics]];
}

/** The topics of a group. */
export function topicsOf(data, node) {
  const found = [], open = [node];
  while (open.length) {
    const at = open.pop();
    if (at < data.topics) found.push(at);
    else open.push(...children(data, at));
  }
  return found;
}

/** The words that some topics are told from the others by, as far as the lists of these topics go. */
export function groupWords(data, topics, count) {
  if (data.kind !== "topics") return groupColumns(data, topics, count);
  const mass = new Map();
  let share = 0;
  for (const k of topics) {
    share += data.share[k];
    for (let i = data.word_start[k]; i < Math.min(data.word_start[k] + 20, data.word_start[k + 1]); i++) {
      mass.set(data.word[i], (mass.get(data.word[i]) ?? 0) + data.share[k] * data.probability[i]);
    }
  }
  const relevance = ([word, m]) => 0.6 * Math.log(m / share) + 0.4 * Math.log(m / share / data.overall[word]);
  const order = [...mass].map((entry) => [entry[0], relevance(entry)]).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  return order.slice(0, count).map(([word]) => data.vocab[word]);
}

/** The same of clusters: columns whose distinctness, by share, is largest. */
function groupColumns(data, topics, count) {
  if (data.picture) return [topics.length === 1 ? `${data.says.topic} ${topics[0]}` : `${topics.length} ${data.says.topics} like ${topics[0]}`];
  const sums = new Map();
  let share = 0;
  for (const k of topics) {
    share += data.share[k];
    for (const { column, distinct } of clusterColumns(data, k)) sums.set(column, (sums.get(column) ?? 0) + data.share[k] * distinct);
  }
  return distinctColumns(data, [...sums].map(([column, sum]) => ({ column, distinct: sum / Math.max(share, 1e-300) })), Math.min(count, 2));
}

/** Groups that can be told apart by colour. */
export const MOST_GROUPS = 8;

/** Regions of the map: k-means over places, by share, from centres that are far apart. The same every time. */
function findGroups(data) {
  const K = data.topics, count = Math.min(MOST_GROUPS, Math.ceil(K / 4));
  const away = (k, [x, y]) => (data.x[k] - x) ** 2 + (data.y[k] - y) ** 2;
  const weight = (k) => data.share[k] + 0.1 / K;
  const centres = [[data.x[data.bySize[0]], data.y[data.bySize[0]]]];
  while (centres.length < count) {
    let best = 0, most = -1;
    for (let k = 0; k < K; k++) {
      const gain = weight(k) * Math.min(...centres.map((centre) => away(k, centre)));
      if (gain > most) [best, most] = [k, gain];
    }
    centres.push([data.x[best], data.y[best]]);
  }
  data.group = new Int8Array(K);
  for (let round = 0; round < 40; round++) {
    const sums = centres.map(() => [0, 0, 0]);
    let moved = false;
    for (let k = 0; k < K; k++) {
      let nearest = 0;
      for (let g = 1; g < count; g++) if (away(k, centres[g]) < away(k, centres[nearest])) nearest = g;
      moved ||= data.group[k] !== nearest;
      data.group[k] = nearest;
      const w = weight(k);
      sums[nearest][0] += w * data.x[k];
      sums[nearest][1] += w * data.y[k];
      sums[nearest][2] += w;
    }
    sums.forEach(([x, y, w], g) => { if (w > 0) centres[g] = [x / w, y / w]; });
    if (!moved && round > 0) break;
  }
  // The largest group has the first colour.
  const sizes = centres.map((_, g) => data.bySize.reduce((sum, k) => sum + (data.group[k] === g ? data.share[k] : 0), 0));
  const order = sizes.map((_, g) => g).sort((a, b) => sizes[b] - sizes[a] || a - b);
  data.group = data.group.map((g) => order.indexOf(g));
  data.groups = order.map((_, g) => data.bySize.filter((k) => data.group[k] === g)).filter((topics) => topics.length);
}

/** Topics of a document of the page, the largest share first. */
export function docTopics(data, doc) {
  const found = [];
  for (let i = data.doc_share_start[doc]; i < data.doc_share_start[doc + 1]; i++) {
    found.push({ topic: data.doc_topic[i], share: data.doc_share[i] });
  }
  return found;
}

/** Rows of the page whose first cluster this is, the most typical or the most doubtful first. */
export function rowsOf(data, cluster, doubtful, count) {
  if (!data.documents) return [];
  const rows = [];
  for (let doc = 0; doc < data.doc_names.length; doc++) if (data.sample_first[data.doc_sample[doc]] === cluster) rows.push(doc);
  return sortRows(data, rows, doubtful ? (s) => data.sample_largest[s] : (s) => -data.sample_score[s] - Math.log(Math.max(data.sample_largest[s], 1e-300)), count);
}

/** Rows of the page by what is known of them in the sample, the smallest first. */
export function sortRows(data, rows, key, count) {
  const of = (doc) => key(data.doc_sample[doc]);
  return rows.sort((a, b) => of(a) - of(b) || a - b).slice(0, count);
}

/** The values of a row: { column, value }. */
export function rowValues(data, doc) {
  const [start, end] = [data.row_start[doc], data.row_start[doc + 1]];
  return Array.from(data.row_value.subarray(start, end), (value, i) => ({ column: data.row_column ? data.row_column[start + i] : i, value }));
}

/** Documents of the page by their share of a topic; of equal ones the longest first, then the first. */
export function bestDocuments(data, topic, count) {
  if (!data.documents) return [];
  if (!data.docsOf) {
    data.docsOf = new Map();
    for (let doc = 0; doc < data.doc_names.length; doc++) {
      for (const { topic: k, share } of docTopics(data, doc)) {
        if (!data.docsOf.has(k)) data.docsOf.set(k, []);
        data.docsOf.get(k).push({ doc, share });
      }
    }
    const better = (a, b) => b.share - a.share || data.doc_length[b.doc] - data.doc_length[a.doc] || a.doc - b.doc;
    data.docsOf.forEach((list) => list.sort(better));
  }
  return (data.docsOf.get(topic) ?? []).slice(0, count);
}

/** Documents of the page whose topics are nearest, by the Hellinger distance of shares. */
export function similarDocuments(data, doc, count) {
  const shares = new Map(docTopics(data, doc).map(({ topic, share }) => [topic, share]));
  const found = [];
  for (let other = 0; other < data.doc_names.length; other++) {
    if (other === doc) continue;
    let overlap = 0;
    for (let i = data.doc_share_start[other]; i < data.doc_share_start[other + 1]; i++) {
      const share = shares.get(data.doc_topic[i]);
      if (share !== undefined) overlap += Math.sqrt(share * data.doc_share[i]);
    }
    if (overlap > 0) found.push({ doc: other, distance: Math.sqrt(Math.max(0, 1 - overlap)) });
  }
  return found.sort((a, b) => a.distance - b.distance || a.doc - b.doc).slice(0, count);
}

/** The words of a document as they stand in its text: { at, length, topic }, or { word, count, topic } without a text. */
export function docTokens(data, doc) {
  const found = [];
  let end = 0;
  for (let i = data.token_start[doc]; i < data.token_start[doc + 1]; i++) {
    const [at, length, topic] = [data.token_at[i], data.token_length[i], data.token_topic[i]];
    if (data.doc_texts) {
      found.push({ at: end + at, length, topic });
      end += at + length;
    } else {
      found.push({ word: at, count: length, topic });
    }
  }
  return found;
}
