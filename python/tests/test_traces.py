"""Traces come out as Arrow, and any Arrow data with a trace's columns is one."""

import ioweir
import pandas
import polars
import pyarrow
import pytest
from conftest import ROOT

FIO = "traces/fio/mix.iolog.gz"
KEYS = {"schedulers": ["noop", "bfq"], "loads": ["recorded"]}


def numbers(result):
    table = result.to_arrow()
    return table.drop_columns(["trace"]).to_pydict()


def test_a_trace_that_went_through_arrow_gives_the_same_results():
    trace = ioweir.read(FIO)
    direct = numbers(ioweir.compare(traces=FIO, **KEYS))
    frames = [trace, pyarrow.table(trace), trace.to_polars(), trace.to_pandas()]
    for frame in frames:
        data = pyarrow.Table.from_pandas(frame) if isinstance(frame, pandas.DataFrame) else frame
        assert numbers(ioweir.compare(traces={"mix": data}, **KEYS)) == direct


def test_a_python_iterator_of_batches_is_a_workload():
    batches = (batch for batch in pyarrow.table(ioweir.read(FIO)).to_batches(max_chunksize=1000))
    assert numbers(ioweir.compare(traces=batches, **KEYS)) == numbers(ioweir.compare(traces=FIO, **KEYS))


def test_names_of_operations_and_streams_are_taken():
    frame = polars.DataFrame(
        {
            "time_nanos": [0, 1_000_000, 2_000_000],
            "offset_bytes": [0, 4096, 1 << 20],
            "length_bytes": [4096, 4096, 8192],
            "operation": ["read", "write", "read"],
            "stream": ["db", "backup", "db"],
        }
    )
    result = ioweir.compare(traces={"tiny": frame}, schedulers="noop", by_stream=True)
    row = result.to_arrow().to_pylist()[0]
    assert row["trace"].endswith("/tiny.parquet")
    assert (row["requests"], row["read_requests"]) == (3, 2)


def test_a_class_of_an_experiment_replays_arrow_data():
    spec = {
        "duration": "1s",
        "schedulers": ["sfq"],
        "device": "hdd",
        "class": [{"name": "replay", "trace": ioweir.read(FIO)}],
    }
    assert ioweir.simulate(spec).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop("operation"), "column operation is missing"),
        (lambda frame: frame.with_columns(operation=polars.lit("dance")), "row 0: operation is unknown"),
        (lambda frame: frame.with_columns(time_nanos=polars.Series([2, 1])), "row 1: time_nanos is before"),
        (lambda frame: frame.with_columns(length_bytes=polars.Series([4096, None])), "row 1: length_bytes is null"),
        (lambda frame: frame.with_columns(offset_bytes=polars.Series([-1, 0])), "not negative"),
        (lambda frame: frame.with_columns(flags=polars.lit(200)), "row 0: flags are unknown"),
    ],
)
def test_what_is_wrong_with_rows_is_said(change, said, tmp_path):
    frame = polars.DataFrame(
        {"time_nanos": [0, 1], "offset_bytes": [0, 0], "length_bytes": [512, 512], "operation": ["read", "read"]}
    )
    assert ioweir.write(frame, tmp_path / "good.parquet") == 2
    with pytest.raises(ioweir.InputError, match=said):
        ioweir.write(change(frame), tmp_path / "bad.parquet")


def test_names_and_format_of_a_trace():
    trace = ioweir.read(ROOT / FIO)
    assert trace.format.startswith("fio") and trace.names()["streams"]
    with pytest.raises(ioweir.InputError, match="no-such-file"):
        ioweir.read("no-such-file")
