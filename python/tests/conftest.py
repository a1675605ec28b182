"""What the tests share: the repository's files, and the command line of the package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Names of files in specs are relative to the repository."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def command_line():
    """Runs `python -m ioweir` with these arguments, and returns its standard output."""

    def run(*arguments, code=0):
        ran = subprocess.run(
            [sys.executable, "-m", "ioweir", *arguments], cwd=ROOT, capture_output=True, text=True, env={**os.environ}
        )
        assert code is None or ran.returncode == code, ran.stderr
        return ran.stdout

    return run


#: A comparison that takes some milliseconds.
SMALL = {"traces": ["mix:grep"], "schedulers": ["noop", "mq-deadline"], "loads": ["x50"]}

#: An experiment that takes some milliseconds.
TENANTS = """
duration = "200ms"
warm_up = "0s"
interval = "50ms"
schedulers = ["fifo", "sfq"]
depth = 1

[device.tiered]
capacity = "1TB"
placement = { hit_ratio = 1.0 }
fast = { read = "constant 1ms" }
slow = { read = "constant 1ms" }

[[class]]
name = "a"
backlog = 4

[[class]]
name = "b"
backlog = 16
"""
