"""What Python may put into a spec beside text and numbers: policies as classes, traces as Arrow data."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _native, _policies

_folder: str | None = None
_numbers = itertools.count()


def _is_arrow(value: Any) -> bool:
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")


def write(data: Any, file: str | os.PathLike[str]) -> int:
    """Writes Arrow data as a trace that every verb reads, and returns the number of requests.

    The data is a table, a batch, or an iterator of them, in the order of time. Its columns are ``time_nanos``,
    ``offset_bytes``, ``length_bytes``, ``operation`` (a name such as ``read``, or its number), and where wanted ``flags``,
    ``stream``, ``volume`` (names or numbers), ``latency_nanos`` and ``priority``.
    """
    writer = _native.TraceWriter(file)
    for part in [data] if _is_arrow(data) else data:
        writer.write(part)
    return writer.finish()


def _new_folder() -> str:
    """A folder that is removed when the process ends."""
    global _folder
    if _folder is None:
        _folder = tempfile.mkdtemp(prefix="ioweir-")
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    folder = os.path.join(_folder, str(next(_numbers)))
    os.mkdir(folder)
    return folder


def _kept(name: str, data: Any) -> str:
    """Keeps Arrow data as a trace while the process lives, and returns its file."""
    file = os.path.join(_new_folder(), f"{name}.parquet")
    write(data, file)
    return file


def prepared(value: Any, name: str = "arrow") -> Any:
    """The value with policies by their names, and Arrow data by the file that it was written to."""
    policy = _policies.name_of(value)
    if policy is not None:
        return policy
    if _is_arrow(value) or isinstance(value, Iterator):
        return _kept(name, value)
    if isinstance(value, Mapping):
        return {key: prepared(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [prepared(inner, name) for inner in value]
    return value


# Names of flags of the command line, each with the key of a spec that it sets.
_FLAGS = {"scheduler": "schedulers", "load": "loads", "devices": "device", "depths": "depth"}
# Keys that hold lists, which a flag takes as text with commas.
_LISTS = ("trace", "traces", "schedulers", "loads", "device")


def keys(given: dict[str, Any]) -> dict[str, Any]:
    """The keys of a spec. Traces may be one, a list of them, or a dict with a name for each; ``None`` is a key that is absent."""
    ready = {key: prepared(value) for key, value in given.items() if value is not None}
    if isinstance(ready.get("traces"), dict):
        ready["traces"] = list(ready["traces"].values())
    for plural in _LISTS:
        value = ready.get(plural)
        if isinstance(value, str) and "," in value and "trace" not in plural:
            ready[plural] = value.split(",")
        elif isinstance(value, (str, os.PathLike)) and plural != "device":
            ready[plural] = [value]
    return ready


def flags(given: dict[str, Any]) -> dict[str, Any]:
    """The keys of a spec, of which some may have the names that the command line has for them."""
    for flag in _FLAGS.keys() & given.keys():
        if _FLAGS[flag] in given:
            raise _native.InputError(f"{flag} and {_FLAGS[flag]} are the same key\n  expected: one of them")
    return keys({_FLAGS.get(key, key): value for key, value in given.items()})


def of_one_device(given: dict[str, Any]) -> dict[str, Any]:
    """The keys of a spec whose device is one, by name, and whose seeds are several."""
    apart = {key: value for key, value in given.items() if key in ("device", "seeds") and value is not None}
    ready = flags({key: value for key, value in given.items() if key not in ("device", "seeds")})
    return {**ready, **{key: value if key == "seeds" else os.fspath(value) for key, value in apart.items()}}


def split(first: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """The spec and the traces among positional arguments: a dict, TOML text or a file ``*.toml`` is a spec, all else is a trace."""
    spec, traces = None, []
    for value in first:
        text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
        if not (isinstance(value, Mapping) or text.endswith(".toml") or "\n" in text or " = " in text):
            traces.append(value)
        elif spec is None:
            spec = value
        else:
            raise _native.InputError("two specs\n  expected: one, beside traces")
    return spec, traces


def _kept_table(name: str, data: Any) -> str:
    """Keeps Arrow data as a table of rates while the process lives, and returns its file."""
    file = os.path.join(_new_folder(), f"{name}.csv")
    _native.write_csv(data, file)
    return file


def series(given: dict[str, Any]) -> dict[str, Any]:
    """The keys of a forecast or a plan. Series may be Arrow data: a column of times, and one for each series."""
    ready = dict(given)
    for key in ("series", "replay"):
        value = ready.get(key)
        if _is_arrow(value):
            ready[key] = _kept_table(key, value)
        elif isinstance(value, (list, tuple)):
            ready[key] = [_kept_table(key, one) if _is_arrow(one) else one for one in value]
    return ready


def spec(given: Any, ready: Callable[[dict[str, Any]], dict[str, Any]] = keys) -> Any:
    """A spec, with what its dict may hold made ready."""
    return ready(dict(given)) if isinstance(given, Mapping) else given
