"""Verbs of the command line whose functions are written from its definition, by crates/cli/src/python.rs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from . import _command

__all__ = [
    "check",
    "doc",
    "govern",
    "record",
    "replay",
    "reproduce",
    "show",
    "targets",
    "trace_convert",
    "trace_cut",
    "trace_generate",
    "trace_info",
]

Path = str | os.PathLike[str]


def check(
    spec: Path,
    *,
    listen: str | Sequence[str] | None = None,
    take_over: bool = False,
    strict: bool = False,
) -> str:
    """Check the spec of a server, with its devices and addresses, without serving.

    ``ioweir serve --check`` on the command line.

    Args:
        spec: Server spec (TOML); ``ioweir doc serve`` lists its keys, ``ioweir show FILE`` prints it with
            every default.
        listen: Listen here instead of where the spec says: unix:PATH or tcp:ADDRESS:PORT; may be repeated.
        take_over: Take the place of the server that runs with this spec's control socket: get its listening
            sockets, so that clients that come wait, let it drain and end, and serve its devices then.
        strict: Refuse to start when any device cannot be opened, instead of serving the others.

    Returns:
        The text that the command prints.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "check": True,
        "listen": listen,
        "take-over": take_over,
        "strict": strict,
    }
    return _command.run(["serve"], [spec], flags, is_json=False)


def doc(
    topic: str | None = None,
    name: str | None = None,
) -> str:
    """Explain policies, devices, formats, keys, loads, wait reasons, exit codes.

    ``ioweir doc`` on the command line.

    Args:
        topic: Topic to explain; without it, lists the topics.
        name: Entry of the topic; without it, lists the entries.

    Returns:
        The text that the command prints.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {}
    return _command.run(["doc"], [topic, name], flags, is_json=False)


def govern(
    spec: Path,
    *,
    export: Path | Sequence[Path] | None = None,
) -> Any:
    """Say what a governor would do and why, and plan the coming day; nothing is run.

    ``ioweir govern --dry-run`` on the command line.

    Args:
        spec: Govern file (TOML): sources of load, services, workers; ``ioweir doc govern`` lists its keys.
        export: Write the document to a file; the suffix selects the form: .html, .md, .csv, .parquet, .json
            or .txt; may be repeated.

    Returns:
        The document as the JSON output has it: dicts, lists and numbers.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "dry-run": True,
        "export": export,
    }
    return _command.run(["govern"], [spec], flags, is_json=True)


