"""Every JSON output has the keys that its schema says, and no others: `ioweir doc schema NAME` beside what is written."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import jsonschema
import pytest
from conftest import ROOT

TRACE = "traces/fio/mix.iolog.gz"

TENANTS = """
duration = "2s"
warm_up = "0s"
interval = "500ms"
schedulers = ["fifo", "sfq"]
depth = 4
device = "tiered"
seeds = [1, 2]
[[class]]
name = "a"
backlog = 8
hit_ratio = 0.9
[[class]]
name = "b"
rate = "100/s"
hit_ratio = 0.1
[[expect]]
class = "a"
metric = "iops"
ratio_to = "b"
at_least = 1
"""

SERVERS = """
loads = [0.8]
warm_up = 1
measured = 1
search_measured = 1
runs_max = 1
[[server]]
platform = "mid-range"
workload = "spc-1"
schedules = ["baseline"]
"""

SWEEP = """
[experiment]
duration = "1s"
warm_up = "0s"
schedulers = ["fifo"]
depth = 4
device = "tiered"
[[experiment.class]]
name = "a"
backlog = 8
[sweep]
seeds = { from = 1, to = 2, step = 1 }
"""

SERVED = """
[server]
listen = ["unix:{0}/s"]
control = "unix:{0}/c"
[[device]]
name = "disk"
backend = "file"
path = "{0}/disk"
scheduler = "sfq"
[[export]]
name = "gold"
device = "disk"
weight = 300
[[device]]
name = "shelf"
backend = "file"
path = "{0}/shelf"
scheduler = "sfq"
volumes = "{0}/volumes"
[service.nightly]
kind = "scrub"
device = "disk"
weight = 5
"""


def closed(schema):
    """The schema, where a key that it does not name is an error: a key that is added has to be written down."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {key: closed(value) for key, value in schema.items()}
    if "properties" in shut and isinstance(shut.get("required"), list):
        shut.setdefault("additionalProperties", False)
    return shut


@pytest.fixture
def agrees(command_line):
    """Checks text against the schema of a layout."""

    def check(layout, text):
        schema = json.loads(command_line("doc", "schema", layout))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(json.loads(text), closed(schema), jsonschema.Draft202012Validator)

    return check


def test_a_layout_is_refused_what_it_does_not_name(command_line, agrees):
    good = json.loads(command_line("trace", "info", TRACE, "--json", "-"))
    agrees("trace-info", json.dumps([good, good]))
    with_more = {**good, "colour": "red"}
    without = {key: value for key, value in good.items() if key != "requests"}
    for bad in [with_more, without, {**good, "requests": "many"}, {**good, "size": {**good["size"], "more": 1}}, 7]:
        with pytest.raises(jsonschema.ValidationError):
            agrees("trace-info", json.dumps(bad))


@pytest.mark.parametrize(
    ("layout", "arguments"),
    [
        ("compare", ["compare", TRACE, "--load", "closed:4"]),
        ("compare", ["compare", "mix:grep", "--load", "x50", "--device", "tiered,hdd", "--depth", "1,4", "--by", "stream"]),
        ("compare", ["compare", "mix:grep", "--load", "x50", "--device", "ssd-970pro", "--seeds", "1,2", "--scheduler", "none"]),
        ("compare", ["compare", "mix:grep", "--load", "x50", "--device", "tiered", "--scheduler", "bid-hybrid"]),
        ("advise", ["advise", "mix:grep", "--device", "hdd", "--budget", "30", "--rounds", "5", "--scheduler", "none,kyber"]),
        ("scorecard", ["advise", "scorecard", "hdd-15k", "--scheduler", "mq-deadline", "--for", "4s", "--seeds", "1"]),
        ("qos", ["advise", "qos", "hdd-15k", "--p99", "300ms", "--for", "1s", "--seeds", "1"]),
        ("trace-info", ["trace", "info", TRACE]),
        ("trace-info", ["trace", "info", TRACE, "traces/oltp/oltp.blktrace"]),
        ("forecast", ["forecast", "examples/vdi/load.csv", "--method", "naive-week,hedge"]),
        ("forecast-backtest", ["forecast", "examples/vdi/load.csv", "--backtest", "2", "--method", "naive-week"]),
        ("forecast-diagnose", ["forecast", "examples/vdi/load.csv", "--diagnose"]),
        ("plan", ["plan", "examples/vdi/load.csv", "--policy", "examples/vdi/policy.toml"]),
    ],
)
def test_a_verb_writes_what_its_schema_says(layout, arguments, command_line, agrees):
    agrees(layout, command_line(*arguments, "--json", "-"))


