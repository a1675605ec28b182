"""The verbs of the command line, as functions."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from . import _inputs, _native
from ._inputs import write
from ._progress import Progress, shown

__all__ = ["advise", "calibrate", "compare", "explain", "forecast", "plan", "read", "simulate", "write"]

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
    seed: int | Sequence[int] | None = None,
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
        seed: Seeds; with several, each replays a sample of the trace, and figures get 95 % intervals.
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
        "traces": traces, "device": device, "schedulers": schedulers, "loads": loads, "depth": depth, "seed": seed,
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


def calibrate(
    spec: Spec | None = None,
    /,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Fits a device model to a trace with latencies: the first half of the requests is fitted to, the second half judges.

    ``spec`` is the trace, or a calibration (a ``*.toml`` file, TOML text or a dict), and ``keys`` take the place of its keys: ``trace``, ``kind``
    (``"disk"`` or ``"flash"``), ``preset``, ``capacity``, ``rpm``, ``generations``, ``searches``, ``seed`` and others (``ioweir show``). The
    device goes to the file ``output``, with its error and the interval of every parameter; other verbs take it as ``device``. A
    device outside of the family that the model describes is not written, which is a :class:`RunError`, without ``force``. A
    row of the result is a class of requests.
    """
    spec, traces = _inputs.split(() if spec is None else (spec,))
    keys = {**keys, "trace": traces} if traces else keys
    with shown(progress) as told:
        result, device, is_outside = _native.calibrate(_inputs.spec(spec), progress=told, keys=_inputs.keys(keys))
    if output is not None:
        if is_outside and not force:
            told = "is not written: the device is outside the family that the model describes; force=True writes it anyway"
            raise _native.RunError(f"{output} {told}")
        pathlib.Path(output).write_text(device, encoding="utf-8")
    return result


def simulate(
    spec: Spec, /, *, requests: bool = False, progress: Progress | bool | None = None, **keys: Any
) -> _native.Result:
    """Runs an experiment: classes of clients on a device, or on a whole server.

    ``result.notices`` names expectations of the experiment that are not met.
    """
    with shown(progress) as told:
        return _native.simulate(_inputs.spec(spec), requests=requests, progress=told, keys=_inputs.keys(keys))


def forecast(
    spec: Spec | None = None, /, *, progress: Progress | bool | None = None, **keys: Any
) -> _native.Result:
    """Forecasts load for the coming days, or, with ``backtest``, scores forecasts against the past.

    ``spec`` is a forecast (a file, TOML text or a dict), and ``keys`` take the place of its keys: ``series``, ``method``,
    ``horizon``, ``quantile``, ``bin`` and others (``ioweir forecast --help``). A series is a file, ``vdi:SEED``, or Arrow data
    with a column of times.
    """
    with shown(progress) as told:
        return _native.forecast(_inputs.spec(spec, _inputs.series), progress=told, keys=_inputs.series(keys))


def plan(spec: Spec | None = None, /, *, progress: Progress | bool | None = None, **keys: Any) -> _native.Result:
    """Plans deferred work: when it runs, and on how many cores.

    ``keys`` are ``series``, ``policy`` (a file, or its tables as a dict), ``replay`` (what came), and how traces are read.
    """
    with shown(progress) as told:
        return _native.plan(_inputs.spec(spec, _inputs.series), progress=told, keys=_inputs.series(keys))


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