def record(
    device: Path,
    *,
    output: Path,
    for_: str | None = None,
    event: Literal["queue", "insert", "issue"] | None = None,
    buffer: str | None = None,
    export: Path | Sequence[Path] | None = None,
) -> Any:
    """Record the block requests of a device of this machine, by the kernel's events.

    ``ioweir record`` on the command line.

    Args:
        device: Block device, or a path on a file system: the disk under it is recorded.
        output: File to write; the suffix selects the format (.parquet, .csv, .fio, ...). Parquet keeps
            everything.
        for_: For how long [default: 60s].
        event: Event that counts as a request: queue (as submitted), insert (as the scheduler received it),
            issue (as the device received it) [default: queue].
        buffer: The kernel's buffer for each processor: more, if events are lost [default: 4MiB].
        export: Write the document to a file; the suffix selects the form: .html, .md, .csv, .parquet, .json
            or .txt; may be repeated.

    Returns:
        The document as the JSON output has it: dicts, lists and numbers.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "output": output,
        "for": for_,
        "event": event,
        "buffer": buffer,
        "export": export,
    }
    return _command.run(["record"], [device], flags, is_json=True)


def replay(
    *files: Path,
    load: str | None = None,
    for_: str | None = None,
    limit: int | None = None,
    reads_only: bool = False,
    fold: bool = False,
    format: Path | None = None,
    columns: str | None = None,
    volume: str | None = None,
    event: Path | None = None,
    lenient: bool = False,
    alone: bool = False,
    write: Path | None = None,
    scratch: Path | None = None,
    size: str | None = None,
    in_use: bool = False,
    scheduler: str | Sequence[str] | None = None,
    set: str | Sequence[str] | None = None,
    repeat: int | None = None,
    timeout: str | None = None,
    state: Path | None = None,
    device: Path | None = None,
    depth: int | None = None,
    export: Path | Sequence[Path] | None = None,
    requests: Path | None = None,
) -> Any:
    """Replay a trace on a real device, under its schedulers in turn, with the prediction beside the
    measurement.

    ``ioweir replay`` on the command line.

    Args:
        files: Files of one trace, and then the block device or file that it is replayed on (none with
            --scratch).
        load: Load: recorded (times as traced), x10 (ten times as fast), closed:4 (each stream keeps 4
            requests outstanding) [default: recorded].
        for_: Requests that arrive within this time of the trace alone.
        limit: No more requests than this.
        reads_only: Leave out what is no read, and say how much that is.
        fold: Fold requests past the end of the device onto it, instead of stopping: addresses begin anew at
            its end.
        format: Trace format: a name (``ioweir doc format`` lists them), a TOML file that describes your own
            text format, or columns: and a list of columns; recognised by content if absent.
        columns: Columns of your own text format, in order: time:s,op,offset:bytes,size:bytes (``ioweir doc
            format columns``).
        volume: Only this address space (disk, volume, file) of a trace that holds several; ``compare`` takes
            all for each in turn.
        event: Event that counts as a request, where a trace holds several: queue (as submitted), insert (as
            the traced scheduler received it), issue (as the device received it), complete (of captures that
            hold nothing else) [default: queue].
        lenient: Skip and count damaged records instead of stopping.
        alone: Read the named files of a set without the others that lie beside them.
        write: Allow writes to the device, which destroy what it holds; must be the same name as DEVICE.
        scratch: Replay on a file that is made for it, filled, and removed at the end.
        size: Size of the scratch file [default: as large as the trace needs].
        in_use: Read a device although it is mounted or otherwise in use.
        scheduler: Kernel schedulers, separated by commas; the device gets each in turn, with the settings
            that follow it: mq-deadline:fifo_batch=1:nr_requests=64 [default: the one that it has].
        set: Setting of the device's queue (nr_requests=64) or of one scheduler (bfq/low_latency=0), restored
            at the end; may be repeated.
        repeat: Replay so many times under each scheduler, all schedulers once and then again [default: 1].
        timeout: Time that the device may take for one request before it counts as stalled [default: 30s].
        state: Folder for the note from which settings are restored [default: /var/lib/ioweir for root, else
            ~/.local/state/ioweir].
        device: Model of the device, a preset or TOML file: what ``compare`` predicts with it is shown beside
            the measurement.
        depth: Requests that the modelled device holds at once [default: as many as the real one].
        export: Write the document to a file; the suffix selects the form: .html, .md, .csv, .parquet, .json
            or .txt; may be repeated.
        requests: Write one row per request to a Parquet file; ``ioweir doc requests`` lists the columns.

    Returns:
        The document as the JSON output has it: dicts, lists and numbers.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "load": load,
        "for": for_,
        "limit": limit,
        "reads-only": reads_only,
        "fold": fold,
        "format": format,
        "columns": columns,
        "volume": volume,
        "event": event,
        "lenient": lenient,
        "alone": alone,
        "write": write,
        "scratch": scratch,
        "size": size,
        "in-use": in_use,
        "scheduler": scheduler,
        "set": set,
        "repeat": repeat,
        "timeout": timeout,
        "state": state,
        "device": device,
        "depth": depth,
        "export": export,
        "requests": requests,
    }
    return _command.run(["replay"], [*files], flags, is_json=True)


def reproduce(
    paper: Literal["bid", "wafl", "reward", "background", "all"],
    *,
    quick: bool = False,
    traces: Path | None = None,
    goal: Literal["completion", "mean", "read-p99", "busy"] | None = None,
    trace: Path | Sequence[Path] | None = None,
    export: Path | None = None,
) -> Any:
    """Run a paper's experiments and compare its claims with the results.

    ``ioweir reproduce`` on the command line.

    Args:
        paper: Paper.
        quick: Run only what the claims need: one load, no sensitivity tables.
        traces: Folder with the traces of the six Hadoop jobs [default: those of traces/hadoop, or generated
            traffic where that is absent].
        goal: Time that claims of ``bid`` compare: busy (the device's working time), completion, mean,
            read-p99 [default: busy].
        trace: SYSTOR '17 trace for ``background``, instead of the generated series; may be repeated.
        export: Write the page with all tables and figures into a folder.

    Returns:
        The document as the JSON output has it: dicts, lists and numbers.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "quick": quick,
        "traces": traces,
        "goal": goal,
        "trace": trace,
        "export": export,
    }
    return _command.run(["reproduce"], [paper], flags, is_json=True)


def show(
    spec: Path,
) -> str:
    """Print a spec or a device as TOML, with every default filled in.

    ``ioweir show`` on the command line.

    Args:
        spec: Comparison, experiment, sweep, forecast, plan, govern, server or device file, or a device
            preset.

    Returns:
        The text that the command prints.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {}
    return _command.run(["show"], [spec], flags, is_json=False)


