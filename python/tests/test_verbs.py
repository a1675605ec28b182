"""Every verb gives the command line's numbers, and refuses what it refuses, with the same words."""

import inspect
import tomllib
from datetime import UTC, datetime, timedelta

import ioweir
import polars
import pytest
from conftest import ROOT, SMALL, TENANTS


def test_compare_gives_the_command_lines_bytes(command_line):
    flags = ["mix:grep", "--scheduler", "noop,mq-deadline", "--load", "x50"]
    result = ioweir.compare(**SMALL)
    assert result.json() == command_line("compare", *flags, "--json", "-")
    assert result.text() == command_line("compare", *flags)


def test_a_trace_in_the_repository_gives_the_command_lines_bytes(command_line):
    trace = "traces/fio/mix.iolog.gz"
    result = ioweir.compare(traces=trace, device=["hdd", "ssd-970pro"], loads="closed:4", schedulers="none,bfq".split(","))
    flags = [trace, "--device", "hdd,ssd-970pro", "--load", "closed:4", "--scheduler", "none,bfq"]
    assert result.json() == command_line("compare", *flags, "--json", "-")


def test_compare_takes_traces_and_flags_as_the_command_line(command_line):
    trace = "traces/fio/mix.iolog.gz"
    result = ioweir.compare(trace, device="hdd,ssd-970pro", load="closed:4", scheduler="none,bfq")
    flags = [trace, "--device", "hdd,ssd-970pro", "--load", "closed:4", "--scheduler", "none,bfq"]
    assert result.json() == command_line("compare", *flags, "--json", "-")
    again = ioweir.compare('schedulers = ["none"]\n', trace, loads="closed:4", schedulers=["none", "bfq"], device="hdd,ssd-970pro")
    assert again.json() == result.json()


def test_compare_refuses_what_is_said_twice():
    for keys in ({"scheduler": "none", "schedulers": "bfq"}, {"traces": "mix:sort"}):
        with pytest.raises(ioweir.InputError, match="expected: one of them"):
            ioweir.compare("mix:grep", **keys)


def test_typed_keys_of_compare_are_those_of_a_comparison():
    keys = {
        "device": "hdd", "schedulers": "noop", "loads": "x50", "depth": "device", "seeds": 0, "goal": "mean", "of": "all",
        "fast_device": "ssd-slc", "queue_requests": 64, "request_bytes_max": "256KiB", "merge": True, "fold": True,
        "spread": False, "by_stream": False, "event": "queue", "lenient": False, "alone": False,
    }  # fmt: skip
    assert ioweir.compare("mix:grep", **keys).headline
    typed = inspect.signature(ioweir.compare).parameters
    own = {"spec_or_traces", "requests", "reference", "progress", "keys"}
    assert set(typed) - own == set(keys) | {"traces", "format", "volume"}


