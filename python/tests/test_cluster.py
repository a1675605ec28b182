"""A sweep whose cells run in other processes has the bytes of one in this process, whatever happens to the workers."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import ioweir
import pytest
from ioweir import _executors, _native

distributed = pytest.importorskip("distributed")

SWEEP = """
[experiment]
duration = "2s"
warm_up = "0s"
interval = "1s"
schedulers = ["fifo", "sfq"]
seeds = [1, 2, 3]

[experiment.device.null]
capacity = "1GiB"
service = "1ms"

[[experiment.class]]
name = "a"
backlog = 3

[[experiment.class]]
name = "b"
rate = "100/s"

[sweep]
depth = [1, 4, 8, 16]
"class.b.rate" = { from = "100/s", to = "400/s", factor = 2 }
"""
CELLS = 2 * 3 * 4 * 3
START_SECONDS = 60


def parts(folder):
    return {part.name: part.read_bytes() for part in (folder / "parts").iterdir()}


@pytest.fixture(scope="module")
def in_process(tmp_path_factory):
    """The parts of the sweep when it runs here."""
    folder = tmp_path_factory.mktemp("here") / "runs"
    ioweir.sweep(SWEEP, output=folder, progress=False)
    made = parts(folder)
    assert len(made) == CELLS
    return made


@pytest.fixture(scope="module")
def client():
    """Dask with two worker processes of one thread."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=START_SECONDS)
        yield client


