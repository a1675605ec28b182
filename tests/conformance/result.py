"""What came out, and on what machine: a table for people, and the same as CSV."""

import csv
import pathlib
import platform
import subprocess
import time
import typing


class Row(typing.NamedTuple):
    """One case."""

    suite: str
    case: str
    device: str
    outcome: str
    seconds: float
    note: str


def output(*command: str) -> str:
    """The first line that a program writes; nothing where it is not there."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError:
        return ""
    return next(iter(done.stdout.splitlines()), "").strip()


def machine() -> str:
    """What it ran on, without saying whose it is."""
    facts = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in facts if line.startswith("model name")]
    kib = next(line.split()[1] for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    system = next(
        (line[13:-1] for line in pathlib.Path("/etc/os-release").read_text().splitlines() if line[:12] == "PRETTY_NAME="),
        "Linux",
    )
    processor = models[0] if models else platform.machine()
    return f"{len(models)} processors ({processor}), {int(kib) / (1 << 20):.0f} GiB, {system}, Linux {platform.release()}"


def versions() -> dict[str, str]:
    """Of the tools that are installed."""
    packages = ["fio", "libnbd-bin", "nbdkit", "qemu-utils"]
    found = {}
    for package in packages:
        version = output("dpkg-query", "-W", "-f", "${Version}", package)
        if version and "no packages found" not in version:
            found[package] = version
    return found


def table(rows: list[list[str]]) -> list[str]:
    head, *rest = rows
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rest]
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *escaped]]


def text(rows: list[Row], about: dict[str, str]) -> str:
    """The page that is committed."""
    counts = {name: sum(row.outcome == name for row in rows) for name in ["pass", "fail", "skip"]}
    lines = ["# Suites of others, run against the block server", ""]
    lines += ["Written by `tests/conformance/run`; the same rows are in `RESULT.csv`.", ""]
    lines += [f"**{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped.**", ""]
    lines += table([["what", "version"], *([key, value] for key, value in about.items())])
    lines.append("")
    cells = [[*row[:4], f"{row.seconds:.1f}", row.note] for row in rows]
    lines += table([["suite", "case", "device", "outcome", "seconds", "note"], *cells])
    return "\n".join(lines) + "\n"


def write(folder: pathlib.Path, rows: list[Row], about: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "RESULT.md").write_text(text(rows, about))
    with (folder / "RESULT.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows([*row[:4], f"{row.seconds:.1f}", row.note] for row in rows)


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
