"""Types of the compiled part: arrays in, arrays out. Use the estimators instead."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Hmm",
    "LAPS_TO_FIND_TOPICS",
    "Mixture",
    "Page",
    "Topics",
    "begin_session",
    "build_corpus",
    "clusters_page",
    "coherence",
    "completion",
    "fit_mixture",
    "fit_sequence",
    "fit_topics",
    "fold_batches",
    "hand_out_batches",
    "lacking_piece",
    "measure_piece",
    "model_kind",
    "model_of_session",
    "open_corpus",
    "panic_for_test",
    "parameters",
    "print_piece",
    "settings",
    "checkpoint_seed",
    "read_names",
    "read_trace",
    "summarize_batch",
    "work_piece",
]

_Floats = NDArray[np.float64]
_Path = str | PathLike[str]
#: What a fit has around it: heldout, checkpoint, checkpoint_every, resume, memo_memory, trace, threads, watch,
#: waits, page.
_Around = Mapping[str, Any]
#: Of mixtures weights, arrays, prior_mean, prior_variance, variance_floor; of topics vocabulary, tokenizer, seed_words,
#: alpha, word_prior.
_Given = Mapping[str, Any]

@final
class Page:
    def __new__(cls, traces: Sequence[_Path], port: int | None = None) -> Page: ...
    @property
    def url(self) -> str | None: ...
    def close(self) -> None: ...

@final
class Mixture:
    @staticmethod
    def load(path: _Path) -> Mixture: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Mixture: ...
    def save(self, path: _Path) -> None: ...
    @property
    def config(self) -> str: ...
    @property
    def training(self) -> str: ...
    @property
    def prior(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def dim(self) -> int: ...
    @property
    def num_parameters(self) -> int: ...
    def arrays(self) -> dict[str, _Floats]: ...
    def score(self, x: Any, *, threads: int | None = None, device: str = "cpu") -> _Floats: ...
    def assign(
        self, x: Any, sparsity: int, *, threads: int | None = None, device: str = "cpu"
    ) -> tuple[NDArray[np.int32], _Floats]: ...
    def sample(self, rows: int, trials: int | None, seed: int) -> tuple[_Floats, NDArray[np.int64]]: ...
    def update(
        self,
        x: Any,
        *,
        sample_weight: _Floats | None = None,
        rate: float | None = None,
        population: float | None = None,
        threads: int | None = None,
    ) -> Mixture: ...

@final
class Hmm:
    @staticmethod
    def load(path: _Path) -> Hmm: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Hmm: ...
    def save(self, path: _Path) -> None: ...
    @property
    def config(self) -> str: ...
    @property
    def training(self) -> str: ...
    @property
    def prior(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def dim(self) -> int: ...
    @property
    def num_parameters(self) -> int: ...
    def arrays(self) -> dict[str, _Floats]: ...
    def score(self, x: Any, lengths: Sequence[int] | None = None, *, threads: int | None = None) -> _Floats: ...
    def assign(
        self, x: Any, lengths: Sequence[int] | None, sparsity: int, *, threads: int | None = None
    ) -> tuple[NDArray[np.int32], _Floats]: ...
    def best_paths(
        self, x: Any, lengths: Sequence[int] | None = None, *, threads: int | None = None
    ) -> tuple[NDArray[np.int64], float]: ...
    def allowing_missing(self) -> Hmm: ...
    def sample(
        self, steps: int, after: int | None, trials: int | None, seed: int
    ) -> tuple[_Floats, NDArray[np.int64]]: ...

@final
class Topics:
    @staticmethod
    def load(path: _Path) -> Topics: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Topics: ...
    def save(self, path: _Path) -> None: ...
    @property
    def config(self) -> str: ...
    @property
    def training(self) -> str: ...
    @property
    def vocabulary(self) -> list[str]: ...
    @property
    def tokenizer(self) -> str | None: ...
    def arrays(self) -> dict[str, _Floats]: ...
    def assign(
        self, x: Any, threads: int | None = None, *, device: str = "cpu"
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], _Floats]: ...
    def transform(self, x: Any, threads: int | None = None, *, device: str = "cpu") -> _Floats: ...
    def completions(self, x: Any, share: float, seed: int, threads: int | None = None, *, device: str = "cpu") -> tuple[_Floats, _Floats]: ...
    def completion(self, x: Any, share: float, seed: int, threads: int | None = None, *, device: str = "cpu") -> tuple[float, float, int, int]: ...
    def sample(
        self, documents: int, words: int | None, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def relevant_words(self, count: int, weight: float) -> list[list[int]]: ...
    def page(
        self,
        title: str,
        names: Sequence[str | None],
        *,
        x: Any = None,
        documents: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
        metadata: Sequence[tuple[str, Sequence[str]]] | None = None,
        most: int = 1000,
        seed: int = 0,
        threads: int | None = None,
    ) -> tuple[str, str]: ...
    def update(
        self, x: Any, *, rate: float | None = None, population: float | None = None, threads: int | None = None
    ) -> Topics: ...

def fit_sequence(
    x: Any,
    config: str,
    around: _Around,
    *,
    lengths: Sequence[int] | None = None,
    heldout_lengths: Sequence[int] | None = None,
    columns: list[str] | None = None,
    start: Hmm | None = None,
) -> tuple[Hmm, dict[str, Any]]: ...
def fit_mixture(
    x: Any,
    config: str,
    around: _Around,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: _Floats | None = None,
    start: Mixture | None = None,
    given: _Given | None = None,
    laps: bool = True,
) -> tuple[Mixture, dict[str, Any]]: ...
def fit_topics(
    x: Any, config: str, around: _Around, given: _Given, *, start: Topics | None = None
) -> tuple[Topics, dict[str, Any]]: ...
def checkpoint_seed(path: _Path) -> int | None: ...
def read_trace(path: _Path) -> tuple[str | None, dict[str, NDArray[Any]], list[str], list[str]]: ...
def begin_session(x: Any, kind: str, config: str, *, threads: int | None = None) -> tuple[str, bytes]: ...
def hand_out_batches(
    x: Any, settled: str, session: bytes, most: int, *, threads: int | None = None
) -> tuple[bytes, list[bytes]]: ...
def summarize_batch(x: Any, settled: str, params: bytes, ticket: bytes, *, threads: int | None = None) -> bytes: ...
def fold_batches(
    x: Any, settled: str, session: bytes, done: Sequence[bytes], *, threads: int | None = None
) -> tuple[bytes, str]: ...
def model_of_session(x: Any, settled: str, session: bytes, *, threads: int | None = None) -> bytes: ...
def measure_piece(x: Any, first: int, asked: str, how: str, *, threads: int = 1) -> bytes: ...
def print_piece(x: Any) -> str: ...
def lacking_piece(x: Any, first: int, some_may_lack: bool) -> bytes: ...
def work_piece(
    x: Any,
    number: int,
    known: bytes,
    run: int,
    params: bytes,
    ticket: bytes,
    *,
    weights: _Floats | None = None,
    lengths: Sequence[int] | None = None,
    threads: int = 1,
) -> bytes: ...
def model_kind(path: _Path) -> str: ...
def read_names(path: _Path, num: int, what: str) -> list[str | None]: ...
def completion(
    topics: _Floats, alpha: _Floats, x: Any, share: float, seed: int, threads: int | None = None
) -> tuple[float, float, int, int]: ...
def coherence(words: Sequence[Sequence[int]], x: Any, threads: int | None = None) -> tuple[list[float], list[float]]: ...
def open_corpus(path: _Path) -> tuple[list[str], list[str], str | None, list[tuple[str, list[str]]]]: ...
def build_corpus(
    input: _Path,
    out: _Path,
    *,
    tokenizer: str,
    phrases: bool,
    min_docs: int | None,
    max_share: float | None,
    max_words: int | None,
    format: str | None,
    force: bool,
    keep: Sequence[str] | None = None,
    threads: int | None = None,
) -> None: ...
def clusters_page(
    kind: str,
    model: bytes,
    title: str,
    names: Sequence[str | None],
    *,
    x: Any = None,
    lengths: Sequence[int] | None = None,
    metadata: Sequence[tuple[str, Sequence[str]]] | None = None,
    columns: Sequence[str] | None = None,
    picture: tuple[int, int, int] | None = None,
    missing: bool = False,
    most: int = 1000,
    seed: int = 0,
    threads: int | None = None,
) -> tuple[str, str]: ...
def panic_for_test() -> None: ...
LAPS_TO_FIND_TOPICS: int

def parameters() -> dict[str, str]: ...
def settings(kind: str) -> str: ...