@pytest.fixture
def started():
    """Starts processes in folders; what still runs at the end is killed."""
    processes = []

    def start(*arguments, folder="."):
        command = [sys.executable, "-m", *arguments]
        processes.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(started):
    """The address of a scheduler of Dask, and a function that starts it, again where it was killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def start():
        return started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")

    return f"tcp://127.0.0.1:{port}", start


@pytest.fixture
def worker(started):
    """Starts a worker of Dask in a folder."""

    def start(address, folder="."):
        options = ["--no-nanny", "--no-dashboard", "--nthreads", "1", "--host", "127.0.0.1"]
        return started("distributed.cli.dask_worker", address, *options, folder=folder)

    return start


def spawned():
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def loky():
    return pytest.importorskip("joblib").externals.loky.ProcessPoolExecutor(2)


def mapping():
    return multiprocessing.get_context("spawn").Pool(2)


@pytest.mark.parametrize("pool", [lambda: ThreadPoolExecutor(2), spawned, loky, mapping], ids=["threads", "spawn", "loky", "map"])
def test_the_parts_do_not_depend_on_the_executor(tmp_path, in_process, pool):
    told = []
    with pool() as executor:
        swept = ioweir.sweep(SWEEP, output=tmp_path / "runs", executor=executor, progress=lambda *now: told.append(now))
    assert parts(tmp_path / "runs") == in_process and not swept.failed
    done, cells, requests = told[-1]
    assert done == cells == CELLS and requests > 0


def test_the_parts_do_not_depend_on_dask(tmp_path, in_process, client):
    ioweir.sweep(SWEEP, output=tmp_path / "client", cluster=client, progress=False)
    assert parts(tmp_path / "client") == in_process
    ioweir.sweep(SWEEP, output=tmp_path / "address", cluster=client.scheduler.address, shard="1/2", progress=False)
    assert parts(tmp_path / "address").items() < in_process.items()
    ioweir.sweep(SWEEP, output=tmp_path / "address", executor=client, progress=False)
    assert parts(tmp_path / "address") == in_process


def test_dask_starts_on_this_machine_where_it_is_asked_to(tmp_path, in_process):
    ioweir.sweep(SWEEP, output=tmp_path / "runs", cluster=True, progress=False)
    assert parts(tmp_path / "runs") == in_process


def test_what_cannot_run_cells_is_refused(tmp_path, monkeypatch):
    def error(**given):
        with pytest.raises(ioweir.InputError) as raised:
            ioweir.sweep(SWEEP, output=tmp_path / "runs", progress=False, **given)
        return str(raised.value)

    assert "expected: one of the two" in error(executor=ThreadPoolExecutor(1), cluster=True)
    assert "submit or map" in error(executor=3)
    assert "expected: a distributed.Client" in error(cluster=3)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as forking:
        assert "spawn" in error(executor=forking)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install 'ioweir[cluster]'" in error(cluster=True)


def test_cells_that_fail_are_recorded_as_in_this_process(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text(f"time_s,pid,comm,op,lba,sectors\n0.1,1,w,R,0,8\n0.2,1,w,R,{(400 << 30) // 512},8\n")
    spec = {"traces": [trace], "schedulers": ["noop", "clook"], "device": ["ssd-970pro", "hdd"]}
    here = ioweir.sweep(spec, output=tmp_path / "here", progress=False)
    with ThreadPoolExecutor(1) as executor:
        there = ioweir.sweep(spec, output=tmp_path / "there", executor=executor, progress=False)
    assert len(here.failed) == 2 and there.failed == here.failed and "t.csv" in here.failed[0][1]
    assert parts(tmp_path / "there") == parts(tmp_path / "here")


def test_a_stop_cancels_what_waits_and_the_next_call_goes_on(tmp_path, in_process):
    class Kept(ThreadPoolExecutor):
        def submit(self, *work):
            futures.append(super().submit(*work))
            return futures[-1]

    def stop(done, _cells, _requests):
        if done > 0:
            raise KeyboardInterrupt

    futures = []
    with Kept(1) as executor:
        with pytest.raises(KeyboardInterrupt):
            ioweir.sweep(SWEEP, output=tmp_path / "runs", executor=executor, progress=stop)
        assert len(futures) <= 4, "nothing was handed out after the stop"
    before = parts(tmp_path / "runs")
    assert 0 < len(before) < CELLS and before.items() < in_process.items()
    with ThreadPoolExecutor(1) as executor:
        ioweir.sweep(SWEEP, output=tmp_path / "runs", executor=executor, progress=False)
    assert parts(tmp_path / "runs") == in_process


def test_a_part_that_is_not_of_the_cell_is_refused(tmp_path):
    plan = _native.SweepPlan(SWEEP)
    folder = plan.create(tmp_path / "runs")
    _, ((_, _, one), (_, _, other), *_) = folder.missing()
    cells = _native.SweepCells(plan.spec)
    made = dict(cells.run(folder.missing()[1][:2], threads=1))
    for name, part, problem in [(one, made[other], "is of cell"), (one, made[one][:-9], "damaged"), ("x", b"", "no name")]:
        with pytest.raises(ioweir.InputError, match=problem):
            folder.take([(name, part)])
    assert folder.missing()[0] == len(folder.missing()[1]) == CELLS
    folder.take([(one, made[one])])
    assert len(folder.missing()[1]) == CELLS - 1


def test_a_worker_of_another_version_is_refused(tmp_path, monkeypatch, client):
    monkeypatch.setattr(_executors, "_version", lambda: ("0.0.0", "none"))
    with spawned() as executor:
        for name, given in [("pool", {"executor": executor}), ("dask", {"cluster": client})]:
            with pytest.raises(ioweir.InputError) as raised:
                ioweir.sweep(SWEEP, output=tmp_path / name, progress=False, **given)
            error = str(raised.value)
            assert f"has ioweir {ioweir.__version__} ({ioweir.__commit__}), and this sweep is of 0.0.0 (none)" in error
            assert not parts(tmp_path / name)


def test_the_cells_of_a_worker_that_dies_run_elsewhere(tmp_path, in_process, client):
    pids = list(client.run(os.getpid).values())

    def kill(done, _cells, _requests):
        if done > 0 and pids:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()

    ioweir.sweep(SWEEP, output=tmp_path / "runs", cluster=client, progress=kill)
    assert not pids, "a worker was killed"
    assert parts(tmp_path / "runs") == in_process


def test_a_scheduler_that_is_started_again_costs_no_part(tmp_path, in_process, scheduler, worker):
    address, start = scheduler
    first = start()
    worker(address)
    before = {}

    def restart(done, _cells, _requests):
        if done == 0 or before:
            return
        before.update((part.name, part.stat().st_ino) for part in (tmp_path / "runs" / "parts").iterdir())
        first.kill()
        first.wait()
        start()
        worker(address)

    with distributed.Client(address, timeout=START_SECONDS, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=START_SECONDS)
        ioweir.sweep(SWEEP, output=tmp_path / "runs", cluster=client, progress=restart)
    assert parts(tmp_path / "runs") == in_process
    after = {part.name: part.stat().st_ino for part in (tmp_path / "runs" / "parts").iterdir()}
    assert 0 < len(before) < CELLS and before.items() <= after.items(), "what had a part was not run again"


@pytest.mark.parametrize("content", [None, "0.1,1,w,R,8,8\n"], ids=["missing", "other"])
def test_a_trace_that_a_worker_does_not_see_is_named_with_the_worker(tmp_path, monkeypatch, scheduler, worker, content):
    heading = "time_s,pid,comm,op,lba,sectors\n"
    for name, lines in [("here", "0.1,1,w,R,0,8\n"), ("there", content)]:
        (tmp_path / name).mkdir()
        if lines is not None:
            (tmp_path / name / "t.csv").write_text(heading + lines)
    address, start = scheduler
    start()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("here", "there"):
        worker(address, tmp_path / name)
    spec = {"comparison": {"traces": ["t.csv"], "schedulers": ["noop"]}, "sweep": {"queue_requests": list(range(4, 68))}}
    with distributed.Client(address, timeout=START_SECONDS, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=START_SECONDS)
        blind = next(where for where, folder in client.run(os.getcwd).items() if folder.endswith("there"))
        with pytest.raises(ioweir.InputError) as raised:
            ioweir.sweep(spec, output="runs", cluster=client, progress=False)
    assert blind in str(raised.value) and "t.csv" in str(raised.value)
    assert ("other content" in str(raised.value)) == (content is not None)
