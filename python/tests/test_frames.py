"""Results, tables, requests and traces are Arrow data for every library."""

import duckdb
import ioweir
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import ROOT, SMALL, TENANTS

TAKE = {
    "pandas": lambda data: pandas.DataFrame.from_arrow(data).to_dict("list"),
    "polars": lambda data: polars.DataFrame(data).to_dict(as_series=False),
    "pyarrow": lambda data: pyarrow.table(data).to_pydict(),
    "duckdb": lambda data: duckdb.from_arrow(pyarrow.RecordBatchReader.from_stream(data)).to_arrow_table().to_pydict(),
}


@pytest.fixture(scope="module")
def compared():
    return ioweir.compare(**SMALL, requests=True)


@pytest.mark.parametrize("library", TAKE)
def test_records_are_the_rows_of_the_csv(compared, library):
    rows = TAKE[library](compared)
    text = pandas.read_csv(pandas.io.common.StringIO(compared.csv()))
    assert list(rows) == list(text.columns)
    assert rows["scheduler"] == ["noop", "mq-deadline"]
    assert rows["completion_seconds"] == text["completion_seconds"].tolist()


@pytest.mark.parametrize("library", TAKE)
def test_tables_of_the_report_are_taken(compared, library):
    assert compared.tables
    for table in compared.tables:
        rows = TAKE[library](table)
        assert all(len(column) == len(table) for column in rows.values())


@pytest.mark.parametrize("library", TAKE)
def test_waits_of_each_request_add_up(compared, library):
    rows = TAKE[library](compared.requests)
    waits = [name for name in rows if name.startswith("wait_")]
    assert len(rows["run"]) == len(compared.requests) == 2 * 8823 and len(waits) == 7
    for at in range(0, len(rows["run"]), 97):
        waited = sum(int(rows[name][at]) for name in waits)
        assert int(rows["time_nanos"][at]) + waited == int(rows["dispatched_nanos"][at])


def test_requests_are_those_of_the_command_lines_file(compared, command_line, tmp_path):
    file = tmp_path / "requests.parquet"
    command_line("compare", "mix:grep", "--scheduler", "noop,mq-deadline", "--load", "x50", "--requests", str(file))
    ours, theirs = pyarrow.table(compared.requests), pyarrow.parquet.read_table(file)
    assert set(ours.column_names) == set(theirs.column_names)
    for name in ours.column_names:
        assert ours[name].to_pylist() == theirs[name].to_pylist(), name


def test_conversions_and_plots(compared):
    result = ioweir.simulate(TENANTS)
    assert len(result.to_pandas()) == len(result.to_polars()) == result.to_arrow().num_rows
    # The unit is at the axis, whichever library draws.
    for metric, title in [
        (None, "completion (s)"),
        ("latency_mean_seconds", "latency mean (s)"),
        ("throughput_bytes_per_second", "throughput (MB/s)"),
        ("busy_share", "busy (%)"),
    ]:
        chart = compared.plot(metric).to_dict()
        assert (chart["mark"]["type"], chart["encoding"]["y"]["title"]) == ("bar", title)
        assert compared.plot(metric, library="matplotlib").axes[0].get_ylabel() == title
    with pytest.raises(KeyError, match="the columns are"):
        compared.plot("no_such_column")
    with pytest.raises(ValueError, match="different units"):
        compared.plot(["latency_mean_seconds", "busy_share"])


def test_a_plot_keeps_devices_and_classes_apart():
    result = ioweir.simulate(TENANTS)
    assert result.plot("latency_mean_seconds").to_dict()["encoding"]["y"]["title"] == "latency mean (ms)"
    tenants = result.plot("iops").to_dict()
    assert tenants["encoding"]["y"]["title"] == "requests (per second)"
    assert len({row["series"] for row in tenants["data"]["values"]}) == 2


def test_a_forecast_is_lines_over_time():
    coming = ioweir.forecast(series=ROOT / "examples/vdi/load.csv", column="read", method="naive-week")
    chart = coming.plot().to_dict()
    assert chart["mark"]["type"] == "line" and chart["encoding"]["x"]["type"] == "temporal"
    assert {row["series"] for row in chart["data"]["values"]} == {"p50", "p95"}
