"""Where do the suites come from, and how are they built?

From Debian source packages, fetched with a list of sources of our own: those of the system are not changed. What was
downloaded and built stays in the work folder, and is used again.
"""

import pathlib
import shutil
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"
# What is built and then run against the server may be newer than the system: these are.
SUITE = "trixie"


class Unavailable(Exception):
    """Why a suite cannot be run here."""


def run(command: list[str], log: pathlib.Path, **more) -> None:
    """Runs a step of a build; its output goes to a log."""
    with log.open("ab") as output:
        done = subprocess.run(["nice", "-n", "10", *command], stdout=output, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise Unavailable(f"`{' '.join(command[:4])}` failed: {lines[-1] if lines else 'no output'}")


def once(compute):
    """What is computed at the first call is kept, and so is the reason why it cannot be had."""
    kept = {}

    def get(self, *arguments):
        key = (compute.__name__, *arguments)
        if key not in kept:
            try:
                kept[key] = (compute(self, *arguments), None)
            except Unavailable as error:
                kept[key] = (None, error)
        value, error = kept[key]
        if error is not None:
            raise error
        return value

    return get


class Sources:
    """The sources, and what is built from them, under one folder."""

    def __init__(self, work: pathlib.Path):
        self.work = work
        self.versions: dict[str, str] = {}

    @once
    def apt(self) -> list[str]:
        """The beginning of a command of apt that uses lists of its own."""
        if not shutil.which("apt-get") or not pathlib.Path(KEYRING).exists():
            raise Unavailable("Debian's apt-get and archive keyring are not there")
        place = self.work / "apt"
        for folder in ["lists/partial", "cache/archives/partial"]:
            (place / folder).mkdir(parents=True, exist_ok=True)
        release = dict(
            line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line
        )
        suites = {SUITE, release.get("VERSION_CODENAME", SUITE).strip('"')}
        lines = [f"deb-src [signed-by={KEYRING}] {MIRROR} {suite} main\n" for suite in sorted(suites)]
        (place / "sources.list").write_text("".join(lines))
        options = {
            "Dir::Etc::sourcelist": place / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": place / "lists",
            "Dir::Cache": place / "cache",
            "APT::Sandbox::User": "",
        }
        command = ["apt-get", "-q", *(f"-o{key}={value}" for key, value in options.items())]
        run([*command, "update"], self.work / "apt.log")
        return command

    @once
    def source(self, package: str, wanted: str, *members: str) -> pathlib.Path:
        """The unpacked source of a package; `wanted` is `/suite` or `=version`. With members, only those of it."""
        folder = self.work / "sources" / package
        if not list(folder.glob("*.dsc")):
            folder.mkdir(parents=True, exist_ok=True)
            run([*self.apt(), "source", "--download-only", package + wanted], self.work / f"{package}.log", cwd=folder)
        descriptions = list(folder.glob("*.dsc"))
        if len(descriptions) != 1:
            raise Unavailable(f"{folder} holds no source package, or more than one: remove it")
        lines = descriptions[0].read_text().splitlines()
        self.versions[f"{package} (source)"] = next(line[9:] for line in lines if line.startswith("Version: "))
        tree = folder / "tree"
        if not tree.exists():
            archive = next(path for path in folder.glob("*.orig.tar.*") if path.suffix != ".asc")
            # Under another name until it is whole.
            part = folder / "part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            only = ["--wildcards", *members] if members else []
            command = ["tar", "-xf", str(archive), "-C", str(part), "--strip-components=1", *only]
            run(command, self.work / f"{package}.log")
            part.rename(tree)
        return tree

    def build(self, package: str, tree: pathlib.Path, steps: list[list[str]], made: str) -> None:
        """Builds, unless what is `made` last is there."""
        if not (tree / made).exists():
            for step in steps:
                run(step, self.work / f"{package}.log", cwd=tree)

    @once
    def nbd(self) -> pathlib.Path:
        """nbd-tester-client and nbd-client."""
        tree = self.source("nbd", f"/{SUITE}")
        # Its configuration wants a tool for manual pages even where none are made.
        configure = ["env", "DB2M=/bin/true", "./configure", "--quiet"]
        tester = ["make", "-s", "-C", "tests/run", "nbd-tester-client"]
        self.build("nbd", tree, [configure, tester, ["make", "-s", "nbd-client"]], "nbd-client")
        return tree

    @once
    def certificates(self) -> pathlib.Path:
        """An authority, a server and a client that it vouches for, and a client that nobody does."""
        place = self.work / "certificates"
        place.mkdir(exist_ok=True)
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        for name in ["ca", "server", "client", "selfsigned"]:
            vouched = name in ["server", "client"]
            signed = ["-CA", "ca-cert.pem", "-CAkey", "ca-key.pem"] if vouched else []
            more = ["-addext", "basicConstraints=critical,CA:FALSE"] if vouched else []
            more += ["-addext", "subjectAltName=DNS:localhost"] if name == "server" else []
            files = ["-keyout", f"{name}-key.pem", "-out", f"{name}-cert.pem"]
            command = [*make, "-days", "3650", "-subj", f"/CN={name}", *signed, *more, *files]
            run(command, self.work / "certificates.log", cwd=place)
        return place

    @once
    def libnbd(self) -> pathlib.Path:
        """The library, nbdinfo and nbdcopy, and the tests that take a socket."""
        tree = self.source("libnbd", f"/{SUITE}")
        without = ["ocaml", "python", "golang", "rust", "fuse", "ublk"]
        configure = ["./configure", "--quiet", *(f"--disable-{name}" for name in without)]
        folders = [["make", "-s", "-C", folder] for folder in ["common/utils", "lib", "info", "copy"]]
        tests = ["make", "-s", "-C", "tests", "aio-parallel", "aio-parallel-load", "synch-parallel"]
        self.build("libnbd", tree, [configure, *folders, tests], "tests/synch-parallel")
        return tree

    def libnbd_program(self, source: str, name: str, defines: dict[str, str]) -> pathlib.Path:
        """One of libnbd's interop programs, for a server of one's own."""
        tree = self.libnbd()
        program = self.work / name
        given = [f"-D{key}={value}" for key, value in defines.items()]
        include = ["-I.", "-Iinclude", "-Icommon/include", "-Itests"]
        library = f"-Wl,-rpath,{tree}/lib/.libs"
        more = ["tests/requires.c"] if (tree / "tests/requires.c").exists() else []
        command = ["gcc", *include, *given, f"interop/{source}", *more, "-o", str(program)]
        run([*command, "-Llib/.libs", "-lnbd", "-lgnutls", library], self.work / "libnbd.log", cwd=tree)
        return program

    @once
    def nbdkit(self) -> pathlib.Path:
        """Its fuzzing corpus; nothing is built."""
        return self.source("nbdkit", f"/{SUITE}", "*/fuzzing")

    @once
    def qemu(self) -> pathlib.Path:
        """qemu's I/O tests, as old as the qemu-img that is installed."""
        query = ["dpkg-query", "-W", "-f", "${source:Version}", "qemu-utils"]
        try:
            installed = subprocess.run(query, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable("qemu-utils is not installed") from error
        return self.source("qemu", f"={installed}", "*/tests/qemu-iotests", "*/python")

    @once
    def fsx(self) -> pathlib.Path:
        """The file system exerciser, from crates.io."""
        version = "0.3.2"
        program = self.work / "fsx/bin/fsx"
        if not program.exists():
            command = ["cargo", "install", "--quiet", "--locked", "--root", str(self.work / "fsx"), "fsx"]
            run([*command, "--version", version], self.work / "fsx.log")
        self.versions["fsx (crate)"] = version
        return program
