"""Rows in pieces that others have: what the compiled part asks of them, whoever runs the answers.

An engine (Dask, a loop in this process) is a :class:`Runner`. Everything that it runs is a pure function of a piece and of
bytes, so that what is lost is simply done again.
"""

from __future__ import annotations

import copy
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from . import _core
from ._base import FLOATS, Estimator, checked_lengths, readable, threads_of
from ._corpus import read_corpus
from ._errors import LsparseError


AnyEstimator = TypeVar("AnyEstimator", bound=Estimator)


class Stored(NamedTuple):
    """A file of rows (``.npy``) or a corpus folder, which is read where it is needed."""

    path: str

    def open(self) -> Any:
        """The rows, left on disk as far as possible."""
        path = Path(self.path)
        if path.is_dir():
            return read_corpus(path).counts
        if not path.exists():
            raise LsparseError(f"{path} is not there; every worker must be able to read it under this name")
        if path.suffix != ".npy":
            raise LsparseError(f"{path} is neither a .npy file nor a corpus folder; convert it first")
        return np.load(path, mmap_mode="r")


class Sizes(NamedTuple):
    """What is known of a piece before its rows are."""

    rows: int
    columns: int
    #: Whether it takes 64 bits.
    double: bool
    sparse: bool
    names: list[str] | None
    #: Of a corpus folder: its words and how text became them.
    words: tuple[list[str], Any] | None


class Cut(NamedTuple):
    """A batch: rows ``start`` to ``stop`` of a part of the data."""

    part: int
    start: int
    stop: int


def rows_of(part: Any, start: int | None = None, stop: int | None = None) -> Any:
    """Rows of a part of the data, in a form that the compiled part reads."""
    if isinstance(part, Stored):
        part = part.open()
    if hasattr(part, "to_numpy"):
        part = part.to_numpy()
    sparse = sp.issparse(part)
    if not sparse:
        part = np.asarray(part)
        if part.ndim != 2:
            raise LsparseError(f"a partition has {part.ndim} dimensions, not rows and columns; reshape it")
    part = part.tocsr() if sparse and part.format != "csr" else part
    part = part if start is None else part[start:stop]
    if not sparse and part.dtype != np.float32:
        if part.dtype.kind not in "fiub":
            raise LsparseError(f"values of type {part.dtype} are not numbers; convert the columns first")
        part = part.astype(np.float64, copy=False)
    return readable(part)


def sizes_of(part: Any) -> Sizes:
    """How large a part of the data is."""
    names = [str(name) for name in part.columns] if hasattr(part, "columns") and hasattr(part, "to_numpy") else None
    words = None
    if isinstance(part, Stored):
        if Path(part.path).is_dir():
            corpus = read_corpus(part.path)
            words = (list(corpus.vocabulary), corpus.vocabulary.tokenizer)
        part = part.open()
    if not sp.issparse(part) and np.ndim(part) != 2:
        raise LsparseError(f"a partition has {np.ndim(part)} dimensions, not rows and columns; reshape it")
    rows, columns = part.shape
    kinds = [part.dtype] if hasattr(part, "dtype") else list(part.dtypes)
    return Sizes(int(rows), int(columns), any(kind != np.float32 for kind in kinds), bool(sp.issparse(part)), names, words)


def _measure(part: Any, cut: Cut, asked: str, how: str) -> bytes:
    return _core.measure_piece(rows_of(part, cut.start, cut.stop), cut.start, asked, how)


def _print(part: Any, cut: Cut) -> str:
    return _core.print_piece(rows_of(part, cut.start, cut.stop))


def _lacking(part: Any, cut: Cut, some_may_lack: bool) -> bytes:
    return _core.lacking_piece(rows_of(part, cut.start, cut.stop), cut.start, some_may_lack)


def _sum(part: Any, cut: Cut) -> float:
    return float(rows_of(part, cut.start, cut.stop).sum())


def _bring(part: Any, stretches: Sequence[tuple[int, int]]) -> list[Any]:
    """Copies of some stretches of rows; the part itself is not to travel with them."""
    return [rows_of(part, start, stop).copy() for start, stop in stretches]


