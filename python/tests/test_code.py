"""A policy in Python is known to a sweep by its code: a changed one has cells of its own."""

import importlib
import sys
import threading

import ioweir
import pytest
from conftest import SMALL
from ioweir._code import code_of

POLICY = '''
"""A module of policies."""
import numpy
import {helpers}

FACTOR = {factor}

def weigh(value):
    {comment}
    return value * FACTOR

class Mine:
    limit = {limit}

    def __init__(self, scale={scale}):
        self.scale = scale

    def cost(self, now, head, queue):
        sector = numpy.asarray(queue.sector, dtype=float)
        return weigh(numpy.abs(sector - head)) {sign} self.scale * self.limit + {helpers}.bias()
'''
PLAIN = {"factor": 1.0, "limit": 2, "scale": 3, "sign": "+", "comment": "pass", "bias": 0}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes the class anew, as a file says it; what it imports lies beside it."""
    monkeypatch.syspath_prepend(tmp_path)
    number = iter(range(1000))

    def make(**changed):
        values = {**PLAIN, **changed, "helpers": f"helpers_{tmp_path.name}"}
        name = f"policies_{tmp_path.name}_{next(number)}"
        (tmp_path / f"{values['helpers']}.py").write_text(f"def bias():\n    return {values['bias']}\n")
        (tmp_path / f"{name}.py").write_text(POLICY.format(**values))
        sys.modules.pop(values["helpers"], None)
        importlib.invalidate_caches()
        return importlib.import_module(name).Mine

    return make


def test_the_same_code_is_the_same_wherever_it_stands(made):
    assert code_of(made()) == code_of(made()) == code_of(made(comment="# A comment.\n\n    pass"))


@pytest.mark.parametrize(
    "changed",
    [{"factor": 2.0}, {"limit": 3}, {"scale": 4}, {"sign": "-"}, {"comment": "value = -value"}, {"bias": 1}],
    ids=lambda changed: next(iter(changed)),
)
def test_a_change_of_what_a_policy_does_is_another_code(made, changed):
    assert code_of(made()) != code_of(made(**changed))


def test_closures_bases_and_forms_count():
    def make(value, base=object):
        class Mine(base):
            def choose(self, now, queue):
                return value

        return Mine

    assert code_of(make(0)) == code_of(make(0)) != code_of(make(1))
    other = type("Other", (), {"poll": lambda self: 1})
    assert code_of(make(0, other)) != code_of(make(0))
    assert code_of(make(0), "cost") != code_of(make(0), "batch")
    assert code_of(make({"a", "b", "c"})) == code_of(make({"c", "b", "a"}))


def test_a_changed_policy_takes_no_part_of_the_one_before(tmp_path):
    def sweep(choice, **out):
        @ioweir.elevator(name="changing")
        class Changing:
            def choose(self, now, queue):
                return choice if len(queue) > choice else 0

        spec = {"comparison": {**SMALL, "schedulers": ["noop", "changing", "sfq+changing"]}, "sweep": {"depth": [1, 4]}}
        return ioweir.sweep(spec, progress=False, **out)

    first = sweep(0, output=tmp_path / "runs")
    made = {part.name for part in (tmp_path / "runs" / "parts").iterdir()}
    assert sweep(0, output=tmp_path / "runs").status() == first.status()
    with pytest.raises(ioweir.InputError, match="another sweep"):
        sweep(1, output=tmp_path / "runs")
    sweep(1, output=tmp_path / "others")
    others = {part.name for part in (tmp_path / "others" / "parts").iterdir()}
    # The cells of noop alone are the same.
    assert len(made) == len(others) == 6 and len(made & others) == 2


def test_a_policy_whose_code_no_hash_covers_is_compared_but_not_swept(tmp_path):
    lock = threading.Lock()

    @ioweir.elevator
    class Locked:
        def choose(self, now, queue):
            with lock:
                return 0

    assert ioweir.compare({**SMALL, "schedulers": [Locked]}).headline
    with pytest.raises(ioweir.InputError, match="policy `locked`: it uses a lock"):
        ioweir.sweep({"comparison": {**SMALL, "schedulers": [Locked]}}, output=tmp_path / "runs", progress=False)
