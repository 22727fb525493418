"""Figures 1 and 2: mixtures of image patches."""

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

# One colour an L, the same in all panels; dense is black.
COLOURS = {1: "#d62728", 2: "#e377c2", 4: "#ff7f0e", 8: "#2ca02c", 16: "#1f77b4", 32: "#9467bd"}
DENSE = "black"
SUBSTEPS = {"weights": "#9ecae1", "responsibilities": "#fdae6b", "summary": "#a1d99b", "global step": "#bdbdbd"}
EXACT = {"local step and summary, first pass": "#6baed6", "local step and summary, second pass": "#c6dbef"}
STYLES = {"memoized": "-", "stochastic": "--"}


def colour(row: dict) -> str:
    return DENSE if row.get("dense") else COLOURS[row["sparsity"]]


def name(row: dict) -> str:
    return "L = K" if row.get("dense") else f"L = {row['sparsity']}"


def legend_once(axes, **options) -> None:
    """A legend that names everything once."""
    handles, labels = axes.get_legend_handles_labels()
    named = dict(zip(labels, handles))
    axes.legend(named.values(), named.keys(), frameon=False, fontsize=6, **options)


def fig1(rows: list[dict]):
    """Substeps of two passes by L, two steps against K, distances from dense."""
    figure, (a, b, c, d) = plt.subplots(1, 4, figsize=(11, 2.6), layout="constrained")
    draw_substeps(a, [row for row in rows if row["panel"] == "a"])
    for axes, panel, title in [(b, "b", "b: weights to responsibilities"), (c, "c", "c: summary step")]:
        own = [row for row in rows if row["panel"] == panel]
        for label in dict.fromkeys(name(row) for row in own):
            line = [row for row in own if name(row) == label]
            points = [row["clusters"] for row in line], [row["cpu_seconds"] for row in line]
            axes.loglog(*points, marker="o", markersize=3, color=colour(line[0]), label=label)
        ticks = sorted({row["clusters"] for row in own})
        axes.set_xticks(ticks, [str(k) for k in ticks])
        axes.minorticks_off()
        axes.set(title=title, xlabel="K", ylabel="seconds")
        legend_once(axes)
    own = [row for row in rows if row["panel"] == "d"]
    for sparsity in dict.fromkeys(row["sparsity"] for row in own):
        line = [row for row in own if row["sparsity"] == sparsity]
        d.plot([row["distance"] for row in line], [row["share"] for row in line], color=COLOURS[sparsity],
               label=f"L = {sparsity}")
    d.set(title="d: distance from dense", xlabel="variational distance", ylabel="share of patches", ylim=(0, 1.02))
    legend_once(d, loc="lower right")
    return figure


def draw_substeps(axes, rows: list[dict]) -> None:
    """A bar an L, made of its substeps, and one for exact search."""
    clusters = rows[0]["clusters"]
    bars = dict.fromkeys((row["sparsity"], row["search"]) for row in rows)
    labels = []
    for at, (sparsity, search) in enumerate(bars):
        labels.append("K" if sparsity == clusters else str(sparsity))
        if search == "exact":
            labels[-1] += "\nexact"
        bottom = 0.0
        for row in rows:
            if (row["sparsity"], row["search"]) == (sparsity, search):
                substep, seconds = row["substep"], row["cpu_seconds"]
                shade = SUBSTEPS.get(substep) or EXACT[substep]
                axes.bar(at, seconds, bottom=bottom, color=shade, label=substep.replace(", ", ",\n"))
                bottom += seconds
    axes.set_xticks(range(len(labels)), labels)
    axes.set(title=f"a: two passes, K = {clusters}", xlabel="L", ylabel="seconds")
    axes.set_ylim(0, 2.1 * axes.get_ylim()[1])
    legend_once(axes, loc="upper left")


def fig2(rows: list[dict]):
    """Held-out log likelihood over computing time, a panel a K."""
    curves = [row for row in rows if row["what"] == "curve"]
    panels = sorted({row["clusters"] for row in curves})
    figure, all_axes = plt.subplots(
        1, len(panels), figsize=(max(5.0, 2.6 * len(panels)), 2.9), layout="constrained", squeeze=False
    )
    for axes, clusters in zip(all_axes[0], panels):
        own = [row for row in curves if row["clusters"] == clusters]
        for sparsity, schedule in sorted({(row["sparsity"], row["schedule"]) for row in own}):
            line = [row for row in own if (row["sparsity"], row["schedule"]) == (sparsity, schedule)]
            axes.plot(
                [row["cpu_seconds"] for row in line],
                [row["heldout"] for row in line],
                STYLES[schedule],
                color=colour(line[0]),
                linewidth=1,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set(title=f"K = {clusters}, {own[0]['images']} images", xlabel="computing time (s)")
    all_axes[0][0].set_ylabel("held-out log likelihood")
    handles = [Line2D([], [], color=shade, label=label) for label, shade in legend_of(curves).items()]
    handles += [Line2D([], [], color="grey", linestyle=style, label=label) for label, style in STYLES.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=7)
    return figure


def legend_of(curves: list[dict]) -> dict[str, str]:
    """Every L and its colour, dense last."""
    ordered = sorted(curves, key=lambda row: (row["dense"], row["sparsity"]))
    return {name(row): colour(row) for row in ordered}
