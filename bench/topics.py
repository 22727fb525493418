"""Train another system's topics on one thread and save them after so many CPU seconds of training.

Usage: python topics.py CORPUS PEER -k K --times 100,200 --out FOLDER
       python topics.py CORPUS PEER -k K --laps 20

CORPUS is as in corpus.py. PEER is tomotopy (collapsed Gibbs), tomotopy-default (the same with its own priors and an
alpha that it learns, saved next to the topics as alpha-...), tomotopy-hdp (its HDP, which finds K; -k is what it
starts with), gensim (online, chunks of 2,000; its default),
gensim-batch, sklearn (batch, its default) or sklearn-online. A snapshot is what the system has after the first step
that ends at or after the time asked for, and is saved as topics-NAME-PEER-K-SECONDS.npy: K rows over all words, each
summing to one. One JSON object a snapshot on stdout; with --laps one alone, with the seconds after each step.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from corpus import load


class Finished(Exception):
    """The last snapshot is saved."""


class Recorder:
    """A clock that runs only while the system trains, and the snapshots that are due by it."""

    def __init__(self, args, name):
        self.args, self.name = args, name
        self.due = sorted(args.times)
        self.after = []
        self.cpu = self.wall = 0.0
        self.steps = self.documents = 0

    def start(self):
        self.began = time.process_time(), time.perf_counter()

    def step(self, documents, topics, alpha=None):
        """A step over so many documents is done; `topics()` gives counts with their smoothing, K x V, and `alpha()` a
        learned prior of a document's topics."""
        self.cpu += time.process_time() - self.began[0]
        self.wall += time.perf_counter() - self.began[1]
        self.steps += 1
        self.documents += documents
        self.after.append(self.cpu)
        if self.steps == self.args.laps:
            raise Finished
        if self.due and self.cpu >= self.due[0]:
            values = topics()
            values = (values / values.sum(axis=1, keepdims=True)).astype(np.float32)
        while self.due and self.cpu >= self.due[0]:
            self.save(self.due.pop(0), values, alpha and alpha())
        if not self.due and not self.args.laps:
            raise Finished
        self.start()

    def save(self, asked, values, alpha):
        args = self.args
        file = Path(args.out) / f"topics-{self.name}-{args.peer}-{args.topics}-{asked:g}.npy"
        np.save(file, values)
        line = {
            "what": "time",
            "system": args.peer,
            "corpus": self.name,
            "topics": len(values),
            "asked": asked,
            "seconds": round(self.cpu, 2),
            "wall_seconds": round(self.wall, 2),
            "steps": self.steps,
            "documents_per_second": round(self.documents / self.cpu, 1),
            "file": str(file),
        }
        if alpha is not None:
            line["alpha_file"] = str(file.with_name(file.name.replace("topics-", "alpha-", 1)))
            line["alpha"] = float(alpha.sum())
            np.save(line["alpha_file"], alpha.reshape(1, -1).astype(np.float32))
        print(json.dumps(line), flush=True)


def tomotopy(counts, args, recorder):
    import tomotopy as tp

    num_words = counts.shape[1]
    matched = args.peer == "tomotopy"
    priors = {"alpha": args.alpha / args.topics, "eta": args.smoothing} if matched else {}
    model = tp.LDAModel(k=args.topics, seed=args.seed + 1, **priors)
    for n in range(counts.shape[0]):
        row = slice(counts.indptr[n], counts.indptr[n + 1])
        words = np.repeat(counts.indices[row], counts.data[row])
        if len(words):
            model.add_doc([str(word) for word in words])
    if matched:
        # Keep alpha as it is given.
        model.optim_interval = 0

    def topics():
        words = np.array([int(word) for word in model.used_vocabs])
        values = np.full((args.topics, num_words), model.eta)
        for k in range(args.topics):
            # Counts, smoothing added: a word without any has the smoothing alone.
            values[k, words] = model.get_topic_word_dist(k, normalize=False)
        return values

    recorder.start()
    model.train(0, workers=1)
    while True:
        model.train(1, workers=1)
        recorder.step(counts.shape[0], topics, None if matched else lambda: np.array(model.alpha))


