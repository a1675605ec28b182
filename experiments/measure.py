"""What do experiments on real I/O share? Starting a server, driving it with fio, and saying what it was measured with."""

import contextlib
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("IOWEIR", str(ROOT / "target/release/ioweir"))

# A modelled device of milliseconds or less needs its server and its clients to run when it is their turn, whoever else
# uses the machine. They take a small part of it.
SERVER_FIRST = ["chrt", "-r", "2"] if os.geteuid() == 0 else []
CLIENT_FIRST = ["chrt", "-r", "1"] if os.geteuid() == 0 else []


def need(*tools: str) -> None:
    """Ends the script, saying so, where a tool is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} cannot be found", file=sys.stderr)
        sys.exit(0)


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def milliseconds(text: str) -> float:
    """Of a time as ioweir writes it."""
    number, unit = re.fullmatch(r"([\d.]+)(ns|us|ms|s)", text).groups()
    return float(number) * {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def load_average() -> list[float]:
    return [round(load, 2) for load in os.getloadavg()]


def machine() -> str:
    lscpu = dict(line.split(":", 1) for line in output("lscpu").splitlines() if ":" in line)
    return f"{lscpu['Model name'].strip()}, {lscpu['CPU(s)'].strip()} processors, Linux {platform.release()}"


def origin(**versions: str) -> dict:
    """The machine and the versions, for the head of a result."""
    return {
        "machine": machine(),
        "shared": "other work ran on the same processors; competitors were measured in turn, repetition by repetition",
        "versions": {
            "ioweir": output(PROGRAM, "--version"),
            "fio": output("fio", "--version"),
            **versions,
        },
        "load_average_before": load_average(),
    }


def end(process: subprocess.Popen, ask: int = signal.SIGTERM) -> None:
    """Ends a process that was started here."""
    if process.poll() is None:
        process.send_signal(ask)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(path: pathlib.Path, process: subprocess.Popen, what: str) -> None:
    for _ in range(200):
        if path.exists():
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"{what} did not start")


@contextlib.contextmanager
def background(command: list, socket: pathlib.Path, what: str):
    """A process that listens at a socket, for as long as the block lasts."""
    socket.unlink(missing_ok=True)
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    try:
        wait_for(socket, process, what)
        yield process
    finally:
        end(process)
        socket.unlink(missing_ok=True)


@contextlib.contextmanager
def server(folder: pathlib.Path, spec: str, *arguments: str, control: pathlib.Path | None = None):
    """`ioweir serve` of a spec that listens at `folder/server.sock`, which it yields, and at a socket for `ioweir ctl`, if one is given."""
    socket = folder / "server.sock"
    file = folder / "server.toml"
    controlled = f'control = "unix:{control}"\n' if control else ""
    file.write_text(f'[server]\nlisten = ["unix:{socket}"]\n{controlled}{spec}')
    with background([*SERVER_FIRST, PROGRAM, "serve", file, "--quiet", *arguments], socket, "ioweir serve") as process:
        if control:
            wait_for(control, process, "the control of ioweir serve")
        yield socket


def uri(socket: pathlib.Path, export: str) -> str:
    return f"nbd+unix:///{export}?socket={socket}"


def start_fio(folder: pathlib.Path, name: str, jobs: str, form: str = "json") -> tuple[subprocess.Popen, pathlib.Path]:
    """fio on a job file of these lines; its report will be in the path, with every latency counted if its form is `json+`."""
    file, report = folder / f"{name}.fio", folder / f"{name}.json"
    file.write_text(jobs)
    report.unlink(missing_ok=True)
    command = [*CLIENT_FIRST, "fio", str(file), f"--output-format={form}", f"--output={report}"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, report


def fio_report(process: subprocess.Popen, report: pathlib.Path) -> list[dict]:
    """The jobs of a report, once fio is done."""
    try:
        code = process.wait()
    finally:
        end(process)
    if code != 0:
        raise RuntimeError(f"fio failed: {report}\n{report.read_text()[-2000:] if report.exists() else ''}")
    text = report.read_text()
    # Engines write lines of their own before the report.
    return json.loads(text[text.index("{\n"):])["jobs"]


def figures(direction: dict) -> dict:
    """What fio says of reads or writes: IOPS, MB/s, and quantiles of latency in milliseconds."""
    quantiles = direction["clat_ns"].get("percentile", {})
    return {
        "iops": round(direction["iops"], 2),
        "mb_per_second": round(direction["bw_bytes"] / 1e6, 3),
        "mean_ms": round(direction["clat_ns"]["mean"] / 1e6, 4),
        **{name: round(quantiles.get(key, 0) / 1e6, 4)
           for name, key in [("p50_ms", "50.000000"), ("p99_ms", "99.000000"), ("p999_ms", "99.900000")]},
    }


def head(title: str, result: dict, script: str) -> str:
    """Where the tables below it come from, as Markdown."""
    versions = ", ".join(f"{name} {version.splitlines()[0].removeprefix(name).strip(' -')}" for name, version in result["versions"].items())
    loads = f"load averages {result['load_average_before']} before and {result['load_average_after']} after"
    return (f"# {title}\n\nMade by `{script} --from` from its `results.json`: medians of {result['parameters']['repetitions']} repetitions.\n"
            f"{result['machine']}; {result['shared']} ({loads}).\n{versions}.\n")


def write(path: pathlib.Path, result: dict) -> None:
    """A result as JSON, a row a line where it is a list of rows."""
    parts = []
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join("    " + json.dumps(row) for row in value)
            parts.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
