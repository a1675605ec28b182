"""Results, tables, requests and traces are Arrow data for every library."""

import duckdb
import ioweir
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import SMALL, TENANTS

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


def test_conversions_and_plots():
    result = ioweir.simulate(TENANTS)
    assert len(result.to_pandas()) == len(result.to_polars()) == result.to_arrow().num_rows
    compared = ioweir.compare(**SMALL)
    assert compared.plot("latency_mean_seconds").to_dict()["mark"]["type"] == "bar"
    assert compared.plot("latency_mean_seconds", library="matplotlib").axes
    with pytest.raises(KeyError, match="the columns are"):
        compared.plot("no_such_column")
