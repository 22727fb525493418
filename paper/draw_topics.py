"""The figures on topics: what a pass costs, held-out scores over time, warm and cold starts."""

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, StrMethodFormatter

TITLES = {"nips": "NIPS", "wiki": "Wikipedia", "arxiv": "arXiv"}
COLOURS = {1: "tab:orange", 4: "tab:green", 8: "tab:red", 16: "tab:purple"}
DENSE = "tab:blue"
SAMPLERS = {
    "SparseLDA": ("black", "-"),
    "LightLDA": ("tab:brown", "-"),
    "SVIGibbs 5": ("tab:gray", ":"),
    "SVIGibbs 10": ("tab:gray", "-"),
}


def group(items: list[dict], *keys: str) -> dict[tuple, list[dict]]:
    """Items by the values of some keys, in the order in which they come."""
    groups: dict[tuple, list[dict]] = {}
    for item in items:
        groups.setdefault(tuple(item.get(key) for key in keys), []).append(item)
    return groups


def values(items: list[dict], key: str) -> list:
    """One column."""
    return [item[key] for item in items]


def distinct(items: list[dict], key: str) -> list:
    """The values of a column, in the order in which they come."""
    return list(dict.fromkeys(item[key] for item in items))


def colour(sparsity: int, topics: int) -> str:
    """The colour of a sparsity, the same in every panel."""
    return DENSE if sparsity == topics else COLOURS.get(sparsity, "tab:cyan")


def label(sparsity: int, topics: int) -> str:
    """What a legend says of a sparsity."""
    return "L = K" if sparsity == topics else f"L = {sparsity}"


def log_ticks(axis) -> None:
    """A logarithmic axis with plain numbers at powers of ten."""
    axis.axes.set_xscale("log") if axis.axis_name == "x" else axis.axes.set_yscale("log")
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def best_seeds(rows: list[dict]) -> list[list[dict]]:
    """The curves, of those that differ in their seed alone the one that ended best."""
    best = {}
    for key, curve in group(rows, "method", "sparsity", "seed").items():
        if key[:2] not in best or curve[-1]["heldout"] > best[key[:2]][-1]["heldout"]:
            best[key[:2]] = curve
    return list(best.values())