def tomotopy_hdp(counts, args, recorder):
    import tomotopy as tp

    num_words = counts.shape[1]
    model = tp.HDPModel(initial_k=args.topics, seed=args.seed + 1)
    for n in range(counts.shape[0]):
        row = slice(counts.indptr[n], counts.indptr[n + 1])
        words = np.repeat(counts.indices[row], counts.data[row])
        if len(words):
            model.add_doc([str(word) for word in words])

    def live():
        return [k for k in range(model.k) if model.is_live_topic(k)]

    def topics():
        words = np.array([int(word) for word in model.used_vocabs])
        values = np.full((len(live()), num_words), model.eta)
        for at, k in enumerate(live()):
            values[at, words] = model.get_topic_word_dist(k, normalize=False)
        return values

    def alpha():
        tokens = np.array(model.get_count_by_topics(), dtype=float)[live()]
        return model.alpha * tokens / tokens.sum()

    recorder.start()
    model.train(0, workers=1)
    while True:
        model.train(1, workers=1)
        recorder.step(counts.shape[0], topics, alpha)


def gensim(counts, args, recorder):
    from gensim.models import LdaModel

    documents = []
    for n in range(counts.shape[0]):
        row = slice(counts.indptr[n], counts.indptr[n + 1])
        documents.append(list(zip(counts.indices[row].tolist(), counts.data[row].tolist())))

    class Watched(LdaModel):
        def do_mstep(self, rho, other, *rest, **named):
            super().do_mstep(rho, other, *rest, **named)
            recorder.step(other.numdocs, self.state.get_lambda)

    recorder.start()
    # Perplexities along the way would cost it time and are not asked for.
    Watched(
        documents,
        num_topics=args.topics,
        id2word={v: str(v) for v in range(counts.shape[1])},
        alpha=[args.alpha / args.topics] * args.topics,
        eta=args.smoothing,
        chunksize=2000,
        update_every=0 if args.peer.endswith("batch") else 1,
        passes=1_000_000,
        eval_every=None,
        random_state=args.seed,
    )


def sklearn(counts, args, recorder):
    from sklearn.decomposition import LatentDirichletAllocation

    class Watched(LatentDirichletAllocation):
        def _em_step(self, rows, *rest, **named):
            super()._em_step(rows, *rest, **named)
            # Online training blends towards counts with their smoothing, so these have it too.
            recorder.step(rows.shape[0], lambda: self.components_)

    model = Watched(
        args.topics,
        doc_topic_prior=args.alpha / args.topics,
        topic_word_prior=args.smoothing,
        learning_method="online" if args.peer.endswith("online") else "batch",
        max_iter=1_000_000,
        n_jobs=1,
        random_state=args.seed,
    )
    recorder.start()
    model.fit(counts)


PEERS = {
    "tomotopy": tomotopy,
    "tomotopy-default": tomotopy,
    "tomotopy-hdp": tomotopy_hdp,
    "gensim": gensim,
    "gensim-batch": gensim,
    "sklearn": sklearn,
    "sklearn-online": sklearn,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("-k", "--topics", type=int, required=True)
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument("--times", type=lambda text: [float(t) for t in text.split(",")], default=[])
    until.add_argument("--laps", type=int)
    parser.add_argument("--out", default=".")
    parser.add_argument("--alpha", type=float, default=0.5, help="in total, over all topics")
    parser.add_argument("--lambda", dest="smoothing", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    Path(args.out).mkdir(parents=True, exist_ok=True)
    name, counts = load(args.corpus, "train")
    recorder = Recorder(args, name)
    try:
        PEERS[args.peer](counts, args, recorder)
    except Finished:
        pass
    if args.laps:
        line = {"what": "laps", "system": args.peer, "corpus": name, "topics": args.topics}
        print(json.dumps(line | {"tokens": int(counts.sum()), "cpu_seconds": recorder.after}))


if __name__ == "__main__":
    main()
