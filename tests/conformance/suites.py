"""Which suites are there, and what does each do?

A suite is a function that yields cases: a name, the device it runs on, and what to do. A case passes if it raises nothing;
what it cannot do here it says by `Skipped` or `Unavailable`.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import typing

from served import DEVICES, Device, Failed, HERE, Served, Skipped, command, quoted
from sources import Sources

MIB = 1 << 20


class Case(typing.NamedTuple):
    name: str
    device: str
    act: typing.Callable[[], str | None]


class Context(typing.NamedTuple):
    """What suites need to know."""

    program: pathlib.Path
    sources: Sources

    def serve(self, device: Device, size: str = "64MiB", **more) -> Served:
        return Served(self.program, device, size, **more)

    def wrapper(self, device: Device) -> dict[str, str]:
        """The environment in which `as-qemu-nbd` serves a suite's own file as this device does."""
        own = ("backend", "path", "size")
        keys = [line for line in device.keys.splitlines() if line.split(" =")[0] not in own]
        return {**os.environ, "IOWEIR": str(self.program), "IOWEIR_DEVICE": "\n".join(keys)}


WRAPPER = str(HERE / "as-qemu-nbd")


def pattern(path: pathlib.Path, size: int) -> None:
    """Bytes in which every eight say where they are."""
    step = 1 << 20
    with path.open("wb") as file:
        for start in range(0, size, step):
            end = min(start + step, size)
            file.write(b"".join(place.to_bytes(8, "big") for place in range(start, end, 8)))


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise Skipped(f"{name} is not installed")
    return found


# nbd-tester-client, of nbd


def nbd_tester(context: Context):
    def tester(device: Device, arguments: list[str], size: str = "64MiB", export: str = "export", place: str = "unix"):
        folder = context.sources.nbd() / "tests/run"
        with context.serve(device, size, tcp=place == "tcp") as served:
            where = ["-u", served.socket] if place == "unix" else ["127.0.0.1", served.port]
            command([folder / "nbd-tester-client", "-N", export, *arguments, *where], cwd=folder)

    def inetd(device: Device):
        folder = context.sources.nbd() / "tests/run"
        served = context.serve(device)
        served.spec()
        server = [context.program, "serve", "--quiet", "--stdin", served.folder / "spec.toml"]
        command([folder / "nbd-tester-client", "-N", "export", "-I", "--", *server], cwd=folder)

    def listing(device: Device):
        tree = context.sources.nbd()
        with context.serve(device, tcp=True) as served:
            said = command([tree / "nbd-client", "-l", "127.0.0.1", served.port])
        if not re.search(r"^export\b.*\n+readonly\b", said, re.MULTILINE):
            raise Failed(f"both exports are expected: {said.strip()}")

    def broken_off(device: Device):
        # No export has this name: the client leaves in the middle of the talk. Servers have crashed at it.
        folder = context.sources.nbd() / "tests/run"
        with context.serve(device) as served:
            for _ in range(20):
                arguments = [folder / "nbd-tester-client", "-u", served.socket, "-N", "no such export"]
                subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)

    def tls(device: Device, arguments: list[str], client: str = "client"):
        folder = context.sources.nbd() / "tests/run"
        # Not those of the suite: their keys are of a length that the server's library does not take.
        certificates = context.sources.certificates()
        files = {"certificate": "server-cert.pem", "key": "server-key.pem", "clients": "ca-cert.pem"}
        keys = [f"{key} = {quoted(str(certificates / file))}" for key, file in files.items()]
        head = "\n".join(["[server.tls]", *keys, "required = true"])
        with context.serve(device, tcp=True, tls=head) as served:
            own = ["-C", certificates / f"{client}-cert.pem", "-K", certificates / f"{client}-key.pem"]
            if client == "client":
                own += ["-A", certificates / "ca-cert.pem", "-H", "localhost"]
            command([folder / "nbd-tester-client", "-N", "export", *arguments, *own, "127.0.0.1", served.port], cwd=folder)

    plain = [
        ("read", [], {}),
        ("read over TCP", [], {"place": "tcp"}),
        ("write", ["-w"], {}),
        ("write and flush", ["-w", "-f"], {}),
        ("write to what is read only", ["-w", "-F"], {"export": "readonly"}),
        ("read what is read only", [], {"export": "readonly"}),
        ("oversize", ["-o"], {}),
        ("handshake", ["-h"], {}),
        ("integrity", ["-i", "-t", "integrity-test.tr"], {}),
        ("integrityhuge", ["-i", "-t", "integrityhuge-test.tr"], {}),
    ]
    for device in DEVICES:
        for name, arguments, more in plain:
            yield Case(name, device.name, lambda d=device, a=arguments, m=more: tester(d, a, **m))
    first = DEVICES[0]
    yield Case("inetd", first.name, lambda: inetd(first))
    yield Case("list", first.name, lambda: listing(first))
    yield Case("broken off in the talk", first.name, lambda: broken_off(first))
    yield Case("tls", first.name, lambda: tls(first, ["-i", "-t", "integrity-test.tr"]))
    yield Case("tlshuge", first.name, lambda: tls(first, ["-i", "-t", "integrityhuge-test.tr"]))
    yield Case("tlswrongcert", first.name, lambda: tls(first, ["-F"], "selfsigned"))


