"""Conversions to the data frames of others, which are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def _to_pandas(self: Any) -> Any:
    """The rows as a pandas DataFrame."""
    import pandas

    return pandas.DataFrame.from_arrow(self)


def _to_polars(self: Any) -> Any:
    """The rows as a polars DataFrame."""
    import polars

    return polars.DataFrame(self)


def _to_arrow(self: Any) -> Any:
    """The rows as a pyarrow Table."""
    import pyarrow

    return pyarrow.table(self)


def _plot(
    self: Any, metric: str | Sequence[str] | None = None, *, by: str | None = None, library: str = "altair"
) -> Any:
    """A chart of a column of the records, or of several in one unit, by `altair` or `matplotlib` (extra `plot`).

    Results in time (forecasts, plans) are lines over it, others bars for each scheduler, apart by device, load or class; numbers
    are means over the seeds. The axis carries the unit: the column `latency_p99_seconds` is drawn as `latency p99 (ms)`.

    Args:
        metric: Columns of the records; what the verb is about, unless another is named.
        by: The column along the other axis.
        library: ``"altair"`` or ``"matplotlib"``.

    Returns:
        A chart of altair, or a figure of matplotlib.

    Raises:
        KeyError: There is no such column; the message lists them.
        ValueError: The columns have different units, or there is no such library.
    """
    from ._plots import plot

    return plot(self, metric, by, library)


def _data(self: Any) -> Any:
    """The results as Python lists and dicts, as in the JSON."""
    import json

    return json.loads(self.json())


def attach(result: type, *others: type) -> None:
    """Gives native classes the methods that are written here."""
    for kind in (result, *others):
        for name, method in (("to_pandas", _to_pandas), ("to_polars", _to_polars), ("to_arrow", _to_arrow)):
            setattr(kind, name, method)
    result.plot = _plot  # type: ignore[attr-defined]
    result.data = property(_data)  # type: ignore[attr-defined]
