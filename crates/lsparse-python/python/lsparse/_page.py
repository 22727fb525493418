"""A local page that follows trainings."""

from __future__ import annotations

import html
import os
from types import TracebackType

from . import _core


class Page:
    """A page on this machine that follows trainings, until it is closed.

    Attributes
    ----------
    url : str or None
        Where it is; None once it is closed.

    Examples
    --------
    >>> from lsparse import GaussianMixture
    >>> gm = GaussianMixture(2, random_state=0)
    >>> with gm.watch() as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    >>> page.url is None
    True
    """

    def __init__(self, traces: list[str], port: int | None) -> None:
        if port is not None and not 0 <= port <= 65535:
            raise ValueError(f"port: {port} is no port; give a number from 1 to 65535, or none for any that is free")
        self._page = _core.Page(traces, port)

    @property
    def url(self) -> str | None:
        return self._page.url

    def close(self) -> None:
        """Serve it no more.

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> page = GaussianMixture(2).watch()
        >>> page.close()
        >>> page
        Page(closed)
        """
        self._page.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Page({self.url or 'closed'})"

    def _repr_html_(self) -> str:
        url = self.url
        return "closed" if url is None else f'<a href="{html.escape(url)}" target="_blank">{html.escape(url)}</a>'


def watch(*traces: str | os.PathLike[str], port: int | None = None) -> Page:
    """Serve a page that shows traces as they are written, or as they were; several side by side.

    Parameters
    ----------
    *traces : paths
        Files that ``fit(..., trace=path)`` or the command's ``--trace`` write; they need not be there yet.
    port : int, default=None
        Port of the page, which this machine alone can ask; any that is free if not given.

    Returns
    -------
    page : Page
        Its ``url`` is to be opened in a browser.

    Examples
    --------
    >>> import lsparse, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, lsparse.watch(os.path.join(folder, "run.jsonl")) as page:
    ...     page.url.count("/")
    4
    """
    if not traces:
        raise TypeError("watch: give a trace, or use watch() of an estimator")
    return Page([os.fspath(trace) for trace in traces], port)
