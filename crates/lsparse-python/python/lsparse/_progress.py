"""A progress bar of plain text, for terminals and notebooks alike."""

import sys
from typing import TextIO

_WIDTH = 24


class Progress:
    """Draws one line over and over on ``sys.stderr``, which notebooks show under the cell."""

    def __init__(self, max_iter: int | None, n_init: int, stream: TextIO | None = None) -> None:
        self._max_iter = max_iter
        self._n_init = n_init
        self._stream = stream if stream is not None else sys.stderr
        self._last = 0

    def __call__(self, run: int, lap: float, seconds: float, objective: float | None) -> None:
        """Show how far a fit has come."""
        done = min(lap / self._max_iter, 1.0) if self._max_iter else 0.0
        filled = int(done * _WIDTH)
        which = f"run {run + 1} of {self._n_init}, " if self._n_init > 1 else ""
        most = "" if self._max_iter is None else f" of at most {self._max_iter}"
        line = (
            f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {which}lap {lap:.1f}{most}, "
            f"{seconds:.1f} s" + (f", objective {objective:.6g}" if objective is not None else "")
        )
        # Blanks wipe out what a longer line left behind.
        self._stream.write("\r" + line + " " * max(0, self._last - len(line)))
        self._stream.flush()
        self._last = len(line)

    def close(self, reason: str) -> None:
        """End the line and say why the fit ended."""
        self._stream.write(f"\nstopped: {reason}\n")
        self._stream.flush()