# libnbd


def libnbd(context: Context):
    def parallel(device: Device, name: str, size: int):
        program = context.sources.libnbd() / "tests" / name
        with context.serve(device, f"{size}MiB") as served:
            file = served.folder / "pattern"
            pattern(file, size * MIB)
            command(["nbdcopy", file, served.uri])
            file.unlink()
            command([program, served.socket])

    def interop(device: Device, name: str, connect: str, source: str = "interop.c", **defines: str):
        # Socket activation hands over a socket; otherwise the server is started on the standard streams.
        activation = connect == "nbd_connect_systemd_socket_activation"
        parameters = '"-f", "raw", TMPFILE' if activation else '"--stdin", "-f", "raw", TMPFILE'
        more = {"SERVER": quoted(WRAPPER), "SERVER_PARAMS": parameters, "NEEDS_TMPFILE": "1", **defines}
        if activation:
            more["SOCKET_ACTIVATION"] = "1"
        program = context.sources.libnbd_program(source, f"libnbd-{name}-{device.name}", more)
        with tempfile.TemporaryDirectory() as folder:
            command([program], env={**context.wrapper(device), "TMPDIR": folder})

    def own(device: Device, source: str, *arguments: str, without: str = ""):
        program = context.sources.libnbd_program(source, pathlib.Path(source).stem, {})
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "disk"
            pattern(file, MIB)
            environment = {**context.wrapper(device), "TMPDIR": folder}
            if without:
                info = [context.sources.libnbd() / "info/nbdinfo", "--can", without]
                try:
                    command([*info, "--", "[", WRAPPER, "-f", "raw", file, "]"], env=environment)
                except Failed as error:
                    if "exit 2" not in str(error):
                        raise
                    raise Skipped(f"this server has no {without.replace('-', ' ')}") from error
            command([program, *arguments, WRAPPER, "-r", "-f", "raw", file], env=environment)

    stdin, activation = "nbd_connect_command", "nbd_connect_systemd_socket_activation"
    for device in DEVICES:
        yield Case("aio-parallel", device.name, lambda d=device: parallel(d, "aio-parallel", 64))
        yield Case("aio-parallel-load", device.name, lambda d=device: parallel(d, "aio-parallel-load", 64))
        yield Case("synch-parallel", device.name, lambda d=device: parallel(d, "synch-parallel", 8))
    for device in [device for device in DEVICES if device.is_file]:
        yield Case("interop", device.name, lambda d=device: interop(d, "interop", stdin))
        yield Case("interop, socket activation", device.name, lambda d=device: interop(d, "activation", activation))
    first = DEVICES[0]
    for name, connect in [("list-exports", stdin), ("list-exports, socket activation", activation)]:
        given = {"EXPORTS": '""', "DESCRIPTIONS": '""', "REQUIRES": ""}
        label = name.replace(", socket ", "-")
        yield Case(name, first.name, lambda l=label, c=connect: interop(first, l, c, "list-exports.c", **given))
    yield Case(
        "opt-extended-headers",
        first.name,
        lambda: own(first, "opt-extended-headers.c", without="extended-headers"),
    )
    for source, why in [
        ("structured-read", "wants a hole of 512 bytes, which only a qcow2 image has"),
        ("block-status-64, block-status-payload, dirty-bitmap", "want a qcow2 image with bitmaps"),
    ]:
        yield Case(source, first.name, lambda w=why: skip(w))


def skip(why: str):
    raise Skipped(why)


# qemu-iotests

IOTESTS = "001 002 003 004 008 009 010 011 021 032 033 077 104 123 197 215".split()


