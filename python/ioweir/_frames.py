"""Conversions to the data frames of others, which are imported when they are asked for."""

from __future__ import annotations

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


def _plot(self: Any, metric: str | None = None, *, by: str = "scheduler", library: str = "altair") -> Any:
    """A bar chart of one column of the records, by `altair` or `matplotlib` (extra `plot`)."""
    table = _columns(self)
    if metric is None:
        known = ["completion_seconds", "throughput_per_second", "latency_mean_seconds"]
        metric = next((name for name in known if name in table), None)
    if metric not in table or by not in table:
        wrong = metric if metric not in table else by
        raise KeyError(f"no column {wrong}: the columns are {', '.join(table)}")
    if library == "altair":
        import altair

        values = [{by: name, metric: value} for name, value in zip(table[by], table[metric], strict=True)]
        chart = altair.Chart(altair.Data(values=values)).mark_bar()
        return chart.encode(x=altair.X(by, type="nominal", sort=None), y=altair.Y(metric, type="quantitative"))
    if library == "matplotlib":
        from matplotlib import pyplot

        figure, axes = pyplot.subplots()
        axes.bar([str(name) for name in table[by]], table[metric])
        axes.set_ylabel(metric)
        return figure
    raise ValueError(f"{library} is no library for plots: altair, matplotlib")


def _columns(result: Any) -> dict[str, list[Any]]:
    """The records by column."""
    import csv
    import io

    rows = list(csv.reader(io.StringIO(result.csv())))

    def value(text: str) -> Any:
        try:
            return float(text) if text else None
        except ValueError:
            return text

    return {name: [value(row[at]) for row in rows[1:]] for at, name in enumerate(rows[0])}


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
