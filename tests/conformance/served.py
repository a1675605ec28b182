"""What is served to the suites, and how does a case run?"""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """What went wrong in a case."""


class Skipped(Exception):
    """Why a case cannot be run."""


class Device(typing.NamedTuple):
    """A row of the devices that suites run on."""

    name: str
    # Keys of [[device]]. FOLDER is a folder of its own for each server; SIZE is as long as the case wants it.
    keys: str
    # Whether it shows FOLDER/disk as it is, so that a case may bring its own file.
    is_file: bool = True


FILE = 'backend = "file"\npath = "FOLDER/disk"\nsize = "SIZE"'

# One more device is one more row.
DEVICES = [
    Device("file", f'{FILE}\nscheduler = "noop"'),
    Device("file-split", f'{FILE}\nscheduler = "deadline"\nrequest_bytes_max = "16KiB"\ndepth = 4'),
    Device("file-threads", f'{FILE}\nscheduler = "bid-hdd"\nio = "threads"\ndirect = false'),
    Device(
        "tiers-placed",
        'backend = "tiered"\nmap = "FOLDER/map"\nscheduler = "bid-hybrid"\n'
        '[device.slow]\nbackend = "file"\npath = "FOLDER/disk"\nsize = "SIZE"\n'
        '[device.fast]\nbackend = "file"\npath = "FOLDER/fast"\nsize = "16MiB"',
        is_file=False,
    ),
    Device(
        "tiers-cached",
        'backend = "tiered"\ncache = "read"\nscheduler = "deadline"\n'
        '[device.slow]\nbackend = "file"\npath = "FOLDER/disk"\nsize = "SIZE"\n'
        '[device.fast]\nbackend = "memory"\nsize = "16MiB"',
        is_file=False,
    ),
    Device("memory-tenants", 'backend = "memory"\nsize = "SIZE"\nscheduler = "sfq"', is_file=False),
]


def command(arguments: list, timeout: float = 300, **more) -> str:
    """Runs a program of a suite to its end, and answers with what it wrote; fails where it does."""
    arguments = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile() as output:
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        try:
            process = subprocess.Popen(arguments, start_new_session=True, **streams, **more)
        except OSError as error:
            raise Skipped(f"{arguments[0]} cannot be started: {error.strerror}") from error
        try:
            process.wait(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"not done after {timeout:.0f} s") from error
        finally:
            # Programs that fail may leave the servers that they started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        said = output.read()
    # Some show their progress on one line, over and over.
    text = said.decode(errors="replace").replace("\r", "\n").replace("\b", "")
    if process.returncode != 0:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = lines[-1][-200:] if lines else "it said nothing"
        if process.returncode == 77:
            # What suites of this kind say when they skip.
            raise Skipped(last)
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit {process.returncode}"
        raise Failed(f"{pathlib.Path(arguments[0]).name}: {how}: {last}")
    return text


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Served:
    """`ioweir serve` of a device, from `with` to its end, with which it must still be alive."""

    def __init__(
        self,
        program: pathlib.Path,
        device: Device,
        size: str = "64MiB",
        tcp: bool = False,
        tls: str = "",
        name: str = "export",
    ):
        self.program, self.device, self.size, self.tcp, self.tls, self.name = program, device, size, tcp, tls, name
        self.folder_kept = tempfile.TemporaryDirectory(prefix="ioweir-conformance-")
        self.folder = pathlib.Path(self.folder_kept.name)
        self.socket = self.folder / "socket"
        self.disk = self.folder / "disk"
        self.process = None
        self.port = 0

    @property
    def uri(self) -> str:
        return f"nbd+unix:///{self.name}?socket={self.socket}"

    def spec(self) -> pathlib.Path:
        """Writes the spec: an export that can be written, and one that cannot."""
        keys = self.device.keys.replace("FOLDER", str(self.folder)).replace("SIZE", self.size)
        listen = [f"unix:{self.socket}"]
        if self.tcp:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            listen.append(f"tcp:127.0.0.1:{self.port}")
        places = ", ".join(quoted(place) for place in listen)
        exports = [(self.name, "all of it", "false"), ("readonly", "all of it, to be read", "true")]
        text = f'[server]\nlisten = [{places}]\n{self.tls}\n[[device]]\nname = "disk"\n{keys}\n'
        for name, description, read_only in exports:
            text += f'[[export]]\nname = "{name}"\ndescription = "{description}"\n'
            text += f'device = "disk"\nread_only = {read_only}\n'
        path = self.folder / "spec.toml"
        path.write_text(text)
        return path

    def __enter__(self):
        arguments = [str(self.program), "serve", "--quiet", str(self.spec())]
        self.errors = (self.folder / "errors").open("w+b")
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=self.errors)
        until = time.monotonic() + 30
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.end()
                raise Failed(f"the server does not start: {self.said()}")
            time.sleep(0.01)
        return self

    def answers(self) -> bool:
        """Whether a client is greeted."""
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(10)
                client.connect(str(self.socket))
                return client.recv(8) == b"NBDMAGIC"
        except OSError:
            return False

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-300:]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __exit__(self, kind, *_) -> None:
        was_alive = self.process.poll() is None and self.answers()
        self.end()
        code, said = self.process.returncode, self.said()
        self.errors.close()
        self.folder_kept.cleanup()
        if kind is None and not was_alive:
            raise Failed(f"the server was gone: exit {code}: {said}")
        if kind is None and code != 0:
            raise Failed(f"the server ended with {code}: {said}")
