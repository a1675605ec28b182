"""The verbs of the command line, as functions."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from . import _inputs, _native
from ._inputs import write
from ._progress import Progress, shown

__all__ = ["advise", "calibrate", "compare", "explain", "forecast", "plan", "read", "simulate", "write"]

Spec = str | os.PathLike[str] | dict[str, Any]


def compare(
    spec: Spec | None = None,
    /,
    *,
    requests: bool = False,
    reference: str | None = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> _native.Result:
    """Replays traces under several schedulers and compares the results.

    ``spec`` is a comparison (a file, TOML text or a dict), and ``keys`` take the place of its keys: ``traces``, ``device``,
    ``schedulers``, ``loads``, ``depth``, ``seed`` and others (``ioweir show``). A trace is a file, a folder, ``mix:NAME``, or
    Arrow data; a scheduler is a name or a class. With ``requests``, ``result.requests`` has one row for each request.
    """
    with shown(progress) as told:
        return _native.compare(
            _inputs.spec(spec), requests=requests, progress=told, reference=reference, keys=_inputs.keys(keys)
        )


def advise(
    spec: Spec | None = None, /, *, progress: Progress | bool | None = None, **keys: Any
) -> _native.Result:
    """Searches what to set for a device and a load: schedulers, their parameters, queues; and says how sure that is.

    ``spec`` is a spec of advice (a file, TOML text or a dict), and ``keys`` take the place of its keys: ``traces``, ``device``,
    ``recorded_under``, ``goal``, ``bound``, ``schedulers``, ``budget``, ``rounds``, ``seed`` and others (``ioweir show``). A row of
    the result is a candidate that was judged; the first is to leave everything as it is.
    """
    with shown(progress) as told:
        return _native.advise(_inputs.spec(spec), progress=told, keys=_inputs.keys(keys))


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

    ``spec`` is a calibration (a file, TOML text or a dict), and ``keys`` take the place of its keys: ``trace``, ``kind``
    (``"disk"`` or ``"flash"``), ``preset``, ``capacity``, ``rpm``, ``generations``, ``seed`` and others (``ioweir show``). The
    device goes to the file ``output``, with its error and the interval of every parameter; other verbs take it as ``device``. A
    device outside of the family that the model describes is not written, which is a :class:`RunError`, without ``force``. A
    row of the result is a class of requests.
    """
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
    volume: str | None = None,
    event: str | None = None,
    lenient: bool = False,
) -> _native.Trace:
    """Opens a trace of any format; several files are those of one capture. As Arrow it has one row for each request."""
    return _native.read(list(files), format=format, volume=volume, event=event, lenient=lenient)
