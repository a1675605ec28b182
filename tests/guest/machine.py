"""What a guest is made of: a kernel of Debian, programs and their libraries, packed into the file system that it starts from."""

import lzma
import pathlib
import re
import shutil
import subprocess
import sys


def need(command: str) -> str:
    return shutil.which(command) or sys.exit(f"{command} is not there; see --help")


def unpack(folder: pathlib.Path, name: str, package: str | None = None) -> pathlib.Path:
    """The files of a Debian package, from a file or else from where apt gets them; nothing is installed."""
    place = folder / name
    place.mkdir()
    if package is None:
        subprocess.run(["apt-get", "-q", "download", name], cwd=place, check=True, stdout=subprocess.DEVNULL)
        package = str(next(place.glob("*.deb")))
    subprocess.run(["dpkg-deb", "-x", package, place], check=True)
    return place


def latest_kernel() -> str:
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True, check=True).stdout
    name = re.search(r"Depends: (linux-image-\S+)", depends)
    return name.group(1) if name else sys.exit("apt knows no linux-image-cloud-amd64: give --kernel")


def modules(kernel: pathlib.Path, names: list[str]) -> dict[str, bytes]:
    """The modules with these names, each after those that it needs. What is not there as a module is in the kernel."""
    plain = lambda name: name.replace("-", "_")  # noqa: E731
    found = {plain(path.name.split(".")[0]): path for path in kernel.glob("lib/modules/**/*.ko*")}
    taken: dict[str, bytes] = {}

    def take(name: str) -> None:
        if name in found and name not in taken:
            data = found[name].read_bytes()
            data = lzma.decompress(data) if found[name].suffix == ".xz" else data
            needs = re.search(rb"\0depends=([^\0]+)\0", data)
            for other in needs[1].decode().split(",") if needs else []:
                take(plain(other))
            taken[name] = data

    for name in names:
        take(plain(name))
    return taken


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An initial file system (cpio, newc): names with modes and contents."""
    whole = b""
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        whole += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        whole += bytes(-len(whole) % 4) + content
        whole += bytes(-len(whole) % 4)
    return whole


def program(path: str | pathlib.Path) -> dict[str, bytes]:
    """A program, as bin/NAME, and the libraries that it is linked with, where it looks for them."""
    files = {f"bin/{pathlib.Path(path).name}": pathlib.Path(path).read_bytes()}
    for line in subprocess.run(["ldd", path], capture_output=True, text=True).stdout.splitlines():
        words = line.split()
        library = words[2] if "=>" in words else words[0]
        if library.startswith("/"):
            folder = "lib64" if "ld-linux" in library else "lib"
            files[f"{folder}/{pathlib.Path(library).name}"] = pathlib.Path(library).read_bytes()
    return files


def boot(folder: pathlib.Path, package: str | None, names: list[str], init: str, files: dict[str, bytes]) -> tuple[pathlib.Path, pathlib.Path]:
    """A kernel and an initial file system for it, with busybox, these modules, and `init` as the first program; a folder whose name begins
    with bin holds programs."""
    its = unpack(folder, "kernel" if package else latest_kernel(), package)
    busybox = shutil.which("busybox") or unpack(folder, "busybox-static") / "bin/busybox"
    loaded = modules(its, names)
    files = {"bin/busybox": pathlib.Path(busybox).read_bytes(), **files,
             **{f"modules/{name}.ko": data for name, data in loaded.items()},
             "modules/order": "".join(f"{name}.ko\n" for name in loaded).encode()}
    folders = sorted({"proc", "sys", "dev", "tmp", *(name.split("/")[0] for name in files if "/" in name)})
    entries = {name: (0o040755, b"") for name in folders}
    entries |= {name: (0o100644 if name.startswith("modules/") else 0o100755, data) for name, data in files.items()}
    entries["init"] = (0o100755, init.encode())
    (folder / "initrd").write_bytes(archive(entries))
    return next((its / "boot").glob("vmlinuz-*")), folder / "initrd"


def write(page: pathlib.Path, title: str, script: str, version: str, rows: list[tuple[str, str, bool]]) -> None:
    """Keeps what was seen: what it is, how it came out, and whether that is as it should be."""
    qemu = subprocess.run([need("qemu-system-x86_64"), "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    lines = [f"# {title}", "", f"By `{script} --write`, which says what it does.", "", f"Linux {version}, {qemu}, TCG.", "",
             "| what | seen | |", "|---|---|---|"]
    lines += [f"| {what} | {seen} | {'ok' if holds else '**fails**'} |" for what, seen, holds in rows]
    page.write_text("\n".join(lines) + "\n")