def targets(
    experiment: Path,
    *,
    fast: str | None = None,
    export: Path | Sequence[Path] | None = None,
) -> Any:
    """Say which latency targets of tenants a tiered array can keep, with which setting, or what prevents it.

    ``ioweir advise --targets`` on the command line.

    Args:
        experiment: Experiment (TOML): a tiered array, and the tenants as classes.
        fast: Size of the fast tier, in which the data of the tenants are placed: "100GiB".
        export: Write the document to a file; the suffix selects the form: .html, .md, .csv, .parquet, .json
            or .txt; may be repeated.

    Returns:
        The document as the JSON output has it: dicts, lists and numbers.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "fast": fast,
        "export": export,
    }
    return _command.run(["advise", "targets"], [experiment], flags, is_json=True)


def trace_convert(
    *files: Path,
    as_: str | None = None,
    merge: Literal["starts", "clocks"] | None = None,
    offset: str | Sequence[str] | None = None,
    keep_apart: bool = False,
    repeat: str | None = None,
    format: Path | None = None,
    columns: str | None = None,
    volume: str | None = None,
    event: Path | None = None,
    lenient: bool = False,
    alone: bool = False,
) -> str:
    """Write a trace in another format.

    ``ioweir trace --convert`` on the command line.

    Args:
        files: Files of one trace, then the file to write.
        as_: Format to write [default: by the suffix of OUT].
        merge: Take several traces as one, in the order of time: all begin together, or their wall clocks
            agree.
        offset: Add these times to those of the merged traces, in their order.
        keep_apart: Tell streams and volumes of different traces apart that have the same name.
        repeat: Repeat the trace so many times, or until it lasts that long.
        format: Trace format: a name (``ioweir doc format`` lists them), a TOML file that describes your own
            text format, or columns: and a list of columns; recognised by content if absent.
        columns: Columns of your own text format, in order: time:s,op,offset:bytes,size:bytes (``ioweir doc
            format columns``).
        volume: Only this address space (disk, volume, file) of a trace that holds several; ``compare`` takes
            all for each in turn.
        event: Event that counts as a request, where a trace holds several: queue (as submitted), insert (as
            the traced scheduler received it), issue (as the device received it), complete (of captures that
            hold nothing else) [default: queue].
        lenient: Skip and count damaged records instead of stopping.
        alone: Read the named files of a set without the others that lie beside them.

    Returns:
        The text that the command prints.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "as": as_,
        "merge": merge,
        "offset": offset,
        "keep-apart": keep_apart,
        "repeat": repeat,
        "format": format,
        "columns": columns,
        "volume": volume,
        "event": event,
        "lenient": lenient,
        "alone": alone,
    }
    return _command.run(["trace", "convert"], [*files], flags, is_json=False)


