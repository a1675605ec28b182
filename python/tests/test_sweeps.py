"""A sweep from Python is the command line's: the same cells, the same parts, the same table."""

import ioweir
import pytest
from conftest import SMALL

SWEEP = {"comparison": SMALL, "sweep": {"seeds": [1, 2], "depth": [1, 4]}}


def test_a_sweep_is_resumed_and_merged_as_by_the_command_line(tmp_path, command_line):
    out = tmp_path / "runs"
    swept = ioweir.sweep(SWEEP, output=out, shard="1/2", progress=False)
    assert swept.status() == {"cells": 8, "done": 4, "missing": 4, "failed": 0, "uncounted": 0}
    with pytest.raises(ioweir.InputError, match="missing"):
        swept.result()
    assert swept.result(partial=True).to_arrow().num_rows == 4
    swept = ioweir.sweep(SWEEP, output=out, progress=False)
    assert swept.status()["done"] == 8 and not swept.failed
    assert swept.result().json() == command_line("sweep", "merge", str(out), "--json", "-")


def test_the_folder_does_not_depend_on_threads(tmp_path):
    one = ioweir.sweep(SWEEP, output=tmp_path / "one", threads=1, progress=False)
    two = ioweir.sweep(SWEEP, output=tmp_path / "two", threads=2, progress=False)
    parts = [sorted((tmp_path / name / "parts").iterdir()) for name in ("one", "two")]
    assert [part.name for part in parts[0]] == [part.name for part in parts[1]]
    assert [part.read_bytes() for part in parts[0]] == [part.read_bytes() for part in parts[1]]
    assert one.result().csv() == two.result().csv()
