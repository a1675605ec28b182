"""The servers of the grid, each a draw of one level of every factor, and the half that each belongs to.

Written down before any of them was run. The levels of a factor are dealt out in turn to the servers in the order of a hash of the
factor's name and the server's number, so that each level comes as often as any other in the whole grid. The first half of the servers in
the order of a hash of "half" and the number is A, on which `adaptive` is chosen; the others are B, on which it is judged.
"""

import hashlib
import pathlib

SERVERS = 40
# Requests in a run, about. Time and log are scaled to it, so that each server takes as long to simulate as any other.
REQUESTS = 150_000
SWINGS = {"warm_up": 2, "measured": 8}

CORES = [2, 4, 8, 16, 24, 48]

# name, share, kind, size in KiB, chances of misses in percent, further keys
MIXES = {
    "lookups": [("lookup", 90, "attributes", 0, 0, ""), ("write", 10, "write", 4, 0, "")],
    "transactions": [("read", 60, "read", 8, 30, ""), ("write", 40, "write", 8, 0, "")],
    "web": [("small", 70, "read", 4, 10, ""), ("medium", 25, "read", 64, 20, ""), ("write", 5, "write", 16, 0, "")],
    "files": [("lookup", 50, "attributes", 0, 0, ""), ("read", 25, "read", 16, 30, ""), ("write", 15, "write", 32, 0, "locks = true"),
              ("stream", 10, "read", 128, 5, "sequential = true")],
    "ingest": [("append", 60, "write", 64, 0, "sequential = true"), ("read", 20, "read", 8, 40, ""), ("lookup", 20, "attributes", 0, 0, "")],
    "scans": [("lookup", 77, "attributes", 0, 0, ""), ("read", 15, "read", 4, 30, ""), ("scan", 3, "read", 2048, 0, ""), ("write", 5, "write", 16, 0, "")],
    "promises": [("urgent", 60, "read", 4, 20, 'deadline = "5ms"'), ("backup", 20, "read", 256, 10, ""),
                 ("write", 20, "write", 4, 0, "")],
    "journal": [("append", 70, "write", 4, 0, "locks = true"), ("checkpoint", 5, "write", 512, 0, ""), ("read", 25, "read", 8, 30, "")],
}

# The tail of processor times, hidden from the kind of a request: keys of the costs, and the further time of a request in the mean, in us.
TAILS = {
    "none": ("spread_percent = 50.0", "", 0),
    "bimodal 0.2%": ("spread_percent = 50.0", tail := '[tail]\nclients_percent = {}\nfrom = "{}"\nto = "{}"\n', 0),
    "lognormal 1": ("spread_percent = 100.0\ndistribution = { lognormal = 1.0 }", "", 0),
    "lognormal 1.8": ("spread_percent = 100.0\ndistribution = { lognormal = 1.8 }", "", 0),
    "pareto 1.5": ("spread_percent = 100.0\ndistribution = { pareto = 1.5 }", "", 0),
    "pareto 2": ("spread_percent = 100.0\ndistribution = { pareto = 2.0 }", "", 0),
    "pareto 2.5": ("spread_percent = 100.0\ndistribution = { pareto = 2.5 }", "", 0),
}
for name, percent, low, high in [("bimodal 0.2%", 0.2, "5ms", "15ms"), ("bimodal 1%", 1.0, "2ms", "12ms"), ("bimodal 5%", 5.0, "500us", "1500us"),
                                 ("bimodal 15%", 15.0, "200us", "400us")]:
    mean = {"5ms": 10_000, "2ms": 7_000, "500us": 1_000, "200us": 300}[low] * percent / 100
    TAILS[name] = ("spread_percent = 50.0", tail.format(percent, low, high), mean)

# Amplitude in percent, and swings for each tenth of a run.
SWINGS_OF_LOAD = {"steady": (1, 1), "gentle": (15, 1), "wide": (30, 1), "bursts": (50, 1), "short bursts": (50, 4)}

# Count, fixed and random time of an access, and time for a KiB.
DISKS = {"disks": (200, "2500us", "3500us", "5us"), "flash": (24, "80us", "30us", "2us"), "far flash": (24, "400us", "200us", "2us")}

