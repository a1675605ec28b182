//! The spec of the server of a world.

use ioweir_config::SchedulerChoice;
use ioweir_core::policy::Limits;

use super::plan::{Backing, FAST_SECTORS, FIRST_PART_SECTORS, SECTORS, SLICE_FROM};
use super::random::Random;

/// Schedulers of worlds.
const SCHEDULERS: [&str; 21] = [
    "noop",
    "sfq",
    "sfq:cost=sectors",
    "wfq",
    "drr",
    "mclock",
    "mclock",
    "pclock",
    "reward",
    "parda",
    "token-bucket",
    "deadline",
    "mq-deadline",
    "bfq",
    "kyber",
    "bid-hdd",
    "sfq+mq-deadline:window=8",
    "io-max",
    "io-latency",
    "io-cost",
    "bfq-groups",
];

/// The keys of the device's backend. They matter only for what clients and services see, because the world provides the disks.
fn backend(backing: Backing, depth: u64) -> String {
    let memory = |sectors: u64| format!("backend = \"memory\"\nsize = \"{}B\"\n", sectors * 512);
    let part = |name: &str, sectors| format!("[[device.part]]\nname = \"{name}\"\n{}", memory(sectors));
    match backing {
        Backing::Placed => format!(
            "backend = \"tiered\"\n[device.slow]\n{}depth = {depth}\n[device.fast]\n{}depth = {depth}\n",
            memory(SECTORS),
            memory(FAST_SECTORS)
        ),
        Backing::Joined => format!(
            "backend = \"joined\"\ndepth = {depth}\n{}{}",
            part("x", FIRST_PART_SECTORS),
            part("y", SECTORS - FIRST_PART_SECTORS)
        ),
        _ => format!("{}depth = {depth}\n", memory(SECTORS)),
    }
}

/// The kinds of services of a device.
const fn services(backing: Backing) -> &'static [&'static str] {
    match backing {
        Backing::Late => &["scrub", "trim"],
        Backing::Placed => &["relocate", "scrub"],
        Backing::Disk | Backing::Checked | Backing::Cached | Backing::CheckedCopies | Backing::Joined => &["scrub"],
        Backing::Upstream => &[],
    }
}

/// The policy of a scheduler.
fn choice(scheduler: &str) -> SchedulerChoice {
    scheduler.parse().expect("the schedulers of worlds are written right")
}

/// The shares of an export.
fn share(random: &mut Random, scheduler: &str, export: &str) -> String {
    let choice = choice(scheduler);
    let weight = random.within(1, 100);
    let mut text = if choice.reads().weight { format!("weight = {weight}\n") } else { String::new() };
    if export == "b" && random.below(3) == 0 && scheduler != "reward" {
        let (rate, burst) = (random.within(20, 2000), random.within(1, 50));
        text += &match choice.row.limits {
            Limits::Both => format!("limit = \"{rate}/s\"\nburst = {burst}\n"),
            Limits::Directions => format!("riops = \"{rate}/s\"\nwbps = \"{burst}MiB/s\"\n"),
            Limits::None => String::new(),
        };
    }
    if choice.row.name == "io-latency" && export != "b" {
        text += &format!("latency = \"{}ms\"\n", random.within(1, 20));
    }
    let most = match (scheduler, export) {
        ("mclock" | "reward", "a") => 300,
        ("mclock" | "reward", "slice") => 100,
        ("pclock", "a") => 40,
        _ => return text,
    };
    if random.below(2) == 0 {
        text += &format!("reservation = \"{}/s\"\n", random.within(1, most));
    }
    text
}

/// The spec of a server with this device.
pub(super) fn spec(random: &mut Random, backing: Backing) -> String {
    let scheduler = if backing == Backing::Placed { "bid-hybrid" } else { random.one_of(&SCHEDULERS) };
    let choice = choice(scheduler);
    let depth = random.one_of(&[1, 2, 4, 16]);
    let queue = random.one_of(&[2, 8, 64, 4096]);
    let length = random.one_of(&["4KiB", "16KiB", "256KiB"]);
    let merge = random.below(2) == 0;
    let mut text = format!(
        "[server]\nlisten = [\"unix:world\"]\nstall_timeout = \"30s\"\n\
        [[device]]\nname = \"d\"\nscheduler = \"{scheduler}\"\n\
        queue_requests = {queue}\nrequest_bytes_max = \"{length}\"\nmerge = {merge}\n"
    );
    if backing.has_checksums() {
        // The engine's thread computes all checksums.
        text += "checksums = true\ncores = { workers = 1, inline_max = \"256KiB\" }\n";
    }
    text += &backend(backing, depth);
    for name in ["a", "b", "slice", "read"] {
        text += &format!("[[export]]\nname = \"{name}\"\ndevice = \"d\"\n");
        if backing == Backing::Joined {
            text += &format!("part = \"{}\"\n", if matches!(name, "a" | "slice") { "x" } else { "y" });
        }
        if name == "slice" {
            text += &format!("offset = \"{}B\"\n", SLICE_FROM * 512);
        }
        if name == "read" {
            text += "read_only = true\n";
        }
        if choice.row.knows_shares {
            text += &share(random, scheduler, name);
        }
    }
    // Other draws follow as they did before services had these keys.
    let mut own = random.fork(11);
    for kind in services(backing) {
        text += &format!("[service.{kind}]\ndevice = \"d\"\nkind = \"{kind}\"\ndefault = \"run\"\n");
        if *kind == "scrub" {
            text += &format!("every = \"{}s\"\n", random.one_of(&[900, 3_600]));
        }
        if own.below(3) == 0 {
            text += "idle_depth = 0\n";
        }
        if matches!(*kind, "scrub" | "relocate") && own.below(3) == 0 {
            text += &format!("request_bytes_max = \"{}\"\n", own.one_of(&["4KiB", "64KiB"]));
        }
        if choice.reads().weight {
            text += &format!("weight = {}\n", random.within(1, 100));
        }
    }
    text
}

/// The keys of the device that is added and removed.
pub(super) fn extra(random: &mut Random, has_volumes: bool) -> Vec<String> {
    let scheduler = random.one_of(&SCHEDULERS);
    let queue = random.one_of(&[2, 8, 4096]);
    let mut keys = vec![
        "backend=file".into(),
        "path=/world/e".into(),
        format!("scheduler={scheduler}"),
        format!("depth={}", random.one_of(&[1, 4, 16])),
        format!("queue_requests={queue}"),
        format!("request_bytes_max={}", random.one_of(&["4KiB", "16KiB", "256KiB"])),
        format!("merge={}", random.below(2) == 0),
    ];
    if has_volumes {
        keys.push("volumes=/world/volumes".into());
    }
    if random.below(3) == 0 {
        // The engine's thread computes all checksums.
        keys.extend(["checksums=true".into(), "cores={ workers = 1, inline_max = \"256KiB\" }".into()]);
    }
    keys
}
