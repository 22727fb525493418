"""Draw the figures from their measurements: draw.py FOLDER fig1 [fig2 ...] writes FOLDER/figN.svg and .png."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import draw_patches  # noqa: E402
import draw_topics  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402


def rows(folder: Path, name: str) -> list[dict]:
    """The measurements of a figure."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


DRAWN: dict = {"fig1": draw_patches.fig1, "fig2": draw_patches.fig2, **draw_topics.DRAWN}


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    # Text stays text in SVG files, and the same measurements give the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lsparse", "font.size": 8})
    for name in names:
        figure = DRAWN[name](rows(folder, name))
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
        figure.savefig(folder / f"{name}.png", dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