def qemu_iotests(context: Context):
    def iotest(device: Device, number: str):
        folder = context.sources.qemu() / "tests/qemu-iotests"
        # qemu itself is not started by these; where the storage daemon is missing, neither is that.
        programs = {"QEMU_PROG": "/bin/true", "QSD_PROG": shutil.which("qemu-storage-daemon") or "/bin/true"}
        programs |= {"QEMU_IMG_PROG": tool("qemu-img"), "QEMU_IO_PROG": tool("qemu-io"), "QEMU_NBD_PROG": WRAPPER}
        with tempfile.TemporaryDirectory(prefix="ioweir-iotests-") as scratch:
            places = {"TEST_DIR": f"{scratch}/t", "SOCK_DIR": f"{scratch}/s", "TMPDIR": scratch}
            environment = {**context.wrapper(device), **programs, **places}
            said = command(["./check", "-nbd", "-raw", number], env=environment, cwd=folder)
        if "Passed all 1 iotests" not in said:
            reason = re.search(rf"{number} .*not run.*?\n?.*", said)
            raise Skipped(reason[0].strip() if reason else said.strip().splitlines()[-1])

    for device in [device for device in DEVICES if device.is_file]:
        for number in IOTESTS:
            yield Case(number, device.name, lambda d=device, n=number: iotest(d, n))


# nbdkit's fuzzing corpus


def corpus(context: Context):
    def replay(server: pathlib.Path, stream: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(server))
            client.sendall(stream)
            client.shutdown(socket.SHUT_WR)
            heard = b""
            try:
                while piece := client.recv(65536):
                    heard += piece
            except ConnectionResetError:
                pass
            except TimeoutError as error:
                raise Failed("the server does not close") from error
        return heard

    def case(device: Device, name: str):
        folder = context.sources.nbdkit() / "fuzzing/testcase_dir"
        stream = (folder / name).read_bytes()
        # The corpus asks for an export of this name.
        with context.serve(device, name="/") as served:
            ours = replay(served.socket, stream)
            if len({replay(served.socket, stream) for _ in range(20)} | {ours}) != 1:
                raise Failed("the same bytes are not always answered alike")
        return f"{len(stream)} bytes answered by {len(ours)}"

    names = ["", "-exportname", "-exportname-read4", "-go", "-go-read", "-go-read4", "-go-write"]
    for device in DEVICES:
        for name in names:
            full = f"newstyle-cflags{name}"
            yield Case(full, device.name, lambda d=device, n=full: case(d, n))


# Tools that are installed


