// The documentation's own script: search, light or dark, the list of pages on small screens, and code to copy.
"use strict";
const by = (id) => document.getElementById(id);

by("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* A page from a disk may have nowhere to keep it. */ }
};

by("menu").onclick = () => by("menu").setAttribute("aria-expanded", by("pages").classList.toggle("open"));
// The list alone, and never the page with it.
const current = document.querySelector("#pages [aria-current]");
if (current) by("pages").scrollTop = current.offsetTop - by("pages").clientHeight / 2;

for (const code of document.querySelectorAll(".code")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "copy";
  button.onclick = async () => {
    const shown = code.querySelector("code");
    button.textContent = await copy(unprompted(shown.textContent), shown) ? "copied" : "press Ctrl-C";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };
  code.append(button);
}

// What is typed of examples with prompts; all of what has none.
function unprompted(text) {
  let typed = false;
  const lines = text.split("\n").filter((line) => (typed = /^>>>( |$)/.test(line) || typed && /^\.\.\.( |$)/.test(line)));
  return lines.length ? lines.map((line) => line.slice(4)).join("\n") + "\n" : text;
}

// Over plain http there is no clipboard, and what is selected can still be copied, by the page or by hand.
async function copy(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* The older way. */ }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) getSelection().selectAllChildren(shown);
  return done;
}

// A section is found by all words of the search but the common ones, or by most of them where none has all. Those of its
// headings, and the words that its page says it is looked for by, count for more; whole words for more than parts, and the
// search as it stands for most.
const COMMON = new Set("a an and are can do does for from how i in is it my of on or the to use what which with".split(" "));
const fold = (text) => text.toLowerCase();
const sections = () => window.INDEX.map(([address, page, heading, text, terms]) =>
  ({ address, page, heading, text, in_page: fold(page), in_heading: fold(heading), in_text: fold(text), terms: fold(terms) }));
let index;

const words_of = (query) => {
  const words = fold(query).split(/\s+/).filter(Boolean);
  const telling = words.filter((word) => !COMMON.has(word));
  return telling.length ? telling : words;
};

function found(query) {
  index ||= sections();
  const words = words_of(query).map((word) => [word,
    new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&") + "($|[^\\p{L}\\p{N}])", "u")]);
  const phrase = fold(query);
  const ranked = [];
  for (const section of index) {
    let [had, score] = [0, 0];
    for (const [word, whole] of words) {
      // A letter is in every text; as a word it says something.
      const is_in = (text) => whole.test(text) ? 2 : word.length > 1 && text.includes(word) ? 1 : 0;
      const own = 4 * is_in(section.in_heading) + 4 * is_in(section.terms) + 3 * is_in(section.in_page) + is_in(section.in_text);
      had += own > 0;
      score += own;
    }
    score += 12 * (section.in_heading.includes(phrase) || section.terms.includes(phrase));
    if (had) ranked.push([had, score, section]);
  }
  const most = Math.max(...ranked.map(([had]) => had));
  if (most < words.length / 2) return [];
  const best = ranked.filter(([had]) => had === most).sort((a, b) => b[1] - a[1]).map(([, , section]) => section);
  // An option that many commands have leaves room for others.
  const seen = Object.create(null);
  return best.filter(({ heading }) => (seen[heading] = (seen[heading] || 0) + 1) <= 2).slice(0, 12);
}

function excerpt(section, query) {
  const word = words_of(query).find((word) => section.in_text.includes(word));
  const at = Math.max(0, section.in_text.indexOf(word) - 40);
  return (at > 0 ? "..." : "") + section.text.slice(at, at + 140);
}

const list = by("found");
const box = by("search");
let chosen = 0;

function show() {
  const query = box.value.trim();
  list.replaceChildren();
  list.hidden = query.length < 2;
  if (list.hidden) return;
  const results = found(query);
  for (const section of results) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = window.UP + section.address;
    link.textContent = section.heading === section.page ? section.page : section.page + ": " + section.heading;
    const small = document.createElement("small");
    small.textContent = excerpt(section, query);
    link.append(small);
    item.append(link);
    list.append(item);
  }
  if (!results.length) list.textContent = "Nothing found.";
  choose(0);
}

function choose(number) {
  const items = list.querySelectorAll("li");
  chosen = Math.max(0, Math.min(number, items.length - 1));
  items.forEach((item, n) => item.classList.toggle("chosen", n === chosen));
  items[chosen]?.scrollIntoView({ block: "nearest" });
}

box.oninput = show;
box.onkeydown = (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Enter") list.querySelectorAll("a")[chosen]?.click();
  else if (event.key === "Escape") { box.value = ""; show(); }
  else return;
  event.preventDefault();
};
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) { box.focus(); event.preventDefault(); }
});
document.addEventListener("click", (event) => { if (!event.target.closest(".search")) list.hidden = true; });
document.documentElement.dataset.ready = "yes";
