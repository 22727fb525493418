"""Document completion in plain NumPy, to check the library's scorer on the split that it wrote.

Usage: python check_scorer.py CORPUS TOPICS.npy SPLIT [ALPHA] [SCORE]

SPLIT comes from `topics score CORPUS TOPICS.npy --dump-split SPLIT`. One JSON object on stdout. With SCORE, the
library's, the exit code is 1 if the two differ by more than 2e-4: this always iterates 100 times, the library stops
when counts rest.
"""

import json
import sys

import numpy as np
from scipy.special import digamma

from corpus import load


def complete(topics, alpha, words, counts):
    """E[pi] of a document by dense mean-field updates, started from each word's own responsibilities."""
    likelihood = topics[:, words]
    topic_counts = (likelihood / likelihood.sum(axis=0)) @ counts
    for _ in range(100):
        weights = likelihood * np.exp(digamma(topic_counts + alpha))[:, None]
        topic_counts = (weights / weights.sum(axis=0)) @ counts
    return (topic_counts + alpha) / (topic_counts + alpha).sum()


def main():
    _, test = load(sys.argv[1], "test")
    topics = np.load(sys.argv[2]).astype(np.float64)
    alpha = (float(sys.argv[4]) if len(sys.argv) > 4 else 0.5) / len(topics)
    total = tokens = documents = 0
    for n, line in enumerate(open(sys.argv[3])):
        row = slice(test.indptr[n], test.indptr[n + 1])
        words, counts = test.indices[row], test.data[row].astype(np.float64)
        held = np.isin(words, [int(word) for word in line.split()])
        if not held.any():
            continue
        pi = complete(topics, alpha, words[~held], counts[~held])
        total += counts[held] @ np.log(pi @ topics[:, words[held]])
        tokens += counts[held].sum()
        documents += 1
    line = {"what": "score by NumPy", "score": total / tokens, "tokens": tokens, "documents": documents}
    if len(sys.argv) > 5:
        line["difference"] = line["score"] - float(sys.argv[5])
    print(json.dumps(line))
    sys.exit(int(abs(line.get("difference", 0.0)) > 2e-4))


if __name__ == "__main__":
    main()
