"""Charts of results, by altair or matplotlib, with the unit of the figures at their axis."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Sequence
from typing import Any

TIME = "start_unix_seconds"

# What is drawn where nothing is asked for: the first that a result has.
USUAL = [
    ["completion_seconds"],
    ["latency_p99_seconds"],
    ["p50", "p95"],
    ["background_cores"],
    ["scores_smape_percent"],
    ["mean_latency_seconds"],
]

# How the end of a column's name is shown: the unit and how many of it the number is.
UNITS = [
    ("_bytes_per_second", "MB/s", 1e-6),
    ("_per_second", "per second", 1.0),
    ("_seconds", "s", 1.0),
    ("_nanos", "ms", 1e-6),
    ("_bytes", "MB", 1e-6),
    ("_percent", "%", 1.0),
    ("_share", "%", 100.0),
    ("_blocks", "blocks", 1.0),
    ("_cores", "cores", 1.0),
    ("_tracks", "tracks", 1.0),
]

# Columns that tell bars of one scheduler apart, where they differ.
SERIES = ("series", "forecaster", "trace", "device", "load", "depth", "class", "point", "service")


def plot(result: Any, metric: str | Sequence[str] | None, by: str | None, library: str) -> Any:
    """The chart that `Result.plot` describes."""
    if library not in ("altair", "matplotlib"):
        raise ValueError(f"{library} is no library for plots: altair, matplotlib")
    table = _columns(result)
    metrics = [metric] if isinstance(metric, str) else list(metric or [])
    metrics = metrics or next((usual for usual in USUAL if all(name in table for name in usual)), [])
    by = by or next((name for name in (TIME, "scheduler", "series") if name in table), "")
    wrong = [name for name in [*metrics, by] if name not in table]
    if wrong or not metrics:
        what = f"no column {wrong[0]}" if wrong else "name a column to draw"
        raise KeyError(f"{what}: the columns are {', '.join(table)}")
    title, factor = _axis(metrics, table)
    points = _points(table, metrics, by, factor)
    draw = _altair if library == "altair" else _matplotlib
    return draw(points, by, title)


def _axis(metrics: list[str], table: dict[str, list[Any]]) -> tuple[str, float]:
    """The title of the axis, and the factor of its numbers."""
    ends = [next((row for row in UNITS if name.endswith(row[0])), ("", "", 1.0)) for name in metrics]
    end, unit, factor = ends[0]
    for name, other in zip(metrics, ends, strict=True):
        if other != ends[0]:
            raise ValueError(f"{metrics[0]} and {name} have different units: draw them in two charts")
    if unit == "s":
        most = max((abs(value) for name in metrics for value in table[name] if isinstance(value, float)), default=0.0)
        finer = (("s", 1.0), ("ms", 1e3), ("us", 1e6))
        unit, factor = next(((unit, factor) for unit, factor in finer if most * factor >= 1), finer[-1])
    # The unit of a series is that of its file.
    shared = set(map(str, table.get("series", ["value"])))
    name = metrics[0].removesuffix(end).replace("_", " ") if len(metrics) == 1 else ", ".join(sorted(shared))
    if name == "iops":
        name, unit = "requests", "per second"
    return f"{name} ({unit})" if unit else name, factor


def _points(table: dict[str, list[Any]], metrics: list[str], by: str, factor: float) -> list[tuple[Any, str, float]]:
    """Where, of which series, and how much: means over the seeds."""
    apart = [name for name in SERIES if name != by and len(set(map(str, table.get(name, ())))) > 1]
    sums: dict[tuple[Any, str], list[float]] = {}
    for metric in metrics:
        for at, value in enumerate(table[metric]):
            if isinstance(value, float):
                parts = [str(table[name][at]) for name in apart] + ([metric] if len(metrics) > 1 else [])
                place = table[by][at] if by == TIME else str(table[by][at])
                sums.setdefault((place, ", ".join(parts)), []).append(value * factor)
    return [(place, series, sum(values) / len(values)) for (place, series), values in sums.items()]


def _altair(points: list[tuple[Any, str, float]], by: str, title: str) -> Any:
    import altair

    values = [{by: place * 1000 if by == TIME else place, "series": series, "value": value} for place, series, value in points]
    chart = altair.Chart(altair.Data(values=values))
    value = altair.Y("value", type="quantitative", title=title)
    # Fields of tooltips need their types, since the data is not a frame.
    several = {"color": altair.Color("series", type="nominal", title=None)} if any(series for _, series, _ in points) else {}
    if by == TIME:
        return chart.mark_line().encode(x=altair.X(by, type="temporal", title="UTC"), y=value, **several)
    offset = {"xOffset": altair.XOffset("series", type="nominal")} if several else {}
    return chart.mark_bar().encode(x=altair.X(by, type="nominal", sort=None), y=value, **several, **offset)


def _matplotlib(points: list[tuple[Any, str, float]], by: str, title: str) -> Any:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    names = list(dict.fromkeys(series for _, series, _ in points))
    places = list(dict.fromkeys(place for place, _, _ in points))
    for at, name in enumerate(names):
        own = [(place, value) for place, series, value in points if series == name]
        if by == TIME:
            times = [datetime.datetime.fromtimestamp(place, datetime.UTC) for place, _ in own]
            axes.plot(times, [value for _, value in own], label=name)
            continue
        width = 0.8 / len(names)
        left = [places.index(place) + (at - (len(names) - 1) / 2) * width for place, _ in own]
        axes.bar(left, [value for _, value in own], width, label=name)
    if by == TIME:
        figure.autofmt_xdate()
    else:
        axes.set_xticks(range(len(places)), places)
    axes.set_xlabel("UTC" if by == TIME else by.replace("_", " "))
    axes.set_ylabel(title)
    if len(names) > 1:
        axes.legend()
    # Notebooks show what the last line answers; a figure that stays open is shown twice.
    pyplot.close(figure)
    return figure


def _columns(result: Any) -> dict[str, list[Any]]:
    """The records by column."""
    rows = list(csv.reader(io.StringIO(result.csv())))

    def value(text: str) -> Any:
        try:
            return float(text) if text else None
        except ValueError:
            return text

    return {name: [value(row[at]) for row in rows[1:]] for at, name in enumerate(rows[0])}
