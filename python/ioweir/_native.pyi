"""The native half of the package."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, final

__version__: str
__commit__: str

_Path = str | PathLike[str]
_Spec = _Path | dict[str, Any]
_Cell = tuple[int, int, str]
_Traces = dict[str, list[tuple[str, str]]]
_Progress = Callable[[int, int, int], Any]

class InputError(ValueError):
    """A spec, a trace or a policy is wrong: what, where, and what was expected."""

class RunError(RuntimeError):
    """Something failed while running."""

class _Rows:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def to_arrow(self) -> Any: ...

@final
class Result(_Rows):
    """The result of a run. As Arrow it is its records: one row for each result."""

    @property
    def title(self) -> str: ...
    @property
    def headline(self) -> str: ...
    @property
    def notices(self) -> list[str]: ...
    @property
    def tables(self) -> list[Table]: ...
    @property
    def requests(self) -> Requests | None: ...
    @property
    def data(self) -> Any: ...
    def json(self) -> str: ...
    def html(self) -> str: ...
    def markdown(self) -> str: ...
    def csv(self) -> str: ...
    def text(self) -> str: ...
    def save(self, path: _Path) -> None: ...
    def plot(
        self, metric: str | Sequence[str] | None = None, *, by: str | None = None, library: str = "altair"
    ) -> Any: ...
    def _repr_html_(self) -> str: ...

@final
class Table(_Rows):
    """A table of a report."""

    @property
    def title(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...

@final
class Requests(_Rows):
    """Requests of the runs, one row each."""

    def __len__(self) -> int: ...

@final
class Trace(_Rows):
    """A trace that is read again for each consumer."""

    @property
    def format(self) -> str: ...
    @property
    def files(self) -> list[Path]: ...
    def names(self) -> dict[str, list[str]]: ...

@final
class TraceWriter:
    def __new__(cls, file: _Path) -> TraceWriter: ...
    def write(self, data: object) -> None: ...
    def finish(self) -> int: ...

@final
class Request:
    """A request as a policy sees it."""

    @property
    def id(self) -> int: ...
    @property
    def sector(self) -> int: ...
    @property
    def sectors(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def arrived(self) -> int: ...
    @property
    def operation(self) -> str: ...
    @property
    def is_write(self) -> bool: ...

@final
class Wait:
    """An answer of `poll` to wait although requests are queued."""

    def __new__(cls, until: int) -> Wait: ...
    @property
    def until(self) -> int: ...

@final
class Queue:
    """The queued requests as columns, in the order of arrival."""

    @property
    def sector(self) -> memoryview: ...
    @property
    def sectors(self) -> memoryview: ...
    @property
    def stream(self) -> memoryview: ...
    @property
    def arrived(self) -> memoryview: ...
    @property
    def is_write(self) -> memoryview: ...
    def __len__(self) -> int: ...

@final
class SweepPlan:
    """A sweep with every cell resolved and named."""

    def __new__(cls, spec: _Spec, /, *, keys: dict[str, Any] | None = None) -> SweepPlan: ...
    @property
    def folder(self) -> str: ...
    @property
    def notices(self) -> list[str]: ...
    @property
    def spec(self) -> str: ...
    @property
    def traces(self) -> _Traces: ...
    def __len__(self) -> int: ...
    def create(self, folder: _Path) -> SweepFolder: ...

@final
class SweepFolder:
    """The folder of a sweep that is run."""

    def run(
        self, *, shard: str | None = None, threads: int | None = None, progress: _Progress | None = None
    ) -> list[tuple[str, str]]: ...
    def missing(self, shard: str | None = None) -> tuple[int, list[_Cell]]: ...
    def take(self, made: list[tuple[str, bytes | str]]) -> None: ...

@final
class SweepCells:
    """The cells of a sweep on the machine that runs some of them, made from the spec of a plan."""

    def __new__(cls, spec: str) -> SweepCells: ...
    @property
    def traces(self) -> _Traces: ...
    def are_same(self, cells: list[_Cell]) -> bool: ...
    def run(
        self, cells: list[_Cell], /, *, threads: int | None = None, progress: _Progress | None = None
    ) -> list[tuple[str, bytes | str]]: ...

def advise(
    spec: _Spec | None = None,
    /,
    *,
    progress: _Progress | None = None,
    keys: dict[str, Any] | None = None,
) -> Result: ...
def scorecard(
    spec: _Spec | None = None,
    /,
    *,
    progress: _Progress | None = None,
    keys: dict[str, Any] | None = None,
) -> Result: ...
def qos(
    spec: _Spec | None = None,
    /,
    *,
    progress: _Progress | None = None,
    keys: dict[str, Any] | None = None,
) -> Result: ...
def validate(device: str, trace: Trace, /, *, fold: bool = False) -> Result: ...
def calibrate(
    spec: _Spec | None = None,
    /,
    *,
    progress: _Progress | None = None,
    keys: dict[str, Any] | None = None,
) -> tuple[Result, str, bool]: ...
def compare(
    spec: _Spec | None = None,
    /,
    *,
    requests: bool = False,
    progress: _Progress | None = None,
    reference: str | None = None,
    keys: dict[str, Any] | None = None,
) -> Result: ...
def simulate(
    spec: _Spec,
    /,
    *,
    requests: bool = False,
    progress: _Progress | None = None,
    keys: dict[str, Any] | None = None,
) -> Result: ...
def forecast(
    spec: _Spec | None = None,
    /,
    *,
    progress: _Progress | None = None,
    keys: dict[str, Any] | None = None,
) -> Result: ...
def plan(
    spec: _Spec | None = None,
    /,
    *,
    progress: _Progress | None = None,
    keys: dict[str, Any] | None = None,
) -> Result: ...
def write_csv(data: object, file: _Path) -> None: ...
def explain(
    spec: _Spec,
    /,
    *,
    slowest: str | None = None,
    request: int | None = None,
    keys: dict[str, Any] | None = None,
) -> str: ...
def read(
    files: list[_Path],
    /,
    *,
    format: str | None = None,
    volume: str | None = None,
    event: str | None = None,
    lenient: bool = False,
) -> Trace: ...
def register_elevator(
    name: str, summary: str, make: Callable[[Any], Any], form: str, merges: bool, code: Callable[[], str]
) -> None: ...
def register_order(name: str, summary: str, make: Callable[[Any], Any], code: Callable[[], str]) -> None: ...
def sweep_status(folder: _Path) -> dict[str, int]: ...
def merge_sweep(
    folder: _Path,
    /,
    *,
    partial: bool = False,
    metric: str | None = None,
    goal: str | None = None,
    of: str | None = None,
) -> Result: ...
def main(arguments: list[str]) -> int: ...