def trace_cut(
    *files: Path,
    from_: str | None = None,
    to_: str | None = None,
    streams: str | Sequence[str] | None = None,
    offset_from: str | None = None,
    offset_to: str | None = None,
    scale: str | None = None,
    as_: str | None = None,
    by: Literal["stream", "volume"] | None = None,
    merge: Literal["starts", "clocks"] | None = None,
    offset: str | Sequence[str] | None = None,
    keep_apart: bool = False,
    repeat: str | None = None,
    format: Path | None = None,
    columns: str | None = None,
    volume: str | None = None,
    event: Path | None = None,
    lenient: bool = False,
    alone: bool = False,
) -> str:
    """Write part of a trace: an interval, some streams, a range of addresses.

    ``ioweir trace --cut`` on the command line.

    Args:
        files: Files of one trace, then the file to write.
        from_: Only requests at or after this time since the first, or this date: 2026-03-02T10:00+01:00
            (without an offset UTC).
        to_: Only requests before this time since the first, or this date.
        streams: Only requests of these streams, separated by commas: full names, or the commands in them.
        offset_from: Only requests that start at or after this byte; flushes are kept.
        offset_to: Only requests that start before this byte; flushes are kept.
        scale: Scale arrival times after the cut: x2 is twice as fast, x0.5 half as fast.
        as_: Format to write [default: by the suffix of OUT].
        by: Write a file for each stream or each volume, with its name before the suffix of OUT.
        merge: Take several traces as one, in the order of time: all begin together, or their wall clocks
            agree.
        offset: Add these times to those of the merged traces, in their order.
        keep_apart: Tell streams and volumes of different traces apart that have the same name.
        repeat: Repeat the trace so many times, or until it lasts that long.
        format: Trace format: a name (``ioweir doc format`` lists them), a TOML file that describes your own
            text format, or columns: and a list of columns; recognised by content if absent.
        columns: Columns of your own text format, in order: time:s,op,offset:bytes,size:bytes (``ioweir doc
            format columns``).
        volume: Only this address space (disk, volume, file) of a trace that holds several; ``compare`` takes
            all for each in turn.
        event: Event that counts as a request, where a trace holds several: queue (as submitted), insert (as
            the traced scheduler received it), issue (as the device received it), complete (of captures that
            hold nothing else) [default: queue].
        lenient: Skip and count damaged records instead of stopping.
        alone: Read the named files of a set without the others that lie beside them.

    Returns:
        The text that the command prints.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "from": from_,
        "to": to_,
        "streams": streams,
        "offset-from": offset_from,
        "offset-to": offset_to,
        "scale": scale,
        "as": as_,
        "by": by,
        "merge": merge,
        "offset": offset,
        "keep-apart": keep_apart,
        "repeat": repeat,
        "format": format,
        "columns": columns,
        "volume": volume,
        "event": event,
        "lenient": lenient,
        "alone": alone,
    }
    return _command.run(["trace", "cut"], [*files], flags, is_json=False)


def trace_generate(
    mix: str,
    out: Path,
    *,
    requests: int | None = None,
    streams: int | None = None,
    seed: int | None = None,
    as_: str | None = None,
) -> str:
    """Generate the traffic of a job from a seeded mix.

    ``ioweir trace --generate`` on the command line.

    Args:
        mix: Mix to generate; ``ioweir doc mix`` lists them.
        out: File to write.
        requests: Number of requests [default: that of the capture behind the mix].
        streams: Streams that read at once [default: the mix's own].
        seed: Random seed [default: 0].
        as_: Format to write [default: by the suffix of OUT].

    Returns:
        The text that the command prints.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "requests": requests,
        "streams": streams,
        "seed": seed,
        "as": as_,
    }
    return _command.run(["trace", "generate"], [mix, out], flags, is_json=False)


def trace_info(
    *files: Path,
    format: Path | None = None,
    columns: str | None = None,
    volume: str | None = None,
    event: Path | None = None,
    lenient: bool = False,
    alone: bool = False,
    export: Path | Sequence[Path] | None = None,
) -> Any:
    """Summarise a trace: requests, bytes, time, streams.

    ``ioweir trace --info`` on the command line.

    Args:
        files: Trace files; the per-processor files of one blktrace capture count as one trace.
        format: Trace format: a name (``ioweir doc format`` lists them), a TOML file that describes your own
            text format, or columns: and a list of columns; recognised by content if absent.
        columns: Columns of your own text format, in order: time:s,op,offset:bytes,size:bytes (``ioweir doc
            format columns``).
        volume: Only this address space (disk, volume, file) of a trace that holds several; ``compare`` takes
            all for each in turn.
        event: Event that counts as a request, where a trace holds several: queue (as submitted), insert (as
            the traced scheduler received it), issue (as the device received it), complete (of captures that
            hold nothing else) [default: queue].
        lenient: Skip and count damaged records instead of stopping.
        alone: Read the named files of a set without the others that lie beside them.
        export: Write the document to a file; the suffix selects the form: .html, .md, .csv, .parquet, .json
            or .txt; may be repeated.

    Returns:
        The document as the JSON output has it: dicts, lists and numbers.

    Raises:
        InputError: An argument or a file is wrong; the message has its place.
        RunError: Something failed while running.
    """
    flags: dict[str, Any] = {
        "format": format,
        "columns": columns,
        "volume": volume,
        "event": event,
        "lenient": lenient,
        "alone": alone,
        "export": export,
    }
    return _command.run(["trace", "info"], [*files], flags, is_json=True)
