"""Cases that crates/core/examples/estimator draws and runs, and how far clients' rates in them are from the right ones."""

import json
import math
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = ["cargo", "run", "--release", "--quiet", "--locked", "-p", "ioweir-core", "--example", "estimator", "--"]


def simulate(sets: list[str]) -> dict:
    """The cases of these sets, each with its rates."""
    rows = []
    for name in sets:
        done = subprocess.run([*COMMAND, name], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        rows += [{"set": name, **json.loads(line)} for line in done.stdout.splitlines()]
    return {"cases": rows}


def logs(right: list[float], rates: list[float]) -> list[float]:
    """The ratio of each client's rate to the right one, as a logarithm."""
    return [math.log(max(rate, 1e-9) / goal) for goal, rate in zip(right, rates) if goal > 0]