def _work(
    part: Any,
    shared: tuple[bytes, bytes],
    cut: Cut,
    number: int,
    run: int,
    ticket: bytes,
    weights: FLOATS | None,
    lengths: list[int] | None,
    threads: int,
) -> bytes:
    known, params = shared
    rows = rows_of(part, cut.start, cut.stop)
    weights = None if weights is None else np.require(weights, np.float64, ["C_CONTIGUOUS", "ALIGNED"])
    return _core.work_piece(
        rows, number, known, run, params, ticket, weights=weights, lengths=lengths, threads=threads
    )


@dataclass(frozen=True)
class Call:
    """A function to be run on a part of the data."""

    #: What the engine calls it, with what tells it from the others of its kind.
    key: tuple[str, int]
    #: What messages call it.
    name: str
    function: Callable[..., Any]
    part: int
    arguments: tuple[Any, ...] = ()


class Runner(Protocol):
    """Who runs functions where the parts of the data are."""

    def run(self, calls: Sequence[Call], shared: tuple[bytes, bytes] | None = None) -> Iterator[Any]:
        """What came of each call, in their order, as soon as it is there; what is ``shared`` comes after the part."""


class InProcess:
    """Runs everything here, one call after the other."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def run(self, calls: Sequence[Call], shared: tuple[bytes, bytes] | None = None) -> Iterator[Any]:
        """What came of each call."""
        for call in calls:
            before = () if shared is None else (shared,)
            with named(call.name):
                done = call.function(self._parts[call.part], *before, *call.arguments)
            yield done


class named:
    """Errors of the library say what they happened to."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, LsparseError) and not str(error).startswith(self._name):
            raise LsparseError(f"{self._name}: {error}") from error


