"""Sweeps on executors: groups of cells are handed out, and the parts that come back are kept."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import itertools
import os
import queue
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any

from . import _native, _worker
from ._progress import Progress
from ._worker import Answer, Cell

Run = Callable[[list[Cell]], Answer]

#: How long a group is to take: handing it out takes some milliseconds.
_GROUP_SECONDS = 1.0
_GROUP_CELLS_MAX = 256
#: Groups that all workers together may end in a second; Dask and the caller managed about 70 on two busy processors.
_GROUPS_A_SECOND_MAX = 50
#: Groups of each worker: one runs, and another waits there.
_AHEAD = 2
#: How often a group is handed out whose answer was lost; Dask itself repeats what a worker did not finish.
_ATTEMPTS_MAX = 5
#: How often the number of workers is asked for, which may change.
_COUNT_SECONDS = 5.0
_LOST = (concurrent.futures.CancelledError, asyncio.CancelledError)


def _is_dask(executor: Any) -> bool:
    return type(executor).__module__.partition(".")[0] == "distributed"


@contextlib.contextmanager
def client(cluster: Any) -> Iterator[Any]:
    """The Dask client for a client, an address, or True for workers on this machine."""
    distributed: Any
    try:
        import distributed
    except ImportError:
        raise _native.InputError("cluster: Dask is not there\n\nhint: pip install 'ioweir[cluster]'") from None
    if isinstance(cluster, distributed.Client):
        yield cluster
    elif cluster is True:
        with (
            distributed.LocalCluster(threads_per_worker=1, n_workers=os.cpu_count(), dashboard_address=":0") as local,
            distributed.Client(local, set_as_default=False) as made,
        ):
            yield made
    elif isinstance(cluster, str):
        with distributed.Client(cluster, set_as_default=False) as made:
            yield made
    else:
        raise _native.InputError(
            f"cluster: is {cluster!r}\n  expected: a distributed.Client, the address of a scheduler, or True for workers here"
        )


def _check(executor: Any) -> None:
    if not (hasattr(executor, "submit") or hasattr(executor, "map")):
        raise _native.InputError(f"executor: is {executor!r}\n  expected: an object with submit or map")
    context = getattr(executor, "_mp_context", None) or getattr(executor, "_ctx", None)
    if context is not None and context.get_start_method() == "fork":
        raise _native.InputError(
            "executor: its processes are forked from this one, whose threads they would wait for\n"
            "  expected: a pool that starts processes of its own\n\n"
            'hint: ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
        )


def _workers(executor: Any) -> int:
    """How many groups can run at the same time."""
    if _is_dask(executor):
        with contextlib.suppress(Exception):  # A scheduler that is away for a while.
            return max(1, int(sum(executor.nthreads().values())))
        return 1
    count = getattr(executor, "_max_workers", None) or getattr(executor, "_processes", None)
    return int(count or os.cpu_count() or 1)


def _version() -> tuple[str, str]:
    return _native.__version__, _native.__commit__


class _Sizes:
    """How many cells make a group: as many as take long enough, and few enough that all workers end together."""

    def __init__(self) -> None:
        self._cell_seconds: float | None = None

    def learn(self, answer: Answer) -> None:
        seconds = answer.seconds / max(1, len(answer.made))
        known = self._cell_seconds
        self._cell_seconds = seconds if known is None else (known + seconds) / 2

    def next(self, left: int, workers: int) -> int:
        if self._cell_seconds is None:
            return 1
        seconds = max(_GROUP_SECONDS, workers / _GROUPS_A_SECOND_MAX)
        enough = int(seconds / max(self._cell_seconds, 1e-9))
        return max(1, min(enough, left // (_AHEAD * workers), _GROUP_CELLS_MAX))


def _answer(future: Any, cells: list[Cell]) -> Answer | None:
    """What became of a group, or None where nobody knows."""
    try:
        return future.result()  # type: ignore[no-any-return]
    except _LOST:
        return None
    except (_native.InputError, _native.RunError, KeyboardInterrupt):
        raise
    except Exception as error:
        names = ", ".join(name for _, _, name in cells[:3]) + (", ..." if len(cells) > 3 else "")
        raise _native.RunError(
            f"the executor did not finish cells {names}: {type(error).__name__}: {error}\n\n"
            "hint: what has a part is kept; run the sweep again to go on"
        ) from error


def _submitted(executor: Any, run: Run, missing: list[Cell]) -> Generator[Answer, None, None]:
    """Hands out groups one by one, a few ahead of the workers, in the order of the cells."""
    # A task of Dask is what its arguments are, unless it is told that it is not.
    submit = functools.partial(executor.submit, run, **({"pure": False} if _is_dask(executor) else {}))
    left, again = deque(missing), deque[tuple[list[Cell], int]]()
    running: dict[int, tuple[Any, list[Cell], int]] = {}
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    numbers, sizes = itertools.count(), _Sizes()
    workers, counted = _workers(executor), time.monotonic()
    try:
        while left or again or running:
            while (left or again) and len(running) < _AHEAD * workers:
                if again:
                    cells, attempts = again.popleft()
                else:
                    cells, attempts = [left.popleft() for _ in range(min(len(left), sizes.next(len(left), workers)))], 0
                number, future = next(numbers), submit(cells)
                running[number] = (future, cells, attempts + 1)
                future.add_done_callback(lambda _future, number=number: ended.put(number))
            future, cells, attempts = running.pop(ended.get())
            answer = _answer(future, cells)
            if answer is not None:
                sizes.learn(answer)
                yield answer
            elif attempts < _ATTEMPTS_MAX:
                again.append((cells, attempts))
            else:
                raise _native.RunError(f"the executor lost a group of cells {attempts} times, the first {cells[0][2]}")
            if time.monotonic() - counted > _COUNT_SECONDS:
                workers, counted = _workers(executor), time.monotonic()
    finally:
        for future, _, _ in running.values():
            future.cancel()


def _mapped(executor: Any, run: Run, missing: list[Cell]) -> Generator[Answer, None, None]:
    """Hands out all groups at once."""
    size = max(1, min(_GROUP_CELLS_MAX, len(missing) // (8 * _workers(executor))))
    groups = [missing[start : start + size] for start in range(0, len(missing), size)]
    # A pool of multiprocessing answers `map` when it has all.
    yield from getattr(executor, "imap_unordered", executor.map)(run, groups)


def _differs(plan: _native.SweepPlan, answer: Answer) -> _native.InputError:
    theirs = answer.traces or {}
    other = [name for name, files in plan.traces.items() if theirs.get(name, files) != files]
    what = f"trace {other[0]} has" if other else "a file that the spec names, of a device or a format, or a policy in Python has"
    return _native.InputError(
        f"{what} other content on worker {answer.worker}\n  expected: the content that it has here, {os.getcwd()}"
    )


def run(
    plan: _native.SweepPlan,
    folder: _native.SweepFolder,
    executor: Any,
    *,
    shard: str | None,
    threads: int | None,
    progress: Progress | None,
) -> list[tuple[str, str]]:
    """Runs the missing cells on an executor, and returns those that failed, in order."""
    _check(executor)
    total, missing = folder.missing(shard)
    done, requests = total - len(missing), 0
    failed: list[tuple[str, str]] = []
    work = _worker.Work(_version(), uuid.uuid4().hex, plan.spec, threads or 1)
    hand_out = _submitted if hasattr(executor, "submit") else _mapped
    with contextlib.closing(hand_out(executor, functools.partial(_worker.run, work), missing)) as answers:
        for answer in answers:
            if answer.traces is not None:
                raise _differs(plan, answer)
            folder.take(answer.made)
            failed += [(name, part) for name, part in answer.made if isinstance(part, str)]
            done, requests = done + len(answer.made), requests + answer.requests
            if progress is not None:
                progress(done, total, requests)
    return sorted(failed)
