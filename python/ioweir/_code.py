"""The code of a policy as a hash, by which a sweep tells a policy from another of the same name.

It covers the bytecode of the class and of its bases, values of class attributes, of defaults and of closures, and what its
functions find under global names: functions and classes in the same way, modules of the user's by their files, and what is
installed by its version. Comments, positions and the names of files make no difference.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

from . import _native

#: Where what is installed lies.
_INSTALLED = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def _file_of(module: types.ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) else None


def _is_installed(name: str) -> bool:
    """Whether a module came with Python or was installed, so that its version says what it does."""
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return False
    file = _file_of(module)
    # A module without a file is part of the interpreter, unless somebody made it by hand.
    return name in sys.builtin_module_names or (file is not None and file.startswith(_INSTALLED))


def _version_of(name: str) -> str:
    top = name.partition(".")[0]
    return f"{name} {getattr(sys.modules.get(top), '__version__', '')}"


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


class _Hash:
    def __init__(self, seen: dict[int, int], kept: list[Any]) -> None:
        self._hash = hashlib.sha256()
        #: Objects by identity, and their numbers: one that comes again is its number.
        self._seen = seen
        #: Keeps them alive, so that no identity comes twice.
        self._kept = kept

    def digest(self) -> bytes:
        return self._hash.digest()

    def put(self, kind: str, *pieces: bytes | str) -> None:
        for piece in (kind, *pieces):
            data = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
            self._hash.update(len(data).to_bytes(8, "little"))
            self._hash.update(data)

    def add(self, value: Any) -> None:
        """Adds any value."""
        if value is None or value is Ellipsis or value is NotImplemented or type(value) in (bool, int, float, complex):
            return self.put(type(value).__name__, repr(value))
        if type(value) in (str, bytes):
            return self.put(type(value).__name__, value)
        if id(value) in self._seen:
            return self.put("again", str(self._seen[id(value)]))
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if type(value) in (tuple, list):
            self.put(type(value).__name__, str(len(value)))
            for item in value:
                self.add(item)
        elif type(value) in (set, frozenset):
            self.put(type(value).__name__, *sorted(self._alone(item) for item in value))
        elif type(value) is dict:
            self.put("dict", str(len(value)))
            for key, item in value.items():
                self.add(key)
                self.add(item)
        elif isinstance(value, types.CodeType):
            self._add_code(value)
        elif isinstance(value, types.ModuleType):
            self._add_module(value)
        else:
            self._add_object(value)

    def _alone(self, value: Any) -> bytes:
        """The hash of a value by itself, for values that have no order."""
        other = _Hash(dict(self._seen), self._kept)
        other.add(value)
        return other.digest()

    def _add_code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.put("code", code.co_code, code.co_exceptiontable)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        for part in (counts, *names, code.co_consts):
            self.put("part", str(len(part)))
            for item in part:
                self.add(item)

    def _add_module(self, module: types.ModuleType) -> None:
        file = _file_of(module)
        if _is_installed(module.__name__) or file is None:
            return self.put("module", _version_of(module.__name__))
        path = pathlib.Path(file)
        # A package is all of its files.
        files = sorted(path.parent.rglob("*.py")) if hasattr(module, "__path__") else [path]
        self.put("files", module.__name__, *(hashlib.sha256(one.read_bytes()).digest() for one in files))

    def _add_object(self, value: Any) -> None:
        owner = getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", None)
        if isinstance(owner, str) and isinstance(name, str) and _is_installed(owner):
            return self.put("installed", _version_of(owner), name)
        if isinstance(value, types.FunctionType):
            return self._add_function(value)
        if isinstance(value, type):
            return self._add_class(value)
        if isinstance(value, (staticmethod, classmethod)):
            self.put(type(value).__name__)
            return self.add(value.__func__)
        if isinstance(value, property):
            self.put("property")
            return self.add((value.fget, value.fset, value.fdel))
        if isinstance(value, (functools.partial, functools.partialmethod)):
            self.put("partial")
            return self.add((value.func, value.args, value.keywords))
        if isinstance(value, types.MethodType):
            self.put("method")
            return self.add((value.__func__, value.__self__))
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            raise _native.InputError(f"it uses a {type(value).__name__}, which no hash covers: {error}") from None
        self.put("object")
        self.add(type(value))
        if isinstance(reduced, str):
            return self.put("named", reduced)
        # Items of lists and dicts come as iterators.
        make, arguments, state, items, pairs, *_ = (*reduced, None, None, None)
        self.add((make, arguments, state, items and list(items), pairs and list(pairs)))

    def _add_function(self, function: types.FunctionType) -> None:
        self.put("function")
        self.add((function.__code__, function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # It is filled later.
                self.put("empty")
            else:
                self.add(value)
        names = {name for code in _codes(function.__code__) for name in code.co_names}
        for name in sorted(names & function.__globals__.keys()):
            self.put("global", name)
            self.add(function.__globals__[name])

    def _add_class(self, kind: type) -> None:
        self.put("class", kind.__name__)
        for base in kind.__bases__:
            self.add(base)
        self.add(type(kind))
        for name, value in sorted(vars(kind).items()):
            # Of the names with a meaning of their own only methods matter.
            is_special = name.startswith("__") and name.endswith("__")
            if name != "_ioweir_name" and (not is_special or isinstance(value, (types.FunctionType, classmethod))):
                self.put("attribute", name)
                self.add(value)


def code_of(kind: type, *forms: str) -> str:
    """The hash of a class that is used as a policy in these forms."""
    hash = _Hash({}, [])
    hash.put("policy", sys.implementation.cache_tag or "", *forms)
    try:
        hash.add(kind)
    except RecursionError:
        raise _native.InputError("it uses values within values without end") from None
    return hash.digest().hex()