def tools(context: Context):
    def nbdinfo(device: Device):
        with context.serve(device) as served:
            told = json.loads(command(["nbdinfo", "--json", served.uri]))["exports"][0]
            expected = {
                "export-size": 64 * MIB,
                "is_read_only": False,
                "can_flush": True,
                "can_fua": True,
                "can_multi_conn": True,
                "can_trim": True,
                "can_zero": True,
            }
            wrong = {key: told.get(key) for key, value in expected.items() if told.get(key) != value}
            if wrong:
                raise Failed(f"nbdinfo --json says {wrong}")
            listed = json.loads(command(["nbdinfo", "--list", "--json", f"nbd+unix://?socket={served.socket}"]))
            if [export["export-name"] for export in listed["exports"]] != ["export", "readonly"]:
                raise Failed("nbdinfo --list does not name both exports")
            for what in ["connect", "read", "write", "flush", "fua", "df", "multi-conn", "trim", "zero", "fast-zero", "cache"]:
                command(["nbdinfo", "--can", what, served.uri])
            command(["nbdinfo", "--is", "readonly", f"nbd+unix:///readonly?socket={served.socket}"])
            extents = json.loads(command(["nbdinfo", "--map", "--json", served.uri]))
            if sum(extent["length"] for extent in extents) != 64 * MIB:
                raise Failed("nbdinfo --map does not tell of all of it")

    def nbdcopy(device: Device, own: bool):
        copy = context.sources.libnbd() / "copy/nbdcopy" if own else "nbdcopy"
        with context.serve(device) as served:
            there, back = served.folder / "there", served.folder / "back"
            pattern(there, 64 * MIB)
            command([copy, "--flush", there, served.uri])
            command([copy, served.uri, back])
            if there.read_bytes() != back.read_bytes():
                raise Failed("what came back is not what was sent")

    def qemu_img(device: Device):
        with context.serve(device) as served:
            there, back = served.folder / "there", served.folder / "back"
            pattern(there, 48 * MIB)
            os.truncate(there, 64 * MIB)
            command(["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", there, served.uri])
            command(["qemu-img", "compare", "-f", "raw", "-F", "raw", there, served.uri])
            command(["qemu-img", "convert", "-f", "raw", "-O", "raw", served.uri, back])
            command(["qemu-img", "compare", "-f", "raw", "-F", "raw", there, back])
            extents = json.loads(command(["qemu-img", "map", "--output=json", "-f", "raw", served.uri]))
            zeroes = sum(extent["length"] for extent in extents if extent["zero"])
            if sum(extent["length"] for extent in extents) != 64 * MIB or zeroes != 16 * MIB:
                raise Failed(f"qemu-img map tells of {zeroes} bytes of zeroes, and there are {16 * MIB}")

    def qemu_io(device: Device):
        steps = ["aio_write -P 17 0 1M", "aio_write -P 34 1M 300k", "aio_write -P 51 1500k 7k", "aio_flush"]
        steps += ["write -f -P 68 4M 4k", "write -z 5M 1M", "write -P 85 6M 1M", "discard 6M 512k", "flush"]
        steps += ["read -P 17 0 1M", "read -P 34 1M 300k", "read -P 51 1500k 7k", "read -P 68 4M 4k", "read -P 0 5M 1M"]
        steps += ["read -P 85 6656k 512k", "write -P 102 8388607 4098", "read -P 102 8388607 4098"]
        with context.serve(device) as served:
            said = command(["qemu-io", "-f", "raw", served.uri, *(word for step in steps for word in ["-c", step])])
        if "verification failed" in said or "failed" in said:
            raise Failed(next(line for line in said.splitlines() if "failed" in line))

    def fio(device: Device):
        with context.serve(device) as served:
            options = ["--name=verify", "--ioengine=nbd", f"--uri={served.uri}", "--rw=randwrite", "--iodepth=32"]
            options += ["--bssplit=512/20:4k/40:20k/20:300k/20", "--size=64m", "--io_size=256m", "--fsync=64"]
            options += ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--randrepeat=1"]
            command(["fio", *options], timeout=600, cwd=served.folder)

    for device in DEVICES:
        yield Case("nbdinfo --json, --list, --can, --map", device.name, lambda d=device: nbdinfo(d))
        yield Case("nbdcopy", device.name, lambda d=device: nbdcopy(d, False))
        yield Case("nbdcopy of the newer libnbd", device.name, lambda d=device: nbdcopy(d, True))
        yield Case("qemu-img convert, compare, map", device.name, lambda d=device: qemu_img(d))
        yield Case("qemu-io patterns", device.name, lambda d=device: qemu_io(d))
        yield Case("fio verify", device.name, lambda d=device: fio(d))


# fsx, through the kernel


def fsx(context: Context):
    def case(device: Device):
        tool("nbdfuse")
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise Skipped("/dev/fuse cannot be used")
        program = context.sources.fsx()
        with context.serve(device, "4MiB") as served:
            mount, settings = served.folder / "mount", served.folder / "fsx.toml"
            mount.mkdir()
            # A device neither grows nor shrinks.
            never = ["close_open", "truncate", "posix_fallocate", "punch_hole", "copy_file_range"]
            weights = "".join(f"{name} = 0\n" for name in never) + "fsync = 1\n"
            settings.write_text(f"blockmode = true\n[opsize]\nmax = 262144\n[weights]\n{weights}")
            fuse = subprocess.Popen(["nbdfuse", "-C", "4", mount / "disk", "--unix", served.socket])
            try:
                while not (mount / "disk").exists():
                    if fuse.poll() is not None:
                        raise Skipped("nbdfuse cannot mount here")
                command([program, "-f", settings, "-N", "2000", "-S", "1", "-P", served.folder, mount / "disk"], timeout=600)
            finally:
                subprocess.run(["umount", str(mount)], stderr=subprocess.DEVNULL, check=False)
                try:
                    fuse.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    fuse.kill()
                    fuse.wait()

    for device in DEVICES:
        yield Case("2000 steps through nbdfuse", device.name, lambda d=device: case(d))


class Suite(typing.NamedTuple):
    cases: typing.Callable[[Context], typing.Iterator[Case]]
    # What of `Sources` it is made of, built before the clock of its first case runs.
    source: str | None = None


SUITES = {
    "nbd-tester-client": Suite(nbd_tester, "nbd"),
    "libnbd": Suite(libnbd, "libnbd"),
    "qemu-iotests": Suite(qemu_iotests, "qemu"),
    "nbdkit-corpus": Suite(corpus, "nbdkit"),
    "tools": Suite(tools),
    "fsx": Suite(fsx, "fsx"),
}