def test_read_takes_columns(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("0.5;R;4096;8192\n0.6;W;0;4096\n")
    trace = ioweir.read(mine, columns="time:s,op,offset:bytes,size:bytes")
    assert trace.to_polars()["length_bytes"].to_list() == [8192, 4096]


def test_advise_gives_the_command_lines_bytes(command_line):
    trace = "traces/fio/mix.iolog.gz"
    result = ioweir.advise(traces=[trace], device="hdd", goal="mean", budget=30, rounds=5, recorded_under="none")
    flags = [trace, "--device", "hdd", "--goal", "mean", "--budget", "30", "--rounds", "5", "--recorded-under", "none"]
    assert result.json() == command_line("advise", *flags, "--json", "-")
    assert result.text() == command_line("advise", *flags)
    rows = result.to_arrow().to_pylist()
    assert rows[0]["verdict"] == "leave-it"


def test_calibrate_gives_the_command_lines_bytes(command_line, tmp_path):
    trace = [f"traces/oltp/oltp.blktrace.{part}.gz" for part in (0, 1)]
    ours, theirs = tmp_path / "ours.toml", tmp_path / "theirs.toml"
    with pytest.raises(ioweir.RunError, match="outside the family"):
        ioweir.calibrate(trace=trace, kind="flash", generations=1, searches=1, output=ours)
    assert not ours.exists()
    result = ioweir.calibrate(trace=trace, kind="flash", generations=1, searches=1, output=ours, force=True)
    flags = ["--kind", "flash", "--generations", "1", "--searches", "1"]
    assert result.json() == command_line("calibrate", *trace, *flags, "--json", "-")
    assert result.text() == command_line("calibrate", *trace, *flags, "--force", "-o", str(theirs))
    assert ours.read_text() == theirs.read_text()
    assert tomllib.loads(ours.read_text())["calibration"]["source"] == "trace"
    with pytest.raises(ioweir.InputError, match="no kind of device is named"):
        ioweir.calibrate(trace=trace)


def test_simulate_gives_the_command_lines_bytes(command_line):
    result = ioweir.simulate("examples/reservations.toml")
    assert result.json() == command_line("simulate", "examples/reservations.toml", "--json", "-")


def test_explain_gives_the_command_lines_bytes(command_line):
    told = ioweir.explain("examples/reservations.toml")
    assert told == command_line("simulate", "examples/reservations.toml", "--explain", "all")


def test_simulate_with_flags_gives_the_command_lines_bytes(command_line):
    result = ioweir.simulate("examples/reservations.toml", schedulers=["mclock", "reward"], seeds=[3])
    flags = ["--scheduler", "mclock,reward", "--seeds", "3"]
    assert result.json() == command_line("simulate", "examples/reservations.toml", *flags, "--json", "-")


@pytest.mark.parametrize(
    ("keys", "flags"),
    [
        ({"horizon": "2h"}, ["--horizon", "2h"]),
        ({"backtest": 2, "method": ["naive-week", "mstl"]}, ["--backtest", "2", "--method", "naive-week,mstl"]),
    ],
)
def test_forecast_gives_the_command_lines_bytes(command_line, keys, flags):
    result = ioweir.forecast(series="vdi:1", bin="1h", **keys)
    assert result.json() == command_line("forecast", "vdi:1", "--bin", "1h", *flags, "--json", "-")


def test_plan_gives_the_command_lines_bytes(command_line):
    series, policy = "examples/vdi/load.csv", "examples/vdi/policy.toml"
    result = ioweir.plan(series=series, policy=policy)
    assert result.json() == command_line("plan", series, "--policy", policy, "--json", "-")
    with open(policy, "rb") as file:
        assert ioweir.plan(series=series, policy=tomllib.load(file)).csv() == result.csv()


def test_a_data_frame_is_a_series():
    start = datetime(2026, 1, 5, tzinfo=UTC)
    times = [start + timedelta(hours=hour) for hour in range(24 * 21)]
    frame = polars.DataFrame({"time": times, "load": [100.0 + 50 * (time.hour > 8) for time in times]})
    result = ioweir.forecast(series=frame, method="naive-day", horizon="24h", quantile=[0.5])
    rows = result.to_arrow().to_pylist()
    assert len(rows) == 24


def test_text_path_and_dict_are_one_spec(tmp_path):
    text = 'traces = ["mix:grep"]\nschedulers = ["noop", "mq-deadline"]\nloads = ["x50"]\n'
    file = tmp_path / "night.toml"
    file.write_text(text)
    results = [ioweir.compare(spec).json() for spec in (text, file, str(file), SMALL)]
    results.append(ioweir.compare({**SMALL, "loads": ["recorded"]}, loads=["x50"]).json())
    assert len(set(results)) == 1


def test_an_error_of_a_spec_has_its_place_and_what_was_expected(tmp_path):
    file = tmp_path / "night.toml"
    file.write_text('traces = ["mix:grep"]\nschedulers = ["nop"]\n')
    with pytest.raises(ioweir.InputError) as raised:
        ioweir.compare(file)
    message = str(raised.value)
    assert f"{file}:2:" in message and "expected: one of" in message and "did you mean `noop`?" in message
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"traces": ["mix:grep"], "depht": 3}, "depht"),
        ({"traces": ["no-such-file"]}, "no-such-file"),
        ({"traces": ["mix:grep"], "depth": 2**70}, "depth"),
        ({"traces": ["mix:grep"], "depth": object()}, "a spec cannot hold a object"),
        ({"traces": []}, "no trace is named"),
    ],
)
def test_what_is_wrong_with_keys_is_said(keys, said):
    with pytest.raises((ioweir.InputError, TypeError), match=said):
        ioweir.compare(**keys)


