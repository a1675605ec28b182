"""Storage I/O scheduling from Python.

>>> import ioweir
>>> result = ioweir.compare(traces=["mix:grep"], schedulers=["none", "bid-hdd"], loads=["x50"])
>>> "bid-hdd" in result.headline
True

A spec is the name of a file, TOML text or a dict; keys given by name take the place of the spec's. Every result is Arrow
data (``pandas.DataFrame.from_arrow(result)``, ``polars.DataFrame(result)``, ``pyarrow.table(result)``), and shows itself
as a page in a notebook. What is wrong with an input is an :class:`InputError`, with its place.
"""

from . import _frames
from ._commands import (
    check,
    doc,
    govern,
    record,
    replay,
    reproduce,
    show,
    targets,
    trace_convert,
    trace_cut,
    trace_generate,
    trace_info,
)
from ._native import (
    InputError,
    Request,
    Requests,
    Result,
    RunError,
    Table,
    Trace,
    Wait,
    __commit__,
    __version__,
)
from ._policies import elevator, order
from ._sweep import Sweep, sweep
from ._verbs import (
    advise,
    calibrate,
    compare,
    explain,
    forecast,
    plan,
    qos,
    read,
    scorecard,
    simulate,
    validate,
    write,
)

__all__ = [
    "InputError",
    "Request",
    "Requests",
    "Result",
    "RunError",
    "Sweep",
    "Table",
    "Trace",
    "Wait",
    "__commit__",
    "__version__",
    "advise",
    "calibrate",
    "check",
    "compare",
    "doc",
    "elevator",
    "explain",
    "forecast",
    "govern",
    "order",
    "plan",
    "qos",
    "read",
    "record",
    "replay",
    "reproduce",
    "scorecard",
    "show",
    "simulate",
    "sweep",
    "targets",
    "trace_convert",
    "trace_cut",
    "trace_generate",
    "trace_info",
    "validate",
    "write",
]

_frames.attach(Result, Table, Requests, Trace)
