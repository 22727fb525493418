"""Traces: how a training went step by step, as files."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from numpy.typing import NDArray

from . import _core


class Trace(NamedTuple):
    """How a training went, read from a file.

    Attributes
    ----------
    beginning : dict or None
        The library's version, the kind of model, rows and columns, and every setting; None where nothing was written.
    steps : dict of ndarrays
        One entry a step, as an estimator's ``trace_``; ``pandas.DataFrame`` makes a data frame of it.
    endings : list of dicts
        Of every run that has ended why and where, with its objective and held-out score.
    moves : list of dicts
        Changes of the components where their number is found, and trades where it is given: the run and lap, the kind
        ("birth", "merge", "delete" or "trade"), the lasting numbers of the components that it was made of and that came of
        it, and what the objective gained.

    Examples
    --------
    >>> import lsparse
    >>> lsparse.Trace(None, {}, []).endings
    []
    """

    beginning: dict[str, Any] | None
    steps: dict[str, NDArray[Any]]
    endings: list[dict[str, Any]]
    moves: list[dict[str, Any]] = []


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that ``fit(..., trace=path)`` or the command's ``--trace`` has written, or is writing.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    trace : Trace
        Settings, steps and how runs ended.

    Examples
    --------
    >>> import lsparse, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "run.jsonl")
    ...     gm = lsparse.GaussianMixture(2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]], trace=path)
    ...     trace = lsparse.read_trace(path)
    >>> trace.beginning["settings"]["clusters"], trace.endings[0]["stopped_by"]
    (2, 'tolerance')
    >>> bool((trace.steps["objective"] == gm.trace_["objective"]).all())
    True
    """
    beginning, steps, endings, moves = _core.read_trace(path)
    changes = [{"run": run, "lap": lap, **change} for run, lap, change in map(json.loads, moves)]
    first = None if beginning is None else json.loads(beginning)
    return Trace(first, steps, [json.loads(end) for end in endings], changes)