def test_a_governor_writes_what_its_schema_says(tmp_path, command_line, agrees):
    # A disk and a program that every machine has.
    disk = pathlib.Path("/proc/diskstats").read_text().split()[2]
    text = (ROOT / "examples/govern/btrfs.toml").read_text().replace('"sda"', f'"{disk}"').replace('["btrfs"', '["true"')
    (tmp_path / "govern.toml").write_text(text)
    agrees("govern", command_line("govern", str(tmp_path / "govern.toml"), "--dry-run", "--json", "-"))


def test_an_experiment_writes_what_its_schema_says(tmp_path, command_line, agrees):
    (tmp_path / "tenants.toml").write_text(TENANTS)
    agrees("simulate", command_line("simulate", str(tmp_path / "tenants.toml"), "--by", "stream", "--json", "-"))
    targets = str(ROOT / "examples/targets.toml")
    agrees("targets", command_line("advise", "targets", targets, "--fast", "100GiB", "--json", "-"))
    box = re.sub(r'duration = "\w+"', 'duration = "10s"', (ROOT / "examples/storage-box.toml").read_text())
    (tmp_path / "box.toml").write_text(re.sub(r'warm_up = "\w+"', 'warm_up = "5s"', box).split("[[expect]]")[0])
    agrees("simulate", command_line("simulate", str(tmp_path / "box.toml"), "--json", "-"))
    (tmp_path / "servers.toml").write_text(SERVERS)
    agrees("simulate-servers", command_line("simulate", str(tmp_path / "servers.toml"), "--json", "-"))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    command_line("sweep", str(tmp_path / "sweep.toml"), "--output", str(tmp_path / "cells"))
    command_line("sweep", "merge", str(tmp_path / "cells"), "--export", str(tmp_path / "sweep.json"))
    agrees("sweep", (tmp_path / "sweep.json").read_text())


def test_what_is_measured_is_written_as_its_schema_says(tmp_path, command_line, agrees):
    lines = [f"{at / 50},{'RRRW'[at % 4]},{at * 977 % 5000 * 8},8,0.00{at % 9 + 1}" for at in range(200)]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(lines) + "\n")
    columns = ["--columns", "time:s,op,sector,sectors,latency:s"]
    agrees("validate", command_line("calibrate", "hdd", "--validate", str(trace), *columns, "--json", "-"))
    calibrated = ["calibrate", str(trace), "--kind", "disk", "--generations", "1", "--searches", "1", "--quiet", "--json", "-"]
    agrees("calibrate", command_line(*calibrated, "--columns", columns[1]))
    (tmp_path / "drives").mkdir()
    agrees("validate-presets", command_line("calibrate", "--validate", str(tmp_path / "drives"), "--json", "-", code=None))
    scratch = ["replay", str(trace), "--scratch", str(tmp_path / "new"), "--size", "32MiB", "--load", "closed:4"]
    agrees("replay", command_line(*scratch, *columns, "--limit", "50", "--json", "-"))


def test_a_reproduction_writes_what_its_schema_says(command_line, agrees):
    agrees("reproduce", command_line("reproduce", "reward", "--quick", "--quiet", "--json", "-", code=None))


def test_a_server_answers_what_its_schemas_say(tmp_path, command_line, agrees):
    spec = tmp_path / "served.toml"
    spec.write_text(SERVED.format(tmp_path))
    for name in ["disk", "shelf"]:
        (tmp_path / name).write_bytes(bytes(1 << 20))
    server = subprocess.Popen([sys.executable, "-m", "ioweir", "serve", str(spec), "--quiet"], env={**os.environ})
    try:
        while not (tmp_path / "c").exists():
            assert server.poll() is None
            time.sleep(0.01)
        command_line("ctl", str(spec), "volume", "add", "shelf", "one", "64KiB")
        for layout, verb in [
            ("ctl-state", ["state"]),
            ("ctl-clients", ["clients"]),
            ("ctl-volumes", ["volume", "list", "shelf"]),
            ("ctl-services", ["service", "list"]),
        ]:
            agrees(layout, command_line("ctl", str(spec), *verb, "--json", "-"))
    finally:
        server.terminate()
        server.wait()
