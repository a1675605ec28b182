"""Devices whose parameters are drawn, for experiments that hide them behind their response times."""

import copy
import json
import random
import subprocess
import sys

import measure

SECTORS = {"disk": 120_000_000_000 // 512, "flash": (64 << 30) // 512}

DISK = """[hdd]
capacity = "120GB"
revolutions_per_minute = {rpm}
surfaces = {surfaces}
surface_skew = "least"
cylinder_skew = "least"
head_switch = "{switch}us"
interface_rate = "{interface}MB/s"
command_order = "{order}"
[hdd.zoning]
outer_sectors_per_track = {outer}
inner = 0.{inner}
zones = 16
[hdd.overhead]
read_after_read = "{overhead}us"
[hdd.cache]
segments = {segments}
segment_size = "256KiB"
write_segments = 1
read_ahead = "{ahead}"
write = "{write}"
[hdd.seek.datasheet]
single = "{single}us"
average = "{average}us"
full = "{full}us"
"""
FLASH = """[ssd]
capacity = "64GiB"
state = "filled"
over_provisioning_per_mille = 70
channels = {channels}
dies_per_channel = {dies}
page = "16KiB"
pages_per_block = 128
pages_per_program = 1
mapping_unit = "4KiB"
read = "{read}us"
program = "{program}us"
erase = "2ms"
channel_rate = "{channel}MB/s"
interface_rate = "3GB/s"
write_buffer = "{buffer}MiB"
power_loss_protection = true
free_blocks_min = 2
[ssd.overhead]
read = "{overhead}us"
write = "{overhead}us"
command = "5us"
"""


def disk(seed: int) -> str:
    draw = random.Random(seed)
    single, average = draw.randint(500, 1200), draw.randint(6000, 8500)
    # The longest seek that an arm with such seeks may have, and the shortest.
    longest, shortest = (15 * average - 10 * single) / 5, (15 * average - 7 * single) / 8
    return DISK.format(
        rpm=7200,
        surfaces=draw.randint(2, 6),
        switch=draw.randint(400, 1200),
        interface=draw.choice([80, 150, 300]),
        order=draw.choice(["fifo", "sptf"]),
        outer=draw.randint(600, 1800),
        inner=draw.randint(50, 80),
        overhead=draw.randint(50, 500),
        segments=draw.randint(2, 24),
        ahead=draw.choice(["track", "segment"]),
        write=draw.choice(["none", "all"]),
        single=single,
        average=average,
        full=round(shortest + draw.uniform(0.2, 0.8) * (longest - shortest)),
    )


def flash(seed: int) -> str:
    draw = random.Random(1000 + seed)
    return FLASH.format(
        channels=draw.choice([2, 4, 8]),
        dies=draw.choice([1, 2, 4]),
        read=draw.randint(30, 90),
        program=draw.randint(200, 900),
        channel=draw.choice([400, 800, 1200]),
        buffer=draw.choice([2, 8, 32]),
        overhead=draw.randint(5, 60),
    )


def array(layout: str, member: str) -> str:
    """Two of a device mirrored, or four with the data in chunks."""
    nested = "\n".join(line.replace("[", "[array.member.", 1) if line.startswith("[") else line for line in member.splitlines())
    shape = "members = 2" if layout == "mirror" else 'members = 4\nchunk = "64KiB"'
    return f'[array]\nlayout = "{layout}"\n{shape}\n{nested}\n'


TIERED = """[tiered]
capacity = "{capacity}"
placement = {{ hit_ratio = {hits} }}
fast = {{ depth = {depth}, read = "exponential {read}us", write = "exponential {write}us" }}
slow = {{ read = "exponential {slow}ms", write = "exponential {slow}ms" }}
"""


def tiers(hits: float, capacity: str = "120GB", read: int = 300, write: int = 400, slow: int = 9) -> str:
    return TIERED.format(capacity=capacity, hits=hits, depth=4, read=read, write=write, slow=slow)


def network(read: int, write: int, depth: int) -> str:
    """A drive behind a network: nearly all of its time is the way there and back, which varies."""
    return TIERED.format(capacity="120GB", hits=1.0, depth=depth, read=read, write=write, slow=10)


def turned(seed: int) -> str:
    return disk(seed).replace('"least"', '"0.35rev"')


def lines(requests) -> str:
    """Requests in the format of traces/hadoop: time in ms, bytes, sector, whether it reads, the stream."""
    text = ["time_s,pid,comm,op,lba,sectors"]
    for ms, bytes_, sector, is_read, stream in requests:
        word = "RS" if is_read else "WS"
        text.append(f"{ms / 1000:.6f},{stream},p,{word},{sector},{bytes_ // 512}")
    return "\n".join(text) + "\n"


def program(*arguments: str, cwd: str) -> str:
    done = subprocess.run([measure.PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ioweir {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def written(device: dict, name: str = "") -> str:
    """A device of nested tables as TOML."""
    own = [f"{key} = {json.dumps(value)}" for key, value in device.items() if not isinstance(value, dict)]
    inner = [written(value, f"{name}.{key}" if name else key) for key, value in device.items() if isinstance(value, dict)]
    return "\n".join([f"[{name}]" if name and own else "", *own, *inner])


def members(own: dict) -> list[str]:
    """The devices that a calibration holds to explain its measurement nearly as well as the best, which is the first."""
    device = {key: value for key, value in own.items() if key != "calibration"}
    # Defaults that are written out for the best device, and follow another value in the others.
    disk, flash = device.get("hdd", {}), device.get("ssd", {})
    for table, key, default in [(disk.get("cache", {}), "read_ahead_most", "segment_size"), (disk, "turn_skew", "cylinder_skew"),
                                (flash, "read_one_unit", "read"), (flash.get("overhead", {}), "read_one_unit", "read")]:
        if key in table and table[key] == table.get(default):
            del table[key]
    parameters = own["calibration"]["parameter"]
    texts = []
    for place in range(min(len(parameter["drawn"]) for parameter in parameters)):
        member = copy.deepcopy(device)
        for parameter in parameters:
            *path, last = parameter["key"].split(".")
            table = member
            for part in path:
                table = table.setdefault(part, {})
            table[last] = parameter["drawn"][place]
        texts.append(written(member))
    return texts
