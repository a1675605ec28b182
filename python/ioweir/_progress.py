"""Progress of long runs: a bar of tqdm where that is installed and somebody watches, or a function of the caller's."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Iterator

Progress = Callable[[int, int, int], Any]


def _is_watched() -> bool:
    """Whether this runs in a notebook or at a terminal."""
    ipython = sys.modules.get("IPython")
    return (ipython is not None and ipython.get_ipython() is not None) or sys.stderr.isatty()


@contextmanager
def shown(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """A function of the runs that are done, all runs, and requests so far; None where nobody asks."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _is_watched()):
        yield None
        return
    try:
        # In a notebook without widgets tqdm warns of it, and draws its bar as text.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        if progress is True:
            raise
        yield None
        return
    with tqdm(unit="run", leave=False) as bar:

        def update(done: int, runs: int, requests: int) -> None:
            bar.total = runs
            bar.set_postfix_str(f"{requests:,} requests", refresh=False)
            bar.update(done - bar.n)

        yield update
