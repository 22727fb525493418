"""Read a corpus: a folder NAME with docword.NAME.txt (or .gz), as UCI has them, and split.NAME.txt."""

import gzip
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix


def load(folder, part):
    """The name of the corpus and the counts of the documents of one part of its split, in order."""
    folder = Path(folder).resolve()
    name = folder.name
    plain = folder / f"docword.{name}.txt"
    opened = open(plain) if plain.exists() else gzip.open(f"{plain}.gz", "rt")
    with opened as file:
        documents, words, _ = (int(file.readline()) for _ in range(3))
        entries = np.fromstring(file.read(), dtype=np.int64, sep=" ").reshape(-1, 3)
    counts = csr_matrix((entries[:, 2], (entries[:, 0] - 1, entries[:, 1] - 1)), shape=(documents, words))
    split = np.array((folder / f"split.{name}.txt").read_text().split())
    chosen = counts[split == part]
    chosen.sort_indices()
    return name, chosen
