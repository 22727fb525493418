// Follows traces: asks for lines that are new, and draws a curve for every number that steps have.
"use strict";
(() => {
  // Okabe and Ito's colours, told apart without red and green; further runs differ by dashes.
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c"];
  const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
  // What people look at first comes first; what is not named here follows by its own name.
  const TITLES = {
    heldout: "held-out score", evidence: "evidence a token", objective: "objective",
    objective_data: "objective: data", objective_entropy: "objective: entropy", objective_alloc: "objective: allocation",
    clusters: "clusters", active: "active clusters or topics", restarts_accepted: "restarts accepted",
    rows_per_second: "rows a second", empty_clusters: "empty clusters", peak_memory_bytes: "memory, most so far",
  };
  const NOT_CURVES = new Set(["event", "run", "sizes", "lap", "step", "batch", "ends_lap", "seconds", "cpu_seconds"]);
  const element = (id) => document.getElementById(id);
  const make = (tag, text) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const traces = [];     // { name, generation, count, strange, begin, runs: Map(run -> { steps, end }) }
  const charts = new Map();
  let hidden = new Set(); // runs that are switched off, by their keys
  let crosshair = null;   // a place on the axis that all charts show
  let dirty = true;

  // ---- numbers -------------------------------------------------------------------------------------------------
  function show(value, metric) {
    if (value === undefined || value === null || Number.isNaN(value)) return "";
    if (metric === "peak_memory_bytes") {
      const units = ["B", "kB", "MB", "GB", "TB"];
      let unit = 0;
      while (value >= 1000 && unit < 4) { value /= 1000; unit += 1; }
      return `${value.toPrecision(3)} ${units[unit]}`;
    }
    if (Number.isInteger(value)) return value.toLocaleString("en");
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4) return value.toExponential(4);
    return value.toLocaleString("en", { maximumSignificantDigits: 7 });
  }
  const title = (metric) => TITLES[metric] ?? metric.replaceAll("_", " ");

  // ---- what comes ------------------------------------------------------------------------------------------------
  function take(answer) {
    answer.traces.forEach((news, number) => {
      let trace = traces[number];
      if (!trace || trace.generation !== news.generation) {
        trace = traces[number] = { name: news.name, generation: news.generation, count: 0, begin: null, runs: new Map() };
        dirty = true;
      }
      trace.strange = news.strange;
      if (news.from > trace.count) return; // another answer was lost: the next one brings all
      for (const line of news.lines.slice(trace.count - news.from)) {
        trace.count += 1;
        add(trace, number, line);
        dirty = true;
      }
    });
    const stop = element("stop");
    stop.hidden = !answer.can_stop || everything().every((run) => run.end);
    stop.disabled = answer.asked_to_stop;
    if (answer.asked_to_stop) stop.textContent = "stopping";
  }

  function add(trace, number, line) {
    if (line.event === "begin") { trace.begin = line; return; }
    const index = line.run ?? 0;
    let run = trace.runs.get(index);
    if (!run) {
      const place = everything().length;
      run = { key: `${number}.${index}`, index, trace, steps: [], end: null,
        colour: COLOURS[place % COLOURS.length], dash: DASHES[Math.floor(place / COLOURS.length) % DASHES.length] };
      trace.runs.set(index, run);
    }
    if (line.event === "end") { run.end = line; return; }
    if (line.sizes) line.active = line.sizes.length - line.empty_clusters;
    run.steps.push(line);
  }

  const everything = () => traces.flatMap((trace) => (trace ? [...trace.runs.values()] : []));
  const shown = () => everything().filter((run) => !hidden.has(run.key));
  const nameOf = (run) => {
    const short = run.trace.name.split(/[\\/]/).pop();
    return run.trace.runs.size > 1 || run.index > 0 ? `${short}, run ${run.index + 1}` : short;
  };

  // ---- table of runs -------------------------------------------------------------------------------------------
  function drawRuns() {
    const runs = everything();
    const columns = ["lap", "step", "seconds", "objective", "evidence", "heldout", "rows_per_second", "empty_clusters",
      "peak_memory_bytes"].filter((name) => runs.some((run) => run.steps.some((step) => step[name] != null)));
    const head = make("tr");
    head.append(make("th", "run"), ...columns.map((name) => make("th", name === "lap" ? "laps" : title(name))), make("th", ""));
    element("runs").tHead.replaceChildren(head);
    const rows = runs.map((run) => {
      const row = make("tr");
      const first = make("td"), label = make("label"), box = make("input"), mark = make("canvas"), name = make("span", nameOf(run));
      label.className = "name";
      label.title = run.trace.name;
      box.type = "checkbox";
      box.checked = !hidden.has(run.key);
      box.addEventListener("change", () => { box.checked ? hidden.delete(run.key) : hidden.add(run.key); remember(); dirty = true; });
      mark.className = "mark";
      [mark.width, mark.height] = [48, 20];
      const pen = mark.getContext("2d");
      [pen.strokeStyle, pen.lineWidth] = [run.colour, 4];
      pen.setLineDash(run.dash.map((length) => 2 * length));
      pen.beginPath(); pen.moveTo(0, 10); pen.lineTo(48, 10); pen.stroke();
      label.append(box, mark, name);
      first.append(label);
      const latest = (metric) => { for (let i = run.steps.length; i-- > 0;) if (run.steps[i][metric] != null) return run.steps[i][metric]; };
      const state = make("td", run.end ? run.end.reason : "under way");
      state.className = "words";
      row.append(first, ...columns.map((metric) => make("td", show(latest(metric), metric))), state);
      return row;
    });
    // A box that has the focus keeps it.
    const focused = document.activeElement?.closest?.("#runs tr")?.rowIndex;
    element("runs").tBodies[0].replaceChildren(...rows);
    if (focused > 0) element("runs").rows[focused]?.querySelector("input")?.focus();
    const strange = traces.reduce((sum, trace) => sum + (trace?.strange ?? 0), 0);
    element("strange").hidden = strange === 0;
    element("strange").textContent = `${strange} ${strange === 1 ? "line is none" : "lines are none"} of a trace and left out`;
  }

  // ---- settings ------------------------------------------------------------------------------------------------
  function drawSettings() {
    const begun = traces.filter((trace) => trace?.begin);
    const names = [...new Set(begun.flatMap((trace) => Object.keys(trace.begin.settings ?? {})))].sort();
    const words = (value) => (value === null || value === undefined ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value));
    const rows = names.map((name) => {
      const values = begun.map((trace) => words(trace.begin.settings[name]));
      const row = make("tr");
      if (new Set(values).size > 1) row.className = "differs";
      row.append(make("td", name), ...values.map((value) => make("td", value)));
      return row;
    });
    if (begun.length > 1) {
      rows.sort((a, b) => (b.className ? 1 : 0) - (a.className ? 1 : 0));
      const head = make("tr");
      head.append(make("th", "setting"), ...begun.map((trace) => make("th", trace.name.split(/[\\/]/).pop())));
      rows.unshift(head);
    }
    element("settings").querySelector("table").replaceChildren(...rows);
    // What all have in common: several trainings need not be of one kind or one size.
    const all = (text) => { const said = new Set(begun.map((trace) => text(trace.begin))); return said.size === 1 ? [...said] : []; };
    const parts = [...all((begin) => begin.model), ...all((begin) => `${show(begin.rows)} x ${show(begin.columns)}`), ...all((begin) => `version ${begin.version}`)];
    if (begun.length) element("what").textContent = parts.join(", ");
  }

  // ---- curves --------------------------------------------------------------------------------------------------
  function metrics() {
    const found = new Set();
    for (const run of shown()) {
      for (const step of [...run.steps.slice(0, 20), ...run.steps.slice(-20)]) {
        for (const [name, value] of Object.entries(step)) if (typeof value === "number" && !NOT_CURVES.has(name)) found.add(name);
      }
    }
    const order = Object.keys(TITLES);
    const place = (name) => (order.indexOf(name) < 0 ? order.length : order.indexOf(name));
    return [...found].sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
  }

  function curve(run, metric, axis, skip) {
    const value = typeof metric === "number" ? (step) => step.sizes?.[metric] : (step) => step[metric];
    const points = run.steps.filter((step) => typeof value(step) === "number").map((step) => [step[axis], value(step)]);
    const last = points.length ? points[points.length - 1][0] : 0;
    return points.filter(([x]) => x >= skip * last);
  }

  function ticks(low, high, most) {
    const span = high - low;
    if (!(span > 0)) return [low];
    const rough = span / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((width) => width >= rough);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; n += 1) found.push(n * step);
    return found;
  }
  function tickText(value, all, metric) {
    if (metric === "peak_memory_bytes") return show(value, metric);
    const step = all.length > 1 ? Math.abs(all[1] - all[0]) : Math.abs(value) || 1;
    const largest = Math.max(...all.map(Math.abs), step);
    if (largest >= 1e6) {
      const power = Math.floor(Math.log10(largest));
      return value === 0 ? "0" : `${(value / 10 ** power).toFixed(Math.max(0, power - Math.floor(Math.log10(step))))}e${power}`;
    }
    if (step >= 1) return value.toLocaleString("en");
    return value.toFixed(Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))));
  }

  function watchPointer(chart) {
    chart.canvas.addEventListener("pointermove", (event) => {
      if (!chart.area) return;
      const { left, width, low, high } = chart.area;
      crosshair = low + ((event.offsetX - left) / width) * (high - low);
      dirty = true;
    });
    chart.canvas.addEventListener("pointerleave", () => { crosshair = null; dirty = true; });
  }

  function drawCharts() {
    const wanted = metrics(), axis = element("axis").value, skip = Number(element("skip").value);
    for (const [metric, chart] of charts) if (!wanted.includes(metric)) { chart.figure.remove(); charts.delete(metric); }
    for (const metric of wanted) {
      if (charts.has(metric)) continue;
      const figure = make("figure"), caption = make("figcaption"), value = make("span"), canvas = make("canvas");
      canvas.setAttribute("role", "img");
      caption.append(make("b", title(metric)), value);
      figure.append(caption, canvas);
      const chart = { figure, value, canvas, metric, area: null };
      watchPointer(chart);
      charts.set(metric, chart);
    }
    element("charts").append(...wanted.map((metric) => charts.get(metric).figure));
    for (const metric of wanted) drawChart(charts.get(metric), axis, skip);
  }

  const curvesOf = (metric, axis, skip) => shown().map((run) => ({ run, name: nameOf(run), points: curve(run, metric, axis, skip) }));

  function drawChart(chart, axis, skip, all = curvesOf(chart.metric, axis, skip)) {
    const { canvas, metric } = chart, style = getComputedStyle(document.documentElement);
    const ratio = window.devicePixelRatio || 1, [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    if (!wide) return;
    [canvas.width, canvas.height] = [Math.round(wide * ratio), Math.round(high * ratio)];
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const curves = all.filter(({ points }) => points.length);
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { points } of curves) for (const [x, y] of points) {
      if (x < x0) x0 = x;
      if (x > x1) x1 = x;
      if (y < y0) y0 = y;
      if (y > y1) y1 = y;
    }
    if (!curves.length) return;
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    const room = y1 > y0 ? (y1 - y0) * 0.06 : Math.abs(y0) * 0.01 || 1;
    const floor = y0 >= 0 && y0 - room < 0 ? 0 : y0 - room;
    [y0, y1] = [floor, y1 + room];
    pen.font = "11px system-ui, sans-serif";
    const marks = ticks(y0, y1, 5), texts = marks.map((value) => tickText(value, marks, metric));
    const left = Math.ceil(Math.max(...texts.map((text) => pen.measureText(text).width))) + 8;
    const [top, bottom, right] = [6, 20, 8], width = wide - left - right, height = high - top - bottom;
    const px = (x) => left + ((x - x0) / (x1 - x0)) * width, py = (y) => top + (1 - (y - y0) / (y1 - y0)) * height;
    chart.area = { left, width, low: x0, high: x1 };
    [pen.strokeStyle, pen.fillStyle, pen.lineWidth] = [style.getPropertyValue("--line"), style.getPropertyValue("--soft"), 1];
    pen.textAlign = "right"; pen.textBaseline = "middle";
    marks.forEach((value, i) => {
      const y = Math.round(py(value)) + 0.5;
      pen.beginPath(); pen.moveTo(left, y); pen.lineTo(wide - right, y); pen.stroke();
      pen.fillText(texts[i], left - 5, y);
    });
    pen.textAlign = "center"; pen.textBaseline = "top";
    const places = ticks(x0, x1, Math.max(2, Math.floor(width / 50)));
    places.forEach((value) => pen.fillText(tickText(value, places, axis), px(value), high - bottom + 5));
    pen.save();
    pen.beginPath(); pen.rect(left, 0, width + right, high - bottom + 1); pen.clip();
    pen.lineWidth = 1.6; pen.lineJoin = "round";
    for (const { run, points } of curves) {
      pen.strokeStyle = pen.fillStyle = run.colour;
      pen.setLineDash(run.dash);
      pen.beginPath();
      points.forEach(([x, y], i) => (i ? pen.lineTo(px(x), py(y)) : pen.moveTo(px(x), py(y))));
      pen.stroke();
      if (points.length < 40) for (const [x, y] of points) { pen.beginPath(); pen.arc(px(x), py(y), 2.1, 0, 7); pen.fill(); }
    }
    pen.setLineDash([]);
    const nearest = (points, x) => points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
    if (crosshair !== null) {
      pen.strokeStyle = style.getPropertyValue("--soft"); pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(px(crosshair), top); pen.lineTo(px(crosshair), top + height); pen.stroke();
    }
    pen.restore();
    const values = curves.map(({ points }) => (crosshair === null ? points[points.length - 1] : nearest(points, crosshair)));
    if (crosshair !== null) for (const [i, [x, y]] of values.entries()) {
      pen.fillStyle = curves[i].run.colour; pen.beginPath(); pen.arc(px(x), py(y), 3.5, 0, 7); pen.fill();
    }
    const few = (metric === "sizes" ? [] : values.slice(0, 3)).map(([, y], i) => {
      const text = make("span", show(y, metric)), dot = make("i");
      dot.style.background = curves[i].run.colour;
      text.prepend(dot);
      return text;
    });
    const place = crosshair === null ? [] : [make("span", `at ${show(Number(crosshair.toPrecision(4)))}`)];
    chart.value.replaceChildren(...place, ...few, ...(values.length > 3 && metric !== "sizes" ? [make("span", "...")] : []));
    canvas.setAttribute("aria-label", `${title(metric)}: ${curves.map(({ name }, i) => `${name} ${show(values[i][1], metric)}`).join(", ")}`);
  }

  // ---- sizes of clusters or topics -----------------------------------------------------------------------------
  const sizes = { metric: "sizes", figure: element("sizes"), canvas: element("sizes-canvas"), value: element("sizes-value"), area: null };
  watchPointer(sizes);

  function drawSizes() {
    const runs = shown().filter((run) => run.steps.some((step) => step.sizes)), choice = element("sizes-run");
    sizes.figure.hidden = runs.length === 0;
    if (!runs.length) return;
    const keys = runs.map((run) => run.key).join(" ");
    if (choice.dataset.keys !== keys) {
      const before = choice.value;
      choice.dataset.keys = keys;
      choice.replaceChildren(...runs.map((run) => Object.assign(make("option", nameOf(run)), { value: run.key })));
      if (runs.some((run) => run.key === before)) choice.value = before;
    }
    choice.hidden = runs.length < 2;
    const run = runs.find(({ key }) => key === choice.value) ?? runs[0];
    const last = [...run.steps].reverse().find((step) => step.sizes).sizes;
    const asked = (element("sizes-which").value.match(/\d+/g) ?? []).map(Number).filter((k) => k < last.length);
    const largest = last.map((_, k) => k).sort((a, b) => last[b] - last[a] || a - b).slice(0, COLOURS.length);
    const which = asked.length ? [...new Set(asked)].slice(0, COLOURS.length * DASHES.length) : largest;
    const looks = (i) => ({ colour: COLOURS[i % COLOURS.length], dash: DASHES[Math.floor(i / COLOURS.length)] });
    const axis = element("axis").value, skip = Number(element("skip").value);
    const curves = which.map((k, i) => ({ run: looks(i), name: String(k), points: curve(run, k, axis, skip) }));
    drawChart(sizes, axis, skip, curves);
    const entry = (k, i) => {
      const text = make("span", `${k}: ${show(last[k])}`), dot = make("i");
      dot.style.background = COLOURS[i % COLOURS.length];
      text.prepend(dot);
      return text;
    };
    element("sizes-legend").replaceChildren(...which.map(entry), make("span", asked.length ? `of ${last.length}` : `the largest of ${last.length}`));
  }

  // ---- the whole -----------------------------------------------------------------------------------------------
  let lost = false;
  function status() {
    const runs = everything(), line = element("status");
    if (lost) line.textContent = runs.length && runs.every((run) => run.end) ? "ended" : "the program has ended, or does not answer; what came before stays";
    else if (!runs.length) line.textContent = "waiting for a first step";
    else {
      const going = runs.filter((run) => !run.end).length;
      const reasons = new Set(runs.map((run) => run.end?.reason));
      line.textContent = going ? `${going} of ${runs.length} under way` : reasons.size === 1 ? `ended: ${[...reasons][0]}` : `ended: all ${runs.length}`;
    }
  }
  function draw() {
    if (dirty) { dirty = false; drawRuns(); drawCharts(); drawSizes(); drawSettings(); }
    status();
  }

  let waiting = false;
  async function ask() {
    if (waiting) return;
    waiting = true;
    try {
      const has = traces.map((trace) => `${trace.generation}.${trace.count}`).join(",");
      const answer = await fetch(`state?has=${has}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      take(await answer.json());
      lost = false;
    } catch { lost = true; }
    waiting = false;
    draw();
  }

  function remember() {
    const view = new URLSearchParams({ over: element("axis").value, from: element("skip").value });
    if (hidden.size) view.set("without", [...hidden].join(" "));
    history.replaceState(null, "", `#${view}`);
  }
  function recall() {
    const view = new URLSearchParams(location.hash.slice(1));
    const choose = (id, value) => { if ([...element(id).options].some((option) => option.value === value)) element(id).value = value; };
    choose("axis", view.get("over"));
    choose("skip", view.get("from"));
    hidden = new Set((view.get("without") ?? "").split(" ").filter(Boolean));
  }
  function theme(name) {
    document.documentElement.dataset.theme = name;
    try { localStorage.setItem("lsparse-theme", name); } catch { /* a page without a memory */ }
    dirty = true;
    draw();
  }
  function table() {
    const names = ["name", "run", "lap", "step", "seconds", "cpu_seconds", ...metrics()];
    const cell = (value) => { const text = value == null ? "" : String(value); return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
    const rows = shown().flatMap((run) => run.steps.map((step) => names.map((name) => cell(name === "name" ? run.trace.name : step[name])).join(",")));
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([[names.join(","), ...rows].join("\n") + "\n"], { type: "text/csv" }));
    link.download = "training.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  for (const id of ["sizes-run", "sizes-which"]) element(id).addEventListener("input", () => { dirty = true; draw(); });
  for (const id of ["axis", "skip"]) element(id).addEventListener("change", () => { remember(); dirty = true; draw(); });
  const other = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  element("theme").addEventListener("click", other);
  element("csv").addEventListener("click", table);
  element("stop").addEventListener("click", async () => {
    element("stop").disabled = true;
    try { await fetch("stop", { method: "POST" }); } catch { lost = true; }
    ask();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "t" && !event.ctrlKey && !event.metaKey && event.target === document.body) other(); });
  window.addEventListener("resize", () => { dirty = true; draw(); });
  window.addEventListener("hashchange", () => { recall(); dirty = true; draw(); });
  let kept = null;
  try { kept = localStorage.getItem("lsparse-theme"); } catch { /* a page without a memory */ }
  document.documentElement.dataset.theme = kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  recall();
  ask();
  setInterval(ask, 1000);
  const tick = () => { if (dirty) draw(); requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
})();