# Operations and their base cost and cost for a KiB in us, and how much of what is written in a quarter of a run half the log holds.
POINTS = {"light": (100, 50, 0.1, 3.0), "heavy": (400, 100, 0.5, 0.8), "heavier": (400, 100, 1.5, 0.5)}

FACTORS = {"cores": CORES, "mix": list(MIXES), "tail": list(TAILS), "swing": list(SWINGS_OF_LOAD), "disks": list(DISKS), "points": list(POINTS)}
COSTS = {"read": (30, 0.3), "write": (30, 0.3), "attributes": (20, 0)}


def order(word: str) -> list[int]:
    return sorted(range(SERVERS), key=lambda at: hashlib.sha256(f"{word}/{at}".encode()).hexdigest())


def grid() -> list[dict]:
    servers = [{"number": at} for at in range(SERVERS)]
    for factor, levels in FACTORS.items():
        for place, at in enumerate(order(factor)):
            servers[at][factor] = levels[place % len(levels)]
    for place, at in enumerate(order("half")):
        servers[at]["half"] = "A" if place < SERVERS // 2 else "B"
    return servers


def write(folder: pathlib.Path, server: dict) -> None:
    """Writes a server's three files."""
    folder.mkdir(parents=True, exist_ok=True)
    operations, (spread, tail, tail_us) = MIXES[server["mix"]], TAILS[server["tail"]]
    whole = sum(share for _, share, *_ in operations)
    mean_us = tail_us + sum(share * (COSTS[kind][0] + COSTS[kind][1] * size) for _, share, kind, size, *_ in operations) / whole
    written_kib = sum(share * (size + 0.25) for _, share, kind, size, *_ in operations if kind == "write") / whole
    seconds = max(0.5, REQUESTS * mean_us / server["cores"] / 1e6)
    amplitude, often = SWINGS_OF_LOAD[server["swing"]]
    count, base_us, per_kib_us, room = POINTS[server["points"]]
    rate = 0.8 * server["cores"] / mean_us * 1e6
    log = max(16 << 20, int(2 * room * written_kib * 1024 * rate * seconds / 4))
    number, access, random, per_kib = DISKS[server["disks"]]
    (folder / "platform.toml").write_text(
        f'cores = {server["cores"]}\nworkers = {server["cores"]}\nnvram = "{log}B"\nread_buffers = "4GiB"\nresponse_max = "300ms"\n'
        f'[disks]\ncount = {number}\naccess = "{access}"\naccess_random = "{random}"\nper_kib = "{per_kib}"\nstripe = 8\n')
    lines = ["objects = 100000"]
    for name, share, kind, size, misses, more in operations:
        lines += ["[[operation]]", f'name = "{name}"', f"share = {share}.0", f'kind = "{kind}"', more]
        lines += [f'sizes = [["{size}KiB", 100.0]]'] if size else []
        lines += [f"misses_percent = [{misses}.0, 5.0, 1.0]"] if misses else []
    (folder / "workload.toml").write_text("\n".join(lines) + "\n")
    cost = "".join(f'[{kind}]\nbase = "{base}us"\nper_kib = "{kib}us"\n' for kind, (base, kib) in COSTS.items())
    (folder / "costs.toml").write_text(
        f'turn = "2us"\nexpiry = "22us"\nslow_path = "8us"\n{spread}\nnetwork = "100us"\n{cost}[restart]\nbase = "25us"\nper_kib = "0.1us"\n{tail}'
        f'[prefetch]\nbytes = "1MiB"\n[prefetch.cost]\nbase = "100us"\nper_kib = "0.5us"\n'
        f'[flush]\ninterval = "{max(50, int(seconds / 4 * 1000))}ms"\noperations = {count}\nlog_record = "256B"\n'
        f'[flush.cost]\nbase = "{base_us}us"\nper_kib = "{per_kib_us}us"\n'
        f'[swing]\namplitude_percent = {amplitude}.0\nperiod = "{max(5, int(seconds / 10 / often * 1000))}ms"\n')
