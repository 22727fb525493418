"""Data sets of vectors to compare mixtures on: real ones from files, and synthetic ones with known truth.

Each is three files of f32 rows, NAME-train.npy, NAME-val.npy and NAME-test.npy, always the same ones; for the synthetic
ones NAME-truth.json has the mean log density of the held-out rows under what drew them.
"""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

from corpus import load
from density import log_density
from rivals import run

TRAIN, HELD = 10_000, 2_000
# Synthetic rows have fewer columns and may be more.
DRAWN = 20_000
COLUMNS = 32
IMAGES = 20  # a part
PARTS = ("train", "val", "test")


def prepare(name, folder, data, lsparse, parts=PARTS):
    """Make the files of a data set, unless these parts of it are there; gives the reason where that cannot be."""
    if all((folder / f"{name}-{part}.npy").exists() for part in parts):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    if name in SYNTHETIC:
        made = synthetic(name, folder)
    elif name in OTHERS:
        made = parted(OTHERS[name](np.random.default_rng(5), 9_000), 6_000, 1_500)
    elif name in SMALL:
        from sklearn import datasets

        rows = getattr(datasets, f"load_{name}")().data
        made = parted(rows, len(rows) - len(rows) // 6 * 2, len(rows) // 6)
    elif name == "digits":
        from sklearn.datasets import load_digits

        made = parted(load_digits().data, 1_197, 300)
    elif data is None:
        return "it is made from files: give --data DIR"
    elif name in FILES:
        needed, make = FILES[name]
        if not any(data.glob(needed)):
            return f"there is no {data / needed}"
        made = make(data, lsparse)
    else:
        made = patches(data, lsparse) if name == "bsds" else documents(data / "text" / name)
    for part, rows in zip(PARTS, made):
        np.save(folder / f"{name}-{part}.npy", np.ascontiguousarray(rows, dtype=np.float32))
    return None


def parted(rows, train, held):
    """Rows to train on, to choose by and to test on, drawn by a fixed seed."""
    order = np.random.default_rng(0).permutation(rows.shape[0])
    ends = np.cumsum([train, held, held])
    return [rows[chosen] for chosen in np.split(order, ends)[:3]]


def patches(data, lsparse, *options):
    """Patches of 8 x 8 pixels, mean removed, of images that are train, val and test by their folders."""
    made = []
    for part, count in zip(PARTS, (TRAIN, HELD, HELD)):
        folders = [path for path in sorted((data / "images").rglob(part)) if path.is_dir()]
        images = sorted(path for path in folders[0].iterdir() if path.suffix in (".jpg", ".png"))[:IMAGES]
        with tempfile.TemporaryDirectory() as some:
            for image in images:
                shutil.copy(image, some)
            file = Path(some) / "patches.npy"
            run([lsparse, "patches", some, "--dtype", "f32", "--out", file, "--quiet", "--threads", "1", *options])
            rows = np.load(file)
        made.append(rows[np.random.default_rng(0).choice(len(rows), count, replace=False)])
    return made


def documents(folder):
    """Word counts as tf-idf, reduced to 50 columns by what the documents to train on span."""
    from scipy.sparse import vstack
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    counts = vstack([load(folder, part)[1] for part in PARTS]).tocsr()
    held = min(HELD, counts.shape[0] // 7)
    train, *others = parted(counts, min(TRAIN, counts.shape[0] - 2 * held), held)
    weigh = TfidfTransformer(sublinear_tf=True).fit(train)
    reduce = TruncatedSVD(50, random_state=0).fit(weigh.transform(train))
    return [reduce.transform(weigh.transform(part)) for part in (train, *others)]


def principal(columns, train, *others):
    """Rows in so many principal components of those to train on."""
    mean = train.mean(axis=0, dtype=np.float64)
    centered = train - mean
    axes = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :columns]
    return [(rows - mean) @ axes for rows in (train, *others)]


def squares(data, lsparse):
    """Patches of 28 x 28 pixels in 50 principal components, as sets of small pictures are often given."""
    made = patches(data, lsparse, "--patch-size", "28", "--patch-stride", "14")
    return principal(50, *(rows.astype(np.float64) for rows in made))


def words(data, lsparse):
    """Vectors of words: 100 singular vectors of how much more often two words share documents than chance has it."""
    from scipy.sparse.linalg import svds

    there = (load(data / "text" / "wiki", "train")[1] > 0).astype(np.float32)
    there = there[:, np.asarray(there.sum(axis=0)).ravel() >= 5]
    both = np.asarray((there.T @ there).todense(), dtype=np.float64)
    alone = np.diag(both) / there.shape[0]
    np.fill_diagonal(both, 0)
    with np.errstate(divide="ignore"):
        more = np.maximum(np.log(both / there.shape[0]) - np.log(alone)[:, None] - np.log(alone), 0)
    left, sizes, _ = svds(more, 100, random_state=0)
    rows = left * np.sqrt(sizes)
    return parted(rows, len(rows) - len(rows) // 7 * 2, len(rows) // 7)


def tokens(data, lsparse):
    """The table of token vectors of a sentence encoder, in 100 principal components."""
    from safetensors.numpy import load_file

    table = load_file(data / "encoder" / "model.safetensors")["embeddings.word_embeddings.weight"]
    return principal(100, *(rows.astype(np.float64) for rows in parted(table, TRAIN, HELD)))


# Made from files; run with --only. What is needed of the folder of data, and how it is made.
FILES = {
    "squares": ("images", squares),
    "words": ("text/wiki", words),
    "tokens": ("encoder/model.safetensors", tokens),
}


def clusters(rng, count, spread=2.0):
    """Gaussians in all directions, of widths that differ a hundredfold; some overlap."""
    means = rng.normal(0, spread, (count, COLUMNS)) * 10 ** rng.uniform(-0.7, 0, COLUMNS)
    turns = np.linalg.qr(rng.normal(size=(count, COLUMNS, COLUMNS)))[0]
    widths = 10 ** rng.uniform(-1.5, 0.3, (count, COLUMNS))
    return {"weights": np.full(count, 1 / count), "means": means, "factors": turns * widths[:, None, :]}


def equal(rng):
    return clusters(rng, 50)


def power(rng):
    """Sizes fall as one over the rank: the smallest of 200 clusters has some 17 rows."""
    truth = clusters(rng, 200)
    truth["weights"] = 1 / np.arange(1, 201)
    truth["weights"] /= truth["weights"].sum()
    return truth


def scales(rng):
    """Columns in units from a thousandth to a thousand, and up to 300 of their spreads away from zero."""
    truth = clusters(rng, 50)
    units = 10 ** np.linspace(-3, 3, COLUMNS)[rng.permutation(COLUMNS)]
    truth["means"] = (truth["means"] + rng.uniform(-300, 300, COLUMNS)) * units
    truth["factors"] = truth["factors"] * units[None, :, None]
    return truth


def few(rng):
    """Five clusters: every K that is tried is too many."""
    return clusters(rng, 5, spread=1.0)


def many(rng):
    """A thousand clusters of 20 rows each: every K is too few."""
    return clusters(rng, 1000)


def heavy(rng):
    """Clusters with the tails of a Student t of three degrees of freedom."""
    truth = clusters(rng, 50)
    truth["freedom"] = 3.0
    return truth


def decades(rng, rows):
    """Counts over many decades, zeros and ones, rates with ties, a column of zeros, and a few far rows: like logs."""
    groups = rng.choice(12, rows, p=(sizes := 1 / np.arange(1, 13) ** 1.3) / sizes.sum())
    pick = lambda values: values[groups]
    counts = [np.exp(rng.normal(pick(rng.uniform(-1, 8, 12)), pick(rng.uniform(0.1, 2, 12)))).round() for _ in range(8)]
    flags = [(rng.random(rows) < pick(rng.beta(0.2, 0.2, 12))).astype(float) for _ in range(12)]
    widths = lambda: pick(rng.choice([0, 0.02, 0.2], 12))
    rates = [np.clip(rng.normal(pick(rng.uniform(0, 1, 12)), widths()), 0, 1).round(2) for _ in range(14)]
    table = np.stack([*counts, *flags, *rates, np.zeros(rows)], axis=1)
    far = rng.choice(rows, 6, replace=False)
    table[far, 0] *= 1e5
    table[far[:3], 1] = 6.9e8
    return table


def categories(rng, rows):
    """Six categories of seven values as zeros and ones, and four numbers."""
    groups = rng.integers(0, 15, rows)
    chances = rng.dirichlet(np.full(7, 0.3), (6, 15))
    drawn = [[rng.choice(7, p=chances[j, group]) for group in groups] for j in range(6)]
    return np.concatenate([*(np.eye(7)[values] for values in drawn), rng.normal(groups[:, None] % 4, 1, (rows, 4))], axis=1)


def ties(rng, rows):
    """Clusters rounded to whole numbers."""
    groups = rng.integers(0, 20, rows)
    return rng.normal(rng.normal(0, 2, (20, 20))[groups], rng.uniform(0.3, 1.5, (20, 1))[groups]).round()


def uniform(rng, rows):
    """No clusters at all."""
    return rng.random((rows, 20))


def rings(rng, rows):
    """Five circles with noise: no cluster is a Gaussian."""
    angles = rng.uniform(0, 2 * np.pi, (rows, 5))
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) + rng.normal(0, 0.05, (rows, 10))


# Kinds of data that no default was chosen on; run with --only.
OTHERS = {"decades": decades, "categories": categories, "ties": ties, "uniform": uniform, "rings": rings}
SMALL = ("wine", "breast_cancer", "diabetes")

SYNTHETIC = {"equal": equal, "power": power, "scales": scales, "few": few, "many": many, "heavy": heavy}
SETS = ("bsds", "digits", "kos", "20news", *SYNTHETIC)


def synthetic(name, folder):
    rng = np.random.default_rng(1)
    truth = SYNTHETIC[name](rng)
    labels = rng.choice(len(truth["weights"]), DRAWN + 2 * HELD, p=truth["weights"])
    noise = rng.normal(size=(len(labels), COLUMNS))
    freedom = truth.get("freedom")
    if freedom:
        noise /= np.sqrt(rng.chisquare(freedom, len(labels)) / freedom)[:, None]
    rows = truth["means"][labels] + np.einsum("nij,nj->ni", truth["factors"][labels], noise)
    made = np.split(rows, [DRAWN, DRAWN + HELD])
    model = {"weights": truth["weights"], "means": truth["means"]}
    model["covariances"] = np.einsum("kij,klj->kil", truth["factors"], truth["factors"])
    if freedom:
        # The t of a posterior with this freedom, whose mean is certain.
        nu = freedom + COLUMNS - 1
        wide = model["covariances"] * freedom / (freedom - 2)
        model |= {"covariances": wide, "degrees": np.full(len(truth["weights"]), nu)}
    known = {part: float(log_density(model, held).mean()) for part, held in zip(PARTS[1:], made[1:])}
    (folder / f"{name}-truth.json").write_text(json.dumps(known))
    return made