def test_expectations_that_are_not_met_are_noticed():
    expect = TENANTS + '\n[[expect]]\nclass = "a"\nmetric = "iops"\nat_least = 100000\n'
    assert ioweir.simulate(expect).notices[0].startswith("not met")
    assert not ioweir.simulate(TENANTS).notices


def test_python_m_ioweir_is_the_command_line(command_line):
    assert command_line("--version").startswith(f"ioweir {ioweir.__version__}")
    command_line("compare", "no-such-file", code=2)


def test_the_version_is_the_commands():
    meta = ioweir.compare(**SMALL).data["meta"]
    assert (meta["version"], meta["commit"]) == (ioweir.__version__, ioweir.__commit__)


def test_every_form_is_written(tmp_path):
    result = ioweir.compare(**SMALL)
    for suffix in ("html", "md", "csv", "parquet", "json", "txt"):
        result.save(tmp_path / f"report.{suffix}")
        assert (tmp_path / f"report.{suffix}").stat().st_size > 100
    with pytest.raises(ioweir.InputError, match="names no form"):
        result.save(tmp_path / "report.xyz")
    assert result._repr_html_().startswith("<iframe")
    # The scheduler, by which the text begins: its first lines say which, by how much and why.
    assert result.headline.startswith("mq-deadline finishes first") and "which  mq-deadline" in str(result)


def test_types_and_stubs_agree(command_line):
    from mypy import stubtest

    allowed = ROOT / "python" / "tests" / "stubtest-allowed.txt"
    options = ["ioweir._native", "--ignore-missing-stub", "--allowlist", str(allowed), "--ignore-unused-allowlist"]
    assert stubtest.test_stubs(stubtest.parse_options(options)) == 0


def test_scorecard_gives_the_command_lines_bytes(command_line):
    result = ioweir.scorecard("tiny", schedulers="mq-deadline,sfq", span="2s", seeds=1)
    flags = ["tiny", "--scheduler", "mq-deadline,sfq", "--for", "2s", "--seeds", "1"]
    assert result.json() == command_line("advise", "scorecard", *flags, "--json", "-")


def test_qos_refuses_what_the_command_line_refuses():
    with pytest.raises(ioweir.InputError, match="p99"):
        ioweir.qos("ssd-slc")
    with pytest.raises(ioweir.InputError, match="expected: 300ms to 1h"):
        ioweir.qos("ssd-slc", p99="20ms", span="200ms", seeds=[1])


def test_validate_gives_the_command_lines_bytes(command_line):
    named = ioweir.validate("ssd-slc", "traces/oltp/oltp", fold=True)
    opened = ioweir.validate("ssd-slc", ioweir.read("traces/oltp"), fold=True)
    flags = ["ssd-slc", "--fold", *(f"--validate={file}" for file in ioweir.read("traces/oltp").files)]
    assert named.json() == opened.json() == command_line("calibrate", *flags, "--json", "-", code=None)


def test_a_series_stands_first_as_on_the_command_line(command_line):
    table = "examples/vdi/load.csv"
    result = ioweir.forecast(table, column="read", method="naive-week")
    assert result.json() == command_line("forecast", table, "--column", "read", "--method", "naive-week", "--json", "-")
    planned = ioweir.plan(table, policy="examples/vdi/policy.toml")
    assert planned.json() == ioweir.plan(series=table, policy="examples/vdi/policy.toml").json()
    with pytest.raises(ioweir.InputError, match="expected: one of them"):
        ioweir.forecast(table, series=table)


def test_a_folder_holds_the_files_of_one_trace():
    assert [file.name for file in ioweir.read("traces/oltp").files] == ["oltp.blktrace.0.gz", "oltp.blktrace.1.gz"]
    with pytest.raises(ioweir.InputError, match="expected: the files of one trace"):
        ioweir.read("traces/hadoop/hdd-emul")