def scores_over_time(rows: list[dict]) -> plt.Figure:
    """Figure 4: a row a corpus and estimate, a column a K."""
    rows = [row for row in rows if row["panel"] == "curve"]
    corpora, sizes = distinct(rows, "corpus"), sorted(distinct(rows, "topics"))
    panels = [(corpus, estimate) for corpus in corpora for estimate in ("vb", "map")]
    figure, axes = plt.subplots(
        len(panels), len(sizes), figsize=(2.4 * len(sizes), 1.9 * len(panels)), squeeze=False, layout="constrained"
    )
    for (corpus, estimate), line in zip(panels, axes):
        shown = []
        for topics, axis in zip(sizes, line):
            of_panel = [row for row in rows if (row["corpus"], row["topics"]) == (corpus, topics)]
            # Samplers are the same under both estimates.
            of_panel = [row for row in of_panel if row["estimate"] == estimate or row["method"] in SAMPLERS]
            for curve in best_seeds(of_panel):
                method, sparsity = curve[0]["method"], curve[0]["sparsity"]
                if method in SAMPLERS:
                    style = dict(zip(("color", "linestyle"), SAMPLERS[method]), linewidth=0.9)
                else:
                    dash = "-" if method == "memoized" else "--"
                    style = {"color": colour(sparsity, topics), "linestyle": dash, "linewidth": 1.2}
                    shown.append(curve[-1]["heldout"])
                axis.plot(values(curve, "cpu_seconds"), values(curve, "heldout"), marker=".", markersize=2.5, **style)
            log_ticks(axis.xaxis)
            axis.grid(alpha=0.3)
            if not of_panel:
                axis.text(0.5, 0.5, "not run", transform=axis.transAxes, ha="center", color="gray")
            if (corpus, estimate) == panels[0]:
                axis.set_title(f"K = {topics}")
            if (corpus, estimate) == panels[-1]:
                axis.set_xlabel("CPU seconds")
        # What samplers score in their first laps, and hard assignments that fail, would flatten all else.
        shown.sort()
        low = max(shown[len(shown) // 2] - 0.35, shown[0] - 0.05) if shown else -1.0
        times = [row["cpu_seconds"] for row in rows if row["corpus"] == corpus]
        for axis in line:
            axis.set_xlim(0.8 * min(times), 1.25 * max(times))
            axis.set_ylim(low, max(shown, default=0.0) + 0.03)
        line[0].set_ylabel(f"{TITLES.get(corpus, corpus)}, {estimate}\nheld-out score")
        for axis in line[1:]:
            axis.tick_params(labelleft=False)
    sparsities = [1, 4, 8, 16]
    handles = [Line2D([], [], color=COLOURS[n], label=f"L = {n}") for n in sparsities]
    handles += [Line2D([], [], color=DENSE, label="L = K")]
    handles += [Line2D([], [], color="black", linestyle=d, label=n) for n, d in (("memoized", "-"), ("stochastic", "--"))]
    handles += [Line2D([], [], color=c, linestyle=d, linewidth=0.9, label=n) for n, (c, d) in SAMPLERS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=6)
    return figure


def starts(rows: list[dict]) -> plt.Figure:
    """Figure 5: a row a corpus, the objective and the held-out score of every kind of document step."""
    corpora, kinds = distinct(rows, "corpus"), distinct(rows, "kind")
    panels = [(kind, what) for what in ("objective", "heldout") for kind in kinds]
    figure, axes = plt.subplots(
        len(corpora), len(panels), figsize=(2.2 * len(panels), 2.1 * len(corpora)), squeeze=False, layout="constrained"
    )
    for corpus, line in zip(corpora, axes):
        for (kind, what), axis in zip(panels, line):
            of_panel = [row for row in rows if (row["corpus"], row["kind"]) == (corpus, kind)]
            for (start, restarts), curve in group(of_panel, "start", "restarts").items():
                style = {"color": "tab:red" if restarts else "tab:blue", "linestyle": "-" if start == "cold" else "--"}
                scale = 1e-6 if what == "objective" else 1.0
                heights = [scale * value for value in values(curve, what)]
                name = f"{start}, {'with' if restarts else 'no'} restarts"
                axis.plot(values(curve, "lap"), heights, marker=".", label=name, **style)
            axis.grid(alpha=0.3)
            if corpus == corpora[0]:
                axis.set_title(f"{kind}\n{'objective / million' if what == 'objective' else 'held-out score'}")
            if corpus == corpora[-1]:
                axis.set_xlabel("laps")
        line[0].set_ylabel(TITLES.get(corpus, corpus))
        for left in (0, len(kinds)):
            beside = line[left : left + len(kinds)]
            low, high = min(axis.get_ylim()[0] for axis in beside), max(axis.get_ylim()[1] for axis in beside)
            for axis in beside:
                axis.set_ylim(low, high)
                axis.tick_params(labelleft=axis is beside[0])
    figure.legend(handles=axes[0][0].get_lines(), loc="outside lower center", ncols=4)
    return figure


def costs(rows: list[dict]) -> plt.Figure:
    """Figure 3: substeps of ten passes, local step and summary step by K, distance from dense."""
    by_panel = {key[0]: items for key, items in group(rows, "panel").items()}
    figure, (whole, local, summary, distance) = plt.subplots(1, 4, figsize=(12.5, 3.1), layout="constrained")
    bars = by_panel["whole"]
    names = [label(row["sparsity"], row["topics"]) for row in bars]
    bottom = [0.0] * len(bars)
    steps = (("local_seconds", "local", "tab:blue"), ("summary_seconds", "summary", "tab:orange"))
    for key, name, tint in (*steps, ("global_seconds", "global", "tab:green")):
        heights = values(bars, key)
        whole.bar(names, heights, bottom=bottom, label=name, color=tint)
        bottom = [below + height for below, height in zip(bottom, heights)]
    for at, (row, height) in enumerate(zip(bars, bottom)):
        whole.text(at, height, f"{row['documents_a_second']:,.0f}", ha="center", va="bottom", fontsize=7)
    whole.set_title(f"a: {bars[0]['laps']} passes, K = {bars[0]['topics']}")
    whole.set_ylabel("CPU seconds")
    whole.legend()
    for axis, key, title in (
        (local, "local_seconds", "b: local step and restarts"),
        (summary, "summary_seconds", "c: summary step"),
    ):
        steps = by_panel["steps"]
        for (name,), items in group(steps, "name").items():
            # The same L in all panels has the same colour; what selects inside the iterations is dashed.
            sparsity = items[0]["sparsity"] if name != "L = K" else items[0]["topics"]
            style = {"color": colour(sparsity, items[0]["topics"]), "linestyle": "--" if "," in name else "-"}
            axis.plot(values(items, "topics"), values(items, key), marker="o", markersize=3, label=name, **style)
        log_ticks(axis.xaxis)
        log_ticks(axis.yaxis)
        axis.set_xticks(sorted(set(values(steps, "topics"))))
        axis.set_xlabel("K")
        axis.set_ylabel(f"CPU seconds, {steps[0]['documents']} documents")
        axis.set_title(title)
        axis.grid(alpha=0.3)
    figure.legend(handles=local.get_lines(), loc="outside lower center", ncols=6)
    for (sparsity, restarts), items in group(by_panel["distance"], "sparsity", "restarts").items():
        style = {"linestyle": "-" if restarts else ":", "color": colour(sparsity, 0)}
        name = f"L = {sparsity}" if restarts else None
        distance.plot(values(items, "distance"), values(items, "share"), label=name, **style)
    distance.plot([], [], ":", color="black", label="no restarts")
    distance.set_title("d: distance from L = K")
    distance.set_xlabel("variational distance")
    distance.set_ylabel("share of documents")
    distance.grid(alpha=0.3)
    distance.legend(fontsize=7)
    return figure


DRAWN = {"fig3": costs, "fig4": scores_over_time, "fig5": starts}
