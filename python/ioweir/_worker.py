"""Cells of a sweep in another process: a group comes as text and names, and goes back as parts."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeAlias

from . import _native

#: A cell: its point, its run at the point, and its name.
Cell: TypeAlias = tuple[int, int, str]

#: Sweeps that a process keeps; several may use a worker in turn.
_SWEEPS_MAX = 4
_sweeps: OrderedDict[str, _native.SweepCells] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class Work:
    """What the groups of one sweep have in common."""

    #: The version and the commit that the sweep is of.
    version: tuple[str, str]
    #: A name that no other call has: what it reads of a trace is read again by the next.
    call: str
    spec: str
    threads: int


@dataclass(frozen=True)
class Answer:
    """What became of a group."""

    worker: str
    #: Each cell with its part, or with the text of why it failed.
    made: list[tuple[str, bytes | str]]
    seconds: float
    requests: int
    #: The traces as they are there, where nothing ran because a cell would be another.
    traces: dict[str, list[tuple[str, str]]] | None


def _name() -> str:
    """What errors call this process."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        try:
            return str(get_worker().address)
        except ValueError:  # It is no worker of Dask.
            pass
    return f"process {os.getpid()} of {socket.gethostname()}"


def _cells_of(work: Work) -> _native.SweepCells:
    with _lock:
        if work.call not in _sweeps:
            _sweeps[work.call] = _native.SweepCells(work.spec)
        _sweeps.move_to_end(work.call)
        while len(_sweeps) > _SWEEPS_MAX:
            _sweeps.popitem(last=False)
        return _sweeps[work.call]


def run(work: Work, cells: list[Cell]) -> Answer:
    """Runs a group of cells, unless anything that they depend on is another here."""
    worker = _name()
    here = (_native.__version__, _native.__commit__)
    if here != work.version:
        (mine, my_commit), (version, commit) = here, work.version
        raise _native.InputError(
            f"worker {worker} has ioweir {mine} ({my_commit}), and this sweep is of {version} ({commit})\n"
            "  expected: the same version on every worker"
        )
    requests = 0

    def count(_done: int, _runs: int, so_far: int) -> None:
        nonlocal requests
        requests = so_far

    try:
        known = _cells_of(work)
        if not known.are_same(cells):
            return Answer(worker, [], 0.0, 0, known.traces)
        start = time.perf_counter()
        made = known.run(cells, threads=work.threads, progress=count)
    except _native.InputError as error:
        # Names of files are those from where it runs.
        raise _native.InputError(f"worker {worker}, in {os.getcwd()}: {error}") from None
    return Answer(worker, made, time.perf_counter() - start, requests, None)
