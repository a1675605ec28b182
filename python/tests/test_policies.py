"""A policy in Python decides under the contract of every policy, in each of its three forms."""

import ioweir
import numpy
import pytest
from conftest import SMALL, TENANTS

KEYS = {**SMALL, "merge": False}


@ioweir.elevator
class FirstEvents:
    """First come, first served, event by event."""

    def __init__(self, limits):
        assert limits["depth"] >= 1
        self.queue = []

    def submit(self, now, request):
        self.queue.append(request)

    def poll(self, now):
        return self.queue.pop(0) if self.queue else None


@ioweir.elevator
class FirstBatch:
    """First come, first served, from the whole queue."""

    def choose(self, now, queue):
        return 0


@ioweir.elevator
class FirstCost:
    """First come, first served, by the time of arrival."""

    def cost(self, now, head, queue):
        return numpy.arange(len(queue), dtype=float)


@ioweir.elevator(name="sweep-up")
class Upwards:
    """C-LOOK by columns: upwards from the head, then from the lowest."""

    def cost(self, now, head, queue):
        sector = numpy.asarray(queue.sector, dtype=numpy.float64)
        return numpy.where(sector >= head, sector - head, sector - head + 2.0**62)


def runs(result):
    columns = ["completion_seconds", "latency_mean_seconds", "latency_p99_seconds", "seeks"]
    return {row["scheduler"]: [row[column] for column in columns] for row in result.to_arrow().to_pylist()}


def test_first_come_first_served_is_noop_in_every_form():
    mine = ["first-events", "first-batch", FirstCost]
    found = runs(ioweir.compare({**KEYS, "schedulers": ["noop", *mine]}))
    assert found["first-events"] == found["first-batch"] == found["first-cost"] == found["noop"]


def test_a_python_elevator_runs_below_our_orders():
    found = runs(ioweir.compare({**KEYS, "schedulers": ["sfq+noop", "sfq+first-events", "sfq+first-batch:window=16"]}))
    assert found["sfq+first-events"] == found["sfq+noop"] == found["sfq+first-batch"]


def test_an_elevator_by_cost_sweeps():
    found = runs(ioweir.compare({**KEYS, "schedulers": ["noop", "clook", "sweep-up"]}))
    assert found["sweep-up"][0] < found["noop"][0]
    assert found["sweep-up"][3] <= found["clook"][3] * 1.01


@ioweir.order
class OldestFirst:
    """The tenant whose first request is the oldest."""

    def __init__(self):
        self.seen = {}

    def share(self, now, tenant, share):
        self.seen[tenant] = share["weight"]

    def poll(self, now, waiting):
        return min(waiting, key=lambda tenant: waiting[tenant][2])


def test_an_order_of_tenants_that_is_fifo_is_fifo():
    for below in ("", "+noop", "+first-batch"):
        found = ioweir.simulate(TENANTS, schedulers=[f"fifo{below}", f"oldest-first{below}"]).to_arrow().to_pylist()
        assert len(found) == 4
        skip = {"scheduler"}
        halves = [[{k: v for k, v in row.items() if k not in skip} for row in part] for part in (found[:2], found[2:])]
        assert halves[0] == halves[1]


def test_a_wait_is_kept_until_its_time():
    @ioweir.elevator
    class Patient:
        """Waits a millisecond before each dispatch."""

        def __init__(self):
            self.queue, self.due = [], None

        def submit(self, now, request):
            self.queue.append(request)

        def poll(self, now):
            if self.due is None:
                self.due = now + 1_000_000
            if now < self.due:
                return ioweir.Wait(self.due)
            self.due = None
            return self.queue.pop(0)

    found = ioweir.simulate(TENANTS, schedulers=["noop", Patient], requests=True)
    waits = found.requests.to_pandas()
    patient = waits[waits["scheduler"] == "patient"]
    assert len(patient) > 50 and (patient["wait_anticipating_nanos"] >= 1_000_000).all()


class Broken(Exception):
    pass


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (lambda self: (_ for _ in ()).throw(Broken("mine")), Broken, "mine"),
        (lambda self: 77_777, ioweir.InputError, "poll answers 77777, which is no queued request"),
        (lambda self: "x", ioweir.InputError, "the id of a request, Wait or None is expected"),
        (lambda self: ioweir.Wait(0), ioweir.InputError, "a time to come is expected"),
        (lambda self: None, ioweir.InputError, "requests are left"),
    ],
)
def test_what_a_policy_does_wrong_ends_the_run_and_is_raised(answer, error, said):
    kind = type("Wrong", (), {"submit": lambda self, now, request: None, "poll": lambda self, now: answer(self)})
    with pytest.raises(error, match=said):
        ioweir.compare({**KEYS, "schedulers": ["noop", kind]})


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("choose", lambda self, now, queue: 10**6, "a place in the queue"),
        ("choose", lambda self, now, queue: [0, 0], "each place once is expected"),
        ("cost", lambda self, now, head, queue: [], "one for each of"),
        ("cost", lambda self, now, head, queue: [float("nan")] * len(queue), "no number"),
    ],
)
def test_what_a_batch_answers_wrong_is_said(method, answer, said):
    with pytest.raises(ioweir.InputError, match=said):
        ioweir.compare({**KEYS, "schedulers": [type("Wrong", (), {method: answer})]})


def test_a_class_that_is_no_policy_and_a_name_that_is_taken_are_refused():
    with pytest.raises(ioweir.InputError, match="is no elevator"):
        ioweir.elevator(type("Nothing", (), {}))
    with pytest.raises(ioweir.InputError, match="is built in"):
        ioweir.elevator(name="noop")(type("Mine", (), {"choose": lambda self, now, queue: 0}))
    with pytest.raises(ioweir.InputError, match="is no order"):
        ioweir.order(type("Nothing", (), {}))
