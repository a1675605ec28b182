"""Runs leave the interpreter free, hear Ctrl-C, tell their progress, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading

import ioweir
import pytest
from conftest import SMALL, TENANTS

#: A run of some seconds, which a test ends.
LONG = {"traces": ["mix:terasort"], "schedulers": ["bfq"], "loads": ["recorded"], "seeds": list(range(500))}


class Enough(Exception):
    pass


def test_other_threads_run_while_the_engine_runs():
    counted, seen = [0], []
    done = threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    def progress(finished, runs, requests):
        seen.append(counted[0])
        if len(seen) == 10:
            raise Enough

    thread = threading.Thread(target=count)
    thread.start()
    try:
        with pytest.raises(Enough):
            ioweir.compare(LONG, progress=progress)
    finally:
        done.set()
        thread.join()
    # It counted between all calls, though this thread was in one call all the time.
    assert all(before < after for before, after in zip(seen, seen[1:], strict=False))


def test_ctrl_c_is_heard_at_the_next_tick():
    ticks = []

    def progress(finished, runs, requests):
        ticks.append(requests)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ioweir.compare(LONG, progress=progress)
    # A tick is 50 ms; the signal is heard in the same one or the next.
    assert 1 <= len(ticks) <= 2


@pytest.mark.parametrize("spec", [{"duration": '"1000s"'}])
def test_an_experiment_without_traces_is_stopped_too(spec):
    text = TENANTS.replace('"200ms"', spec["duration"])

    def progress(finished, runs, requests):
        raise Enough

    with pytest.raises(Enough):
        ioweir.simulate(text, progress=progress)


#: A forecast and a plan that take several ticks.
SLOW_FORECAST = {"series": "vdi:1", "bin": "5m", "method": ["hedge", "day-profile"], "backtest": 14}


SLOW_PLAN = {"series": "examples/vdi/load.csv", "policy": "examples/vdi/policy.toml"}


@pytest.mark.parametrize("run", [lambda **to: ioweir.forecast(SLOW_FORECAST, **to), lambda **to: ioweir.plan(SLOW_PLAN, **to)])
def test_forecasts_and_plans_are_stopped_too(run):
    def progress(finished, runs, requests):
        raise Enough

    with pytest.raises(Enough):
        run(progress=progress)

    ticks = []

    def interrupt(finished, runs, requests):
        ticks.append(finished)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(progress=interrupt)
    assert 1 <= len(ticks) <= 2


def test_forecasts_tell_their_progress():
    told = []
    ioweir.forecast({**SLOW_FORECAST, "bin": "1h", "backtest": 3}, progress=lambda *how_far: told.append(how_far))
    assert told[-1][:2] == (6, 6)


def test_progress_ends_with_all_runs_done():
    told = []
    ioweir.compare(SMALL, progress=lambda *how_far: told.append(how_far))
    finished, runs, requests = told[-1]
    assert finished == runs == 2 and requests > 0


def test_a_bar_is_shown_where_it_is_asked_for(capsys):
    ioweir.compare(SMALL, progress=True)
    assert "run" in capsys.readouterr().err
    ioweir.compare(SMALL, progress=False)
    ioweir.compare(SMALL)
    assert not capsys.readouterr().err, "nobody watches"


def test_two_threads_at_once_get_what_one_gets():
    alone = ioweir.compare(**SMALL).json()
    results = [None] * 4

    def run(at):
        results[at] = ioweir.compare(**SMALL).json()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [alone] * 4


#: Runs of an experiment, of a Python policy too: as many as the second argument says after a fourth of them. Prints the bytes that
#: they leave.
RUNS = """
import gc, resource, sys
import ioweir

@ioweir.elevator
class Kept:
    def choose(self, now, queue):
        return 0

def runs(count):
    for number in range(count):
        result = ioweir.simulate(sys.argv[1], schedulers=["fifo", "kept"], requests=number % 2 == 0, progress=False)
        result.__arrow_c_stream__()
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

count = int(sys.argv[2])
before = runs(count // 4)
print(runs(count) - before)
"""


def test_runs_leave_memory_as_it_was():
    spec = TENANTS.replace('"200ms"', '"50ms"')
    count, bytes_max = (8_000, 250) if os.environ.get("IOWEIR_THOROUGH") else (1_200, 1_000)
    command = [sys.executable, "-c", RUNS, spec, str(count)]
    left = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(left) < bytes_max * count, f"{bytes_max} bytes a run"
