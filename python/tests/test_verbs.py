"""Every verb gives the command line's numbers, and refuses what it refuses, with the same words."""

import json

import ioweir
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


def test_simulate_gives_the_command_lines_bytes(command_line):
    result = ioweir.simulate("examples/reservations.toml")
    assert result.json() == command_line("simulate", "examples/reservations.toml", "--json", "-")


def test_explain_gives_the_command_lines_bytes(command_line):
    told = ioweir.explain("examples/reservations.toml")
    assert told == command_line("explain", "examples/reservations.toml")


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
    report = json.loads(ioweir.compare(**SMALL).json())
    meta = report["meta"] if isinstance(report, dict) else report[0]["meta"]
    assert (meta["version"], meta["commit"]) == (ioweir.__version__, ioweir.__commit__)


def test_every_form_is_written(tmp_path):
    result = ioweir.compare(**SMALL)
    for suffix in ("html", "md", "csv", "parquet", "json", "txt"):
        result.save(tmp_path / f"report.{suffix}")
        assert (tmp_path / f"report.{suffix}").stat().st_size > 100
    with pytest.raises(ioweir.InputError, match="names no form"):
        result.save(tmp_path / "report.xyz")
    assert result._repr_html_().startswith("<iframe")
    assert result.headline in str(result)


def test_types_and_stubs_agree(command_line):
    from mypy import stubtest

    allowed = ROOT / "python" / "tests" / "stubtest-allowed.txt"
    options = ["ioweir._native", "--ignore-missing-stub", "--allowlist", str(allowed), "--ignore-unused-allowlist"]
    assert stubtest.test_stubs(stubtest.parse_options(options)) == 0
