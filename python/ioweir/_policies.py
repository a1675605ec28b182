"""Policies written in Python, under the names by which every verb knows them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from . import _code, _native

Class = TypeVar("Class", bound=type)


def _name_of(kind: type) -> str:
    """The name of a class as names of schedulers are written: NearestFirst is nearest-first."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()


def _maker(kind: type) -> Callable[[Any], Any]:
    """Makes instances, with what is known about the run where the class asks for it."""
    parameters = inspect.signature(kind).parameters.values()
    asks = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    return (lambda about: kind(about)) if asks else (lambda _about: kind())


def _summary(kind: type) -> str:
    return (inspect.getdoc(kind) or kind.__name__).splitlines()[0]


def elevator(name: Class | str | None = None, *, merges: bool = False) -> Any:
    """Makes a class known as an elevator: it decides which request the device gets next.

    The class has the methods of one of three forms, and may ask for the limits of the queue (a dict) when it is made.

    - ``submit(now, request)``, ``poll(now)``, and, where wanted, ``complete(now, request)``, ``merged(now, request)`` and
      ``remove(now, request)``. ``poll`` answers a request or its ``id``, ``ioweir.Wait(until)``, or None to wait until
      something happens. For ideas: every event is a call.
    - ``choose(now, queue)`` is handed the queue as columns when a decision is due, and answers one place in it, or several,
      which are served in that order before it is asked again.
    - ``cost(now, head, queue)`` answers a cost for each request; the lowest goes next. ``head`` is the sector after the last
      dispatch.

    Times are nanoseconds of simulated time. Adjacent requests are merged only if ``merges`` is set. An exception ends the
    run and is raised.

    >>> import ioweir
    >>> @ioweir.elevator
    ... class NearestFirst:
    ...     def cost(self, now, head, queue):
    ...         return [abs(sector - head) for sector in queue.sector]
    >>> result = ioweir.compare(traces=["mix:grep"], schedulers=["noop", NearestFirst], loads=["x50"])
    >>> [run["scheduler"] for run in result.data["results"]]
    ['noop', 'nearest-first']
    """

    def register(kind: Class) -> Class:
        known = _name_of(kind) if name is None or isinstance(name, type) else name
        forms = {"poll": "events", "choose": "batch", "cost": "cost"}
        has = [form for method, form in forms.items() if hasattr(kind, method)]
        if len(has) != 1 or (has == ["events"] and not hasattr(kind, "submit")):
            raise _native.InputError(
                f"{kind.__name__} is no elevator\n  expected: submit and poll, or choose, or cost, and none of the others"
            )
        code = functools.partial(_code.code_of, kind, has[0], str(merges))
        _native.register_elevator(known, _summary(kind), _maker(kind), has[0], merges, code)
        kind._ioweir_name = known  # type: ignore[attr-defined]
        return kind

    return register(name) if isinstance(name, type) else register


def order(name: Class | str | None = None) -> Any:
    """Makes a class known as an order of tenants: it decides whose request goes next.

    ``poll(now, waiting)`` answers one of the tenants in the dict ``waiting``, which has for each that may be served what its
    first request costs, when it arrived, and its number in the order of submission. ``served(now, tenant, cost)``,
    ``idle(tenant)`` and ``share(now, tenant, share)`` are called where the class has them; ``share`` is a dict. Limits,
    groups and the cost of a request work as for every order of tenants, and so do pairs: ``"mine+mq-deadline"``.
    """

    def register(kind: Class) -> Class:
        known = _name_of(kind) if name is None or isinstance(name, type) else name
        if not hasattr(kind, "poll"):
            raise _native.InputError(f"{kind.__name__} is no order of tenants\n  expected: poll(now, waiting)")
        _native.register_order(known, _summary(kind), _maker(kind), functools.partial(_code.code_of, kind, "order"))
        kind._ioweir_name = known  # type: ignore[attr-defined]
        return kind

    return register(name) if isinstance(name, type) else register


def name_of(value: Any) -> str | None:
    """The name of a class that was made known here, which may be an elevator without having been asked to be one."""
    if not isinstance(value, type):
        return None
    if "_ioweir_name" not in value.__dict__:
        elevator(value)
    return str(value._ioweir_name)  # type: ignore[attr-defined]
