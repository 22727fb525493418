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
    await navigator.clipboard.writeText(code.querySelector("code").textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };
  code.append(button);
}

// A section is found by all words of the search: those of its headings count for more, and whole words for more than parts.
const fold = (text) => text.toLowerCase();
const sections = () => window.INDEX.map(([address, page, heading, text]) =>
  ({ address, page, heading, text, in_page: fold(page), in_heading: fold(heading), in_text: fold(text) }));
let index;

function found(query) {
  index ||= sections();
  const words = fold(query).split(/\s+/).filter(Boolean);
  const ranked = [];
  for (const section of index) {
    let score = 0;
    const all = words.every((word) => {
      const whole = new RegExp("(^|[^\\p{L}\\p{N}])" + word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&") + "($|[^\\p{L}\\p{N}])", "u");
      const own = (section.in_heading.includes(word) ? 8 : 0) + (section.in_page.includes(word) ? 6 : 0)
        + (section.in_text.includes(word) ? 1 : 0) + (whole.test(section.in_text) ? 2 : 0);
      score += own;
      return own > 0;
    });
    if (all) ranked.push([score, section]);
  }
  return ranked.sort((a, b) => b[0] - a[0]).slice(0, 12).map(([, section]) => section);
}

function excerpt(section, query) {
  const word = fold(query).split(/\s+/).filter(Boolean)[0];
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