class Pieces:
    """Rows that others have, as the compiled part asks for them.

    ``batch_size`` cuts parts of more rows; if it is not given a part is a batch. Parts without rows are left out. Where rows
    are sequences ``lengths`` has those of every part, and batches are of whole ones.
    """

    def __init__(
        self,
        runner: Runner,
        sizes: Sequence[Sizes],
        batch_size: int | None,
        lengths: Sequence[list[int]] | None = None,
    ) -> None:
        rows = [size.rows for size in sizes]
        full = [number for number, size in enumerate(sizes) if size.rows]
        if not full:
            raise LsparseError("X has no rows; give some")
        for number in full:
            _check_alike(number, sizes[number], full[0], sizes[full[0]])
        first = sizes[full[0]]
        self._runner = runner
        found = [_cuts(part, rows[part], batch_size, None if lengths is None else lengths[part]) for part in full]
        self.cuts = [cut for of_part in found for cut, _ in of_part]
        #: The sequences of every batch.
        self.lengths = None if lengths is None else [own for of_part in found for _, own in of_part]
        self.ends = np.cumsum([cut.stop - cut.start for cut in self.cuts]).tolist()
        self.columns = first.columns
        self.sparse = first.sparse
        self.double = any(sizes[number].double for number in full)
        self.names = first.names
        self.words = first.words
        self.shape = (self.ends[-1], self.columns)
        self.dtype = np.dtype(np.float64 if self.double else np.float32)
        self.batches_per_round = 1
        #: What the user gave.
        self.source: Any = None
        self.asked = ""
        #: One a row, or none.
        self.weights: FLOATS | None = None
        self.threads = 1
        self._asked_before = 0

    def _name(self, number: int) -> str:
        cut = self.cuts[number]
        whole = sum(other.part == cut.part for other in self.cuts) == 1
        return f"partition {cut.part}" if whole else f"partition {cut.part} (rows {cut.start} to {cut.stop - 1})"

    def _next(self) -> int:
        """Questions of a kind come more than once."""
        self._asked_before += 1
        return self._asked_before * len(self.cuts)

    def _of_all(self, kind: str, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        before = self._next()
        calls = [
            Call((kind, before + number), f"partition {cut.part}", function, cut.part, (cut, *arguments))
            for number, cut in enumerate(self.cuts)
        ]
        return list(self._runner.run(calls))

    def measure(self, how: str) -> list[bytes]:
        """The moments of every batch, all values checked."""
        return self._of_all("lsparse-measure", _measure, self.asked, how)

    def lacking(self, some_may_lack: bool) -> list[bytes]:
        """Which rows of every batch are nothing but NaN, a byte for each."""
        return self._of_all("lsparse-missing", _lacking, some_may_lack)

    def print(self) -> str:
        """What the rows are and how they are taken, with a checksum: what a checkpoint is known by."""
        checksum = zlib.crc32("\n".join(self._of_all("lsparse-checksum", _print)).encode())
        how = f"{len(self.cuts)} pieces, {self.batches_per_round} a round"
        return f"{self.shape[0]} rows of {self.columns} columns in {how}, with checksum {checksum:08x}"

    def sum(self) -> float:
        """The sum of all values."""
        return float(sum(self._of_all("lsparse-sum", _sum)))

    def bring(self, stretches: Sequence[tuple[int, int]]) -> list[Any]:
        """Some of the rows, by their numbers among all."""
        wanted: dict[int, list[tuple[int, int]]] = {}
        places: list[list[tuple[int, int]]] = []
        for start, stop in stretches:
            places.append([])
            batch = int(np.searchsorted(self.ends, start, side="right"))
            while start < stop:
                cut, end = self.cuts[batch], min(stop, self.ends[batch])
                # From numbers among all rows to those within the part.
                shift = cut.start - (self.ends[batch] - (cut.stop - cut.start))
                of_part = wanted.setdefault(cut.part, [])
                places[-1].append((cut.part, len(of_part)))
                of_part.append((start + shift, end + shift))
                start, batch = end, batch + 1
        before = self._next()
        calls = [
            Call(("lsparse-sample", before + part), f"partition {part}", _bring, part, (of_part,))
            for part, of_part in sorted(wanted.items())
        ]
        found = dict(zip(sorted(wanted), self._runner.run(calls), strict=True))
        return [_joined([found[part][at] for part, at in of_stretch]) for of_stretch in places]

    def work(
        self, known: bytes, run: int, visit: int, params: bytes, batches: Sequence[int], tickets: Sequence[bytes]
    ) -> Iterator[bytes]:
        """What came of a round of tickets, in their order: the first is folded in while others are at work."""
        before = self._next()
        calls = []
        for place, (number, ticket) in enumerate(zip(batches, tickets, strict=True)):
            cut = self.cuts[number]
            end, rows = self.ends[number], cut.stop - cut.start
            weights = None if self.weights is None else self.weights[end - rows : end]
            lengths = None if self.lengths is None else self.lengths[number]
            arguments = (cut, number, run, ticket, weights, lengths, self.threads)
            name = f"batch {number}, {self._name(number)}, visit {visit + place}"
            calls.append(Call(("lsparse-batch", before + number), name, _work, cut.part, arguments))
        return self._runner.run(calls, (known, params))


def _check_alike(number: int, size: Sizes, first: int, of_first: Sizes) -> None:
    if size.columns != of_first.columns:
        raise LsparseError(
            f"partition {number} has {size.columns} columns, partition {first} has {of_first.columns}; give all the same"
        )
    if size.sparse != of_first.sparse:
        sparse, dense = (number, first) if size.sparse else (first, number)
        raise LsparseError(f"partition {sparse} is sparse, partition {dense} is not; give all alike")
    if size.names != of_first.names:
        raise LsparseError(f"partition {number} has other column names than partition {first}; give all the same")
    if size.words != of_first.words:
        raise LsparseError(
            f"corpus {number} has other words than corpus {first}; build them with one vocabulary "
            "(lsparse corpus build --vocab)"
        )


def _cuts(
    part: int, rows: int, batch_size: int | None, lengths: list[int] | None
) -> list[tuple[Cut, list[int] | None]]:
    """A part of the data in batches of about the same size, and their sequences: none above ``batch_size`` but for those of
    a single longer sequence."""
    if lengths is None:
        number = 1 if batch_size is None else -(-rows // batch_size)
        ends = [rows * (each + 1) // number for each in range(number)]
        return [(Cut(part, start, stop), None) for start, stop in zip([0, *ends], ends, strict=False)]
    found: list[tuple[Cut, list[int] | None]] = []
    start = stop = 0
    own = list[int]()
    for length in filter(None, lengths):
        if own and batch_size is not None and stop - start + length > batch_size:
            found.append((Cut(part, start, stop), own))
            start, own = stop, []
        stop += length
        own.append(length)
    return [*found, (Cut(part, start, stop), own)]


def lengths_of_parts(lengths: Any, sizes: Sequence[Sizes]) -> list[list[int]]:
    """The sequences of every part: as given for each, cut from those of all rows, or one a part where nothing is said."""
    rows = [size.rows for size in sizes]
    if lengths is None:
        return [[number] for number in rows]
    lengths = list(lengths)
    nested = bool(lengths) and all(np.ndim(each) == 1 for each in lengths)
    if nested and len(lengths) == len(rows):
        found = [checked_lengths(each) for each in lengths]
    else:
        found, left = [], checked_lengths(lengths)[::-1]
        for number in rows:
            own, room = list[int](), number
            while left and left[-1] <= room:
                room -= left[-1]
                own.append(left.pop())
            found.append(own)
        if left:
            # What is left over is said where it was to be.
            found[-1] = [*found[-1], *left[::-1]]
    for number, (own, there) in enumerate(zip(found, rows, strict=True)):
        if sum(own) != there:
            raise LsparseError(
                f"lengths: the sequences of partition {number} have {sum(own)} rows, and it has {there}; give whole "
                "sequences to every partition"
            )
    return found


def _joined(rows: list[Any]) -> Any:
    if len(rows) > 1:
        rows = [sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows)]
    # What came from another process may lie anywhere.
    return readable(rows[0])


def prepare(pieces: Pieces, model: Estimator, batches_per_round: int) -> Pieces:
    """Rows for the training of a model."""
    pieces.batches_per_round = len(pieces.cuts) if model._schedule == "full" else int(batches_per_round)
    pieces.threads = 1 if model.n_jobs is None else threads_of(model.n_jobs)
    kind = {"topics": "topics", "states": "sequence"}.get(model._components_setting, "mixture")
    # Nothing is drawn by these settings.
    pieces.asked = json.dumps({kind: json.loads(clone(model).set_params(random_state=0)._config())})
    return pieces


def trained(
    runner: Runner, parts: int, model: AnyEstimator, batches_per_round: int, around: dict[str, Any]
) -> AnyEstimator:
    """A copy of a model, trained on so many parts of data."""
    sizes = list(runner.run([Call(("lsparse-sizes", n), f"partition {n}", sizes_of, n) for n in range(parts)]))
    around = dict(around)
    lengths = lengths_of_parts(around.pop("lengths", None), sizes) if model._components_setting == "states" else None
    fitted = copy.deepcopy(model)
    fitted.fit(prepare(Pieces(runner, sizes, model.batch_size, lengths), model, batches_per_round), **around)
    return fitted


def told(call: Call, kind: str, text: str, library: bool) -> LsparseError:
    """What went wrong with a call where it ran, with its name."""
    return LsparseError(f"{call.name}: {text}" if library else f"{call.name}: {kind}: {text}")


def died(call: Call, workers: int) -> LsparseError:
    """A call that no worker survived."""
    return LsparseError(
        f"{call.name}: {workers} workers died of it; give smaller batches (batch_size) or workers more memory"
    )


def stored(paths: Any) -> list[Stored] | None:
    """Paths as parts of the data; none where these are no paths."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if isinstance(paths, list | tuple) and paths and all(isinstance(path, str | os.PathLike) for path in paths):
        return [Stored(os.path.abspath(path)) for path in paths]
    return None
