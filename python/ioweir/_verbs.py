"""The verbs of the command line, as functions."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from . import _inputs, _native
from ._inputs import write
from ._progress import Progress, shown

__all__ = [
    "advise",
    "calibrate",
    "compare",
    "explain",
    "forecast",
    "plan",
    "qos",
    "read",
    "scorecard",
    "simulate",
    "validate",
    "write",
]

Spec = str | os.PathLike[str] | dict[str, Any]
Names = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def _with_traces(given: tuple[Any, ...], keys: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The spec and the keys, with the traces that stand among the positional arguments."""
    spec, traces = _inputs.split(given)
    if traces and keys.get("traces") is not None:
        raise _native.InputError("traces by position and by name\n  expected: one of them")
    return spec, {**keys, "traces": traces} if traces else keys


def compare(
    *spec_or_traces: Spec | Any,
    traces: Any = None,
    device: Names | None = None,
    schedulers: Any = None,
    loads: Names | None = None,
    depth: int | str | Sequence[int | str] | None = None,
    seeds: int | Sequence[int] | None = None,
    goal: str | None = None,
    of: str | None = None,
    fast_device: str | None = None,
    queue_requests: int | None = None,
    request_bytes_max: str | None = None,
    merge: bool | None = None,
    fold: bool | None = None,
    spread: bool | None = None,
    by_stream: bool | None = None,
    format: str | None = None,
    volume: str | None = None,
    event: str | None = None,
    lenient: bool | None = None,
    alone: bool | None = None,
    requests: bool = False,
    reference: str | None = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Replays traces under several schedulers and compares the results.

    >>> import ioweir
    >>> ioweir.compare("traces/fio/mix.iolog.gz", device="hdd", load="closed:4", scheduler="none,bfq").headline
    'none finishes first, in 35.6 s: 11 % less time than bfq.'

    Positional arguments are traces: a file, a folder, ``"mix:NAME"``, or Arrow data. A dict, TOML text or a file ``*.toml``
    among them is a comparison to start from, whose keys the named arguments replace. A name of the command line will do for a
    key (``scheduler``, ``load``), and so will its text with commas.

    Args:
        traces: The traces, by name: one, a list, or a dict with a name for each.
        device: Presets (``ioweir doc device``) or TOML files.
        schedulers: Names with parameters (``"bid-hdd:wait=2ms"``), or classes (:func:`ioweir.elevator`).
        loads: ``"recorded"``, ``"x10"``, ``"closed:32"`` or ``"closed:32+100us"``.
        depth: Requests that the device holds at once, or ``"device"``.
        seeds: Seeds; with several, each replays a sample of the trace, and figures get 95 % intervals.
        goal: ``"completion"``, ``"mean"``, ``"read-p99"`` or ``"busy"``.
        of: The requests that count for the goal: a class of I/O priorities, a stream, or ``"all"``.
        fast_device: The faster device of schedulers that place data on one.
        queue_requests: Requests that the queue holds in each direction.
        request_bytes_max: The largest request after merging, with a unit: ``"512KiB"``.
        merge: Whether adjacent requests are merged.
        fold: Fold requests past the end of the device onto it.
        spread: Spread the data of a trace over the whole device.
        by_stream: Whether figures by stream are kept.
        format, volume, event, lenient, alone: How traces are read, as by :func:`read`.
        requests: Keep every request in ``result.requests``, 150 bytes each.
        reference: The scheduler that times are relative to.
        progress: A function of (runs done, runs, requests so far), or whether to show a bar.

    Returns:
        A row for each trace, device, load, scheduler and seed. Columns carry their unit: ``completion_seconds``,
        ``throughput_bytes_per_second``, ``latency_p99_seconds``.

    Raises:
        InputError: An argument or a trace is wrong; the message has its place.
        RunError: A run failed, or a policy in Python raised.
    """
    named = {
        "traces": traces, "device": device, "schedulers": schedulers, "loads": loads, "depth": depth, "seeds": seeds,
        "goal": goal, "of": of, "fast_device": fast_device, "queue_requests": queue_requests,
        "request_bytes_max": request_bytes_max, "merge": merge, "fold": fold, "spread": spread, "by_stream": by_stream,
        "format": format, "volume": volume, "event": event, "lenient": lenient, "alone": alone,
    }  # fmt: skip
    given = {**keys, **{key: value for key, value in named.items() if value is not None}}
    spec, ready = _with_traces(spec_or_traces, given)
    with shown(progress) as told:
        return _native.compare(
            _inputs.spec(spec), requests=requests, progress=told, reference=reference, keys=_inputs.flags(ready)
        )


def advise(
    *spec_or_traces: Spec | Any,
    traces: Any = None,
    device: str | None = None,
    schedulers: Any = None,
    recorded_under: str | None = None,
    goal: str | None = None,
    of: str | None = None,
    bound: str | None = None,
    budget: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Searches what to set for a device and a load: schedulers, their parameters, queues; and says how sure that is.

    Positional arguments are traces, or a spec of advice (a dict, TOML text or a file ``*.toml``), whose keys the named
    arguments replace.

    Args:
        device: A preset or a device file.
        schedulers: The schedulers to try; Linux's own if absent.
        recorded_under: The scheduler that was set while the trace was recorded.
        goal: ``"completion"``, ``"mean"``, ``"read-p99"`` or ``"busy"``.
        of: The requests that count for the goal: a class of I/O priorities, a stream, or ``"all"``.
        bound: What must not be exceeded: ``"read-p99=20ms"``.
        budget: Runs of the search.
        rounds: Rounds in which candidates are judged.
        seed: The seed of everything random.

    Returns:
        A row for each candidate that was judged; the first is to leave everything as it is.

    Raises:
        InputError: An argument or a trace is wrong; the message has its place.
    """
    named = {
        "traces": traces, "device": device, "schedulers": schedulers, "recorded_under": recorded_under, "goal": goal,
        "of": of, "bound": bound, "budget": budget, "rounds": rounds, "seed": seed,
    }  # fmt: skip
    given = {**keys, **{key: value for key, value in named.items() if value is not None}}
    spec, ready = _with_traces(spec_or_traces, given)
    if isinstance(ready.get("scheduler"), str):
        ready["scheduler"] = ready["scheduler"].split(",")
    with shown(progress) as told:
        return _native.advise(_inputs.spec(spec), progress=told, keys=_inputs.flags(ready))


def scorecard(
    device: str | os.PathLike[str] | None = None,
    /,
    *,
    schedulers: Any = None,
    depth: int | str | None = None,
    slowdown: int | None = None,
    span: str | None = None,
    measured: str | None = None,
    seeds: int | Sequence[int] | None = None,
    spec: Spec | None = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Scores schedulers by how they isolate tenants that share a device: throughput, fairness, protection, bursts, waits.

    Args:
        device: A preset or a device file.
        schedulers: Names with parameters, or classes (:func:`ioweir.order`).
        depth: Requests that the device holds at once, or ``"device"``.
        slowdown: A tenant is protected if its p99 beside busy ones is at most this many times that alone.
        span: How long each run is measured: ``"5s"``.
        measured: Measurements of the same tests on a server, to be shown beside.
        seeds: Seeds; figures are means over them with 95 % intervals.
        spec: A scorecard (a dict, TOML text or a file ``*.toml``) whose keys the named arguments replace.
        progress: A function of (runs done, runs, requests so far), or whether to show a bar.

    Returns:
        A row for each scheduler, test and seed.

    Raises:
        InputError: An argument is wrong; the message has its place.
    """
    named = {
        "device": device, "schedulers": schedulers, "depth": depth, "slowdown": slowdown, "span": span,
        "measured": measured, "seeds": [seeds] if isinstance(seeds, int) else seeds,
    }  # fmt: skip
    with shown(progress) as told:
        return _native.scorecard(_inputs.spec(spec), progress=told, keys=_inputs.of_one_device({**keys, **named}))


def qos(
    device: str | os.PathLike[str] | None = None,
    /,
    *,
    p99: str | None = None,
    weight: int | None = None,
    percent: int | None = None,
    model: str | None = None,
    depth: int | str | None = None,
    span: str | None = None,
    seeds: int | Sequence[int] | None = None,
    spec: Spec | None = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Searches settings of Linux's ``io.cost.qos`` with which a tenant keeps a p99 beside busy ones.

    Args:
        device: A preset or a device file.
        p99: What the protected tenant is to keep: ``"2ms"``.
        weight: The weight of the protected tenant; each other has 100.
        percent: The share of the device's reads that it asks for.
        model: io-cost with the coefficients of the device.
        depth: Requests that the device holds at once, or ``"device"``.
        span: How long each run is measured: ``"5s"``.
        seeds: Seeds of the search; the judgement takes as many others.
        spec: A search (a dict, TOML text or a file ``*.toml``) whose keys the named arguments replace.
        progress: A function of (runs done, runs, requests so far), or whether to show a bar.

    Returns:
        A row for each setting that was judged.

    Raises:
        InputError: An argument is wrong; the message has its place.
    """
    named = {
        "device": device, "p99": p99, "weight": weight, "percent": percent, "model": model, "depth": depth, "span": span,
        "seeds": [seeds] if isinstance(seeds, int) else seeds,
    }  # fmt: skip
    with shown(progress) as told:
        return _native.qos(_inputs.spec(spec), progress=told, keys=_inputs.of_one_device({**keys, **named}))


def validate(device: str | os.PathLike[str], trace: Names | _native.Trace, /, *, fold: bool = False) -> _native.Result:
    """Compares a device model with the latencies of a trace.

    Args:
        device: A preset or a device file.
        trace: A trace with latencies: its files, or what :func:`read` has opened.
        fold: Fold requests past the end of the device onto it.

    Returns:
        A row for each class of requests: its mean, that of the model, and how far they are apart.

    Raises:
        InputError: The device or the trace cannot be read, or a request lies past the end of the device.
    """
    opened = trace if isinstance(trace, _native.Trace) else read(trace)
    return _native.validate(os.fspath(device), opened, fold=fold)


def calibrate(
    spec_or_trace: Spec | None = None,
    /,
    *,
    trace: Names | None = None,
    kind: str | None = None,
    preset: str | None = None,
    capacity: str | None = None,
    rpm: str | None = None,
    generations: int | None = None,
    searches: int | None = None,
    seed: int | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Fits a device model to a trace with latencies: the first half of the requests is fitted to, the second half judges.

    The positional argument is the trace, or a calibration (a file ``*.toml``, TOML text or a dict) whose keys the named arguments
    replace; how the trace is read (``format``, ``volume``, ``event``, ``lenient``, ``fold``) is a key as well.

    Args:
        trace: The files of the trace.
        kind: ``"disk"`` or ``"flash"``.
        preset: A device to start from.
        capacity: The size of the device: ``"4TB"``.
        rpm: The revolutions of a disk in a minute.
        generations: How long is searched.
        searches: How many independent searches give the intervals of the parameters.
        seed: The seed of the search.
        output: Where the device goes, with its error; other verbs take the file as ``device``.
        force: Write also a device outside of the family that the model describes.
        progress: A function of (generations done, generations, requests so far), or whether to show a bar.

    Returns:
        A row for each class of requests: ``measured_mean_seconds``, ``modelled_mean_seconds`` and how far they are apart.

    Raises:
        InputError: An argument or the trace is wrong; the message has its place.
        RunError: The device is outside of the family, and so is not written to ``output``.
    """
    named = {
        "trace": trace, "kind": kind, "preset": preset, "capacity": capacity, "rpm": rpm, "generations": generations,
        "searches": searches, "seed": seed,
    }  # fmt: skip
    spec, traces = _inputs.split(() if spec_or_trace is None else (spec_or_trace,))
    given = {**keys, **named, **({"trace": traces} if traces else {})}
    with shown(progress) as told:
        result, device, is_outside = _native.calibrate(_inputs.spec(spec), progress=told, keys=_inputs.keys(given))
    if output is not None:
        if is_outside and not force:
            why = "is not written: the device is outside the family that the model describes; force=True writes it anyway"
            raise _native.RunError(f"{output} {why}")
        pathlib.Path(output).write_text(device, encoding="utf-8")
    return result


def simulate(
    spec: Spec,
    /,
    *,
    schedulers: Any = None,
    seeds: Sequence[int] | None = None,
    duration: str | None = None,
    requests: bool = False,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Runs an experiment: classes of clients on a device, or on a whole server.

    Args:
        spec: The experiment: a file, TOML text or a dict (``ioweir doc simulate`` has its keys), whose keys the named arguments
            replace.
        schedulers: Names with parameters, or classes (:func:`ioweir.elevator`, :func:`ioweir.order`).
        seeds: Seeds; with several, figures get 95 % intervals.
        duration: How long each run lasts: ``"30s"``.
        requests: Keep every request in ``result.requests``.
        progress: A function of (runs done, runs, requests so far), or whether to show a bar.

    Returns:
        A row for each scheduler, class and seed or point, with ``iops`` and ``latency_p99_seconds``. ``result.notices`` names
        expectations that are not met.

    Raises:
        InputError: The experiment is wrong; the message has its place.
        RunError: A run failed, or a policy in Python raised.
    """
    given = {**keys, "schedulers": schedulers, "seeds": seeds, "duration": duration}
    with shown(progress) as told:
        return _native.simulate(_inputs.spec(spec), requests=requests, progress=told, keys=_inputs.keys(given))


def _with_series(given: tuple[Any, ...], keys: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The spec and the keys, with the series that stand among the positional arguments."""
    spec, series = _inputs.split(given)
    if series and keys.get("series") is not None:
        raise _native.InputError("series by position and by name\n  expected: one of them")
    present = {key: value for key, value in keys.items() if value is not None}
    return spec, {**present, "series": series} if series else present


def forecast(
    *spec_or_series: Spec | Any,
    series: Any = None,
    column: Names | None = None,
    method: Names | None = None,
    horizon: str | None = None,
    quantile: float | Sequence[float] | None = None,
    backtest: int | None = None,
    lead: Names | None = None,
    bin: str | None = None,
    kind: str | None = None,
    total: bool | None = None,
    utc_offset: str | None = None,
    time_zone: str | None = None,
    holiday: dict[str, str] | None = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Forecasts load for the coming days, or, with ``backtest``, scores forecasts against the past.

    Positional arguments are series; a dict, TOML text or a file ``*.toml`` among them is a forecast whose keys the named arguments
    replace.

    Args:
        series: Files, ``vdi:SEED``, or Arrow data with a column of times.
        column: The columns that are forecast; all if absent.
        method: Forecasters (``ioweir doc forecaster``); a setting follows the name: ``"paper:trend=0.8"``.
        horizon: How far ahead: ``"24h"``.
        quantile: Quantiles that are forecast: ``[0.5, 0.95]``.
        backtest: Score so many days of the past instead.
        lead: Leads that a backtest scores besides the day: ``"168h"``.
        bin: The time that a value stands for, where the series does not tell.
        kind: The meaning of a value: ``"mean"``, ``"sum"`` or ``"counter"``.
        total: Forecast the sum of the columns.
        utc_offset: The offset of local time: ``"+01:00"``.
        time_zone: The time zone by its IANA name instead.
        holiday: Days that behave like another weekday: ``{"2026-12-25": "sunday"}``.
        progress: A function of (runs done, runs, requests so far), or whether to show a bar.

    Returns:
        A row for each series, forecaster and time, with the quantiles in the unit of the series; with ``backtest`` a row of scores.

    Raises:
        InputError: An argument or a series is wrong; the message has its place.
    """
    named = {
        "series": series, "column": column, "method": method, "horizon": horizon, "quantile": quantile,
        "backtest": backtest, "lead": lead, "bin": bin, "kind": kind, "total": total, "utc_offset": utc_offset,
        "time_zone": time_zone, "holiday": holiday,
    }  # fmt: skip
    spec, given = _with_series(spec_or_series, {**keys, **named})
    with shown(progress) as told:
        return _native.forecast(_inputs.spec(spec, _inputs.series), progress=told, keys=_inputs.series(given))


def plan(
    *spec_or_series: Spec | Any,
    series: Any = None,
    policy: Spec | None = None,
    replay: Any = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Plans deferred work: when it runs, and on how many cores.

    Positional arguments are series; a dict, TOML text or a file ``*.toml`` among them is a plan whose keys the named arguments
    replace.

    Args:
        series: The past load: files, or Arrow data with a column of times.
        policy: The pool, the cores and the services: a file, or its tables as a dict (``ioweir doc plan``).
        replay: What came, to see how the plan would have done.
        progress: A function of (runs done, runs, requests so far), or whether to show a bar.

    Returns:
        A row for each step of the plan.

    Raises:
        InputError: An argument, a series or the policy is wrong; the message has its place.
    """
    spec, given = _with_series(spec_or_series, {**keys, "series": series, "policy": policy, "replay": replay})
    with shown(progress) as told:
        return _native.plan(_inputs.spec(spec, _inputs.series), progress=told, keys=_inputs.series(given))


def explain(spec: Spec, /, *, slowest: str | None = None, request: int | None = None, **keys: Any) -> str:
    """Says in words why a request of an experiment waited: that number, or the slowest of a class or of all."""
    return _native.explain(_inputs.spec(spec), slowest=slowest, request=request, keys=_inputs.keys(keys))


def read(
    *files: str | os.PathLike[str],
    format: str | None = None,
    columns: str | None = None,
    volume: str | None = None,
    event: str | None = None,
    lenient: bool = False,
) -> _native.Trace:
    """Opens a trace of any format; several files are those of one capture. As Arrow it has one row for each request.

    Args:
        format: The name of the format (``ioweir doc format``); recognised by the content if absent.
        columns: The columns of a text format of your own: ``"time:s,op,offset:bytes,size:bytes"``.
        volume: Only this address space of a trace that holds several.
        event: The event that counts as a request: ``"queue"``, ``"insert"``, ``"issue"`` or ``"complete"``.
        lenient: Skip damaged records instead of stopping.

    Raises:
        InputError: The trace is missing, or a record is wrong; the message has its place.
    """
    if columns is not None:
        if format is not None:
            raise _native.InputError("columns and format both say how a trace is read\n  expected: one of them")
        format = f"columns:{columns}"
    return _native.read(list(files), format=format, volume=volume, event=event, lenient=lenient)
