"""Verbs that run as the command line does, in a process of its own."""

import inspect
import json

import pytest

import ioweir
from ioweir import _commands

SERVER = """
[server]
listen = ["unix:disk.sock"]
[[device]]
name = "d"
backend = "memory"
size = "1MiB"
scheduler = "sfq"
[[export]]
name = "a"
device = "d"
"""


def test_traces_are_made_converted_cut_and_told_of(tmp_path):
    made = tmp_path / "made.csv"
    assert "1,000 requests" in ioweir.trace_generate("grep", made, requests=1000, seed=7)
    assert "parquet" in ioweir.trace_convert(made, tmp_path / "made.parquet")
    assert "requests" in ioweir.trace_cut(made, tmp_path / "few.csv", from_="0s", to_="1s")
    assert '"requests": 1000' in json.dumps(ioweir.trace_info(made))


def test_trace_replays_on_a_scratch_file(tmp_path):
    trace = tmp_path / "few.csv"
    ioweir.trace_generate("grep", trace, requests=20)
    where = {"scratch": tmp_path / "scratch", "size": "4MiB", "state": tmp_path / "state"}
    replayed = ioweir.replay(trace, **where, fold=True, load="closed:1")
    assert replayed["load"] == "closed:1" and "4 MiB" in replayed["device"]


def test_specs_are_checked_shown_and_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.toml").write_text(SERVER)
    assert "can be served" in ioweir.check("server.toml")
    assert 'scheduler = "sfq"' in ioweir.show("server.toml")
    assert "budget fair queueing" in ioweir.doc("policy", "bfq")


def test_wrong_argument_is_an_input_error(tmp_path):
    with pytest.raises(ioweir.InputError, match="no such file"):
        ioweir.trace_info(tmp_path / "absent")
    with pytest.raises(ioweir.InputError, match="cannot be found|root"):
        ioweir.record(tmp_path / "absent", output=tmp_path / "seen.parquet")


def test_every_parameter_is_typed_and_told_of():
    for name in _commands.__all__:
        function = getattr(ioweir, name)
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, (name, parameter)
            assert f"        {parameter.name}: " in function.__doc__, (name, parameter.name)
