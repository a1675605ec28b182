"""Sweeps: every combination of values of a spec's keys, in a folder of parts."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from . import _executors, _inputs, _native
from ._progress import Progress, shown
from ._verbs import Spec


#: Failed cells are reported by name up to this number, as in process.
_REPORTED_MAX = 10


class Sweep:
    """A folder that holds a sweep, finished or not."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        #: Cells that failed in the last run, each with its error; the first in order.
        self.failed: list[tuple[str, str]] = []

    def status(self) -> dict[str, int]:
        """How many cells there are, and how many are done, missing, failed, and not counted."""
        return _native.sweep_status(self.folder)

    def result(
        self, *, partial: bool = False, metric: str | None = None, goal: str | None = None, of: str | None = None
    ) -> _native.Result:
        """The parts as one result: a row for each cell and class. With ``partial``, although cells are missing.

        A column ``metric`` or a ``goal`` decides which choice is best, and ``of`` names the class of an experiment that counts.
        """
        return _native.merge_sweep(self.folder, partial=partial, metric=metric, goal=goal, of=of)

    def __repr__(self) -> str:
        return f"<sweep in {self.folder}: {self.status()}>"


def sweep(
    spec: Spec,
    /,
    *,
    output: str | os.PathLike[str] | None = None,
    shard: str | None = None,
    threads: int | None = None,
    executor: Any = None,
    cluster: Any = None,
    progress: Progress | bool | None = None,
    **keys: Any,
) -> Sweep:
    """Runs the cells of a sweep that are not done yet, and returns it.

    ``output`` is the folder, by default the spec's name. What has a part there is not run again, so a sweep that was stopped
    goes on where it was. ``shard`` is ``"I/N"`` for part I of N.

    With ``executor``, an object with ``submit`` or ``map``, the cells run in its workers, each group on ``threads``, one
    by default, and the parts are written here. A pool of processes must start them anew (``spawn``). ``cluster`` is a
    ``distributed.Client``, the address of Dask's scheduler, or True for workers on this machine. Workers need the same
    version of ioweir, and the traces under the same names with the same content.
    """
    if executor is not None and cluster is not None:
        raise _native.InputError("there are an executor and a cluster\n  expected: one of the two")
    if "out" in keys:
        raise _native.InputError("there is no key out\n  expected: output, the folder")
    plan = _native.SweepPlan(_inputs.spec(spec), keys=_inputs.keys(keys))
    swept = Sweep(output if output is not None else plan.folder)
    folder = plan.create(swept.folder)
    with shown(progress) as told, contextlib.ExitStack() as stack:
        if cluster is not None:
            executor = stack.enter_context(_executors.client(cluster))
        if executor is None:
            swept.failed = folder.run(shard=shard, threads=threads, progress=told)
        else:
            failed = _executors.run(plan, folder, executor, shard=shard, threads=threads, progress=told)
            swept.failed = failed[:_REPORTED_MAX]
    return swept
