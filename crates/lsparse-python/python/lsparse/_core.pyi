"""Types of the compiled part: arrays in, arrays out. Use the estimators instead."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Mixture",
    "Topics",
    "build_corpus",
    "coherence",
    "completion",
    "fit_mixture",
    "fit_topics",
    "model_kind",
    "open_corpus",
    "panic_for_test",
    "parameters",
]

_Floats = NDArray[np.float64]
_Progress = Callable[[int, float, float, float], None]

@final
class Mixture:
    @staticmethod
    def load(path: str | PathLike[str]) -> Mixture: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Mixture: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @property
    def config(self) -> str: ...
    @property
    def training(self) -> str: ...
    @property
    def dim(self) -> int: ...
    def arrays(self) -> dict[str, _Floats]: ...
    def score(self, x: Any, *, binarize: float | None = None, threads: int = 0) -> tuple[_Floats, int]: ...
    def assign(
        self, x: Any, sparsity: int, *, binarize: float | None = None, threads: int = 0
    ) -> tuple[NDArray[np.int32], _Floats]: ...
    def sample(self, rows: int, trials: int | None, seed: int) -> tuple[_Floats, NDArray[np.int64]]: ...
    def update(
        self,
        x: Any,
        *,
        binarize: float | None = None,
        sample_weight: _Floats | None = None,
        rate: float | None = None,
        population: float | None = None,
        threads: int = 0,
    ) -> Mixture: ...

@final
class Topics:
    @staticmethod
    def load(path: str | PathLike[str]) -> Topics: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Topics: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @property
    def config(self) -> str: ...
    @property
    def training(self) -> str: ...
    @property
    def vocabulary(self) -> list[str]: ...
    @property
    def tokenizer(self) -> str | None: ...
    def arrays(self) -> dict[str, _Floats]: ...
    def assign(self, x: Any, threads: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64], _Floats]: ...
    def transform(self, x: Any, threads: int = 0) -> _Floats: ...
    def completion(self, x: Any, share: float, seed: int, threads: int = 0) -> tuple[float, float, int, int]: ...
    def sample(
        self, documents: int, words: int | None, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def relevant_words(self, count: int, weight: float) -> list[list[int]]: ...
    def update(
        self, x: Any, *, rate: float | None = None, population: float | None = None, threads: int = 0
    ) -> Topics: ...

def fit_mixture(
    x: Any,
    config: str,
    *,
    binarize: float | None = None,
    sample_weight: _Floats | None = None,
    start: Mixture | None = None,
    threads: int = 0,
    progress: _Progress | None = None,
) -> tuple[Mixture, dict[str, Any]]: ...
def fit_topics(
    x: Any,
    config: str,
    *,
    vocabulary: Sequence[str] | None = None,
    tokenizer: str | None = None,
    start: Topics | None = None,
    threads: int = 0,
    progress: _Progress | None = None,
) -> tuple[Topics, dict[str, Any]]: ...
def model_kind(path: str | PathLike[str]) -> str: ...
def completion(
    topics: _Floats, alpha: _Floats, x: Any, share: float, seed: int, threads: int = 0
) -> tuple[float, float, int, int]: ...
def coherence(words: Sequence[Sequence[int]], x: Any, threads: int = 0) -> tuple[list[float], list[float]]: ...
def open_corpus(path: str | PathLike[str]) -> tuple[list[str], list[str], str | None]: ...
def build_corpus(
    input: str | PathLike[str],
    out: str | PathLike[str],
    *,
    tokenizer: str,
    phrases: bool,
    min_docs: int | None,
    max_share: float | None,
    max_words: int | None,
    format: str | None,
    force: bool,
    threads: int = 0,
) -> None: ...
def panic_for_test() -> None: ...
def parameters() -> dict[str, str]: ...
