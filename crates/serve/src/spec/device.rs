//! The devices of a spec: their keys, and the backends that they describe.

use std::path::PathBuf;

use ioweir_config::{Complaint, Duration, KeySet as _, SchedulerChoice, Size, from_table, keys, shown, unknown};
use ioweir_core::policy::POLICIES;
use toml::Table;

use super::backends::{BACKENDS, Backend, BackendRow, Faults, FileIo};
use super::check::within;
use super::joined::{self, PartKeys};
use super::read::HINTS;
use super::snapshots::{self, Snapshots};
use super::tiers::{Cache, TierKeys, Tiers};
use super::upstream::{self, Upstream, UpstreamTls};
use super::{Device, Group, Listen, Spec, Workers};

/// The largest learnt depth.
const DEPTH_LEARNT_MAX: u32 = 256;

keys! {
    /// Keys that only some backends take; `ioweir doc serve` says which.
    #[derive(Clone, Debug, Default)]
    pub struct BackendKeys {
        /// `file`: the file or block device
        path: Option<PathBuf> = absent,
        /// `memory`, `null`, `faulty`: the size. `file`: the size that a new file is made with. `emulated`: that of the model if absent
        size: Option<Size> = absent,
        /// `file`: whether to bypass the page cache, if the file system can; true if absent
        direct: Option<bool> = absent,
        /// `file`: auto, io_uring or threads
        io: Option<FileIo> = absent,
        /// `file`: threads for what io_uring does not do, or for everything, 1 to 256; 4 if absent
        threads: Option<u32> = absent,
        /// `emulated`: a device preset or file, as `ioweir compare --device` takes it; real bytes in memory, the time of the model
        model: Option<String> = absent,
        /// `emulated`: seed of everything random in the model
        seed: Option<u64> = absent,
        /// `faulty`: what fails, and when: [device.faults]
        faults: Option<Faults> = absent,
        /// `nbd`: where the upstream listens, unix:PATH or tcp:ADDRESS:PORT; an IP address, because looking up a name could keep the
        /// device waiting
        address: Option<Listen> = absent,
        /// `nbd`: the name of its export; the upstream's first one if absent
        export: Option<String> = absent,
        /// `nbd`: connections at once, 1 to 16, if the upstream says that it allows several (CAN_MULTI_CONN); 4 if absent
        connections: Option<u32> = absent,
        /// `nbd`: how long it may take until an export is agreed on, and a TCP peer to acknowledge what was sent, before the connection
        /// is given up; 10s if absent. An upstream that acknowledges and does not answer is waited for, as a disk that hangs
        timeout: Option<Duration> = absent,
        /// `nbd`: how long requests wait for an upstream to come back before they fail, 0s to 24h; 1m if absent. It is connected to
        /// again for ever
        reconnect_limit: Option<Duration> = absent,
        /// `nbd`: whether every write that the upstream has answered is durable, as it is where the upstream writes through; false if
        /// absent. An upstream that cannot flush needs this
        write_through: Option<bool> = absent,
        /// `nbd`: the memory for writes that the upstream has answered and not flushed, which are repeated if it dies: at least 8MiB, or
        /// "0B" for none, so that the first flush after its death fails; 64MiB if absent. When half of it is full, the upstream is flushed
        unflushed_max: Option<Size> = absent,
        /// `nbd`: certificates: [device.tls]; without them the connection is not encrypted
        tls: Option<UpstreamTls> = absent,
    }
}

keys! {
    /// A device as the file has it.
    #[derive(Clone, Debug)]
    pub struct DeviceKeys {
        /// the name that exports use
        name: String = required,
        /// what it is made of: file, nbd, memory, null, emulated, tiered, joined or faulty
        backend: String = required,
        /// policy, name[:parameter=value...]: `ioweir doc policy` lists them; first come, first served if absent
        scheduler: SchedulerChoice = (SchedulerChoice::of(&POLICIES[0])),
        /// requests that the backend holds at once, 1 to 1024; the rest waits in the scheduler, or no policy could act. As suits
        /// the backend if absent; that of an upstream is then learnt while it serves, between 1 and 256
        depth: Option<u32> = absent,
        /// requests that the scheduler holds in each direction, 1 to 65536
        queue_requests: u32 = (4096),
        /// longer requests are split, and adjacent ones merged up to this: 4KiB to 4MiB
        request_bytes_max: Size = (Size(256 << 10)),
        /// whether adjacent requests are merged
        merge: bool = (true),
        /// data in flight that all clients together may hold. A quarter at most is divided among the clients that `connections_max`
        /// lets in, up to 1 MiB and at least one part of `request_bytes_max` for each; half of the rest is divided among the classes
        /// by weight, so that those who do not read their replies keep no others waiting. Beside it each connection takes up to
        /// 1 MiB for requests and the heads of replies
        buffer_bytes_max: Size = (Size(256 << 20)),
        /// CRC-32C of every block that is written, checked at every read; a block that differs is answered with an error and
        /// counted. They take 1 MiB of memory per GiB written; those of a file are kept beside it, in PATH.checksums, from a clean
        /// end to the next start
        checksums: bool = (false),
        /// threads of its own that compute checksums: [device.cores]; if absent, those of [cores], or one less than the machine has
        /// cores where there is no such table
        cores: Option<Workers> = absent,
        /// `file` on XFS or btrfs: snapshots of it, [device.snapshots]
        snapshots: Option<Snapshots> = absent,
        /// the file with the table of its volumes: named slices, which `ioweir ctl SERVER volume` adds, resizes and removes while the
        /// server runs. Its exports then show a `volume` each
        volumes: Option<PathBuf> = absent,
        /// `tiered`: the tier that is as long as the device, [device.slow]: a backend with its keys and depth
        slow: Option<TierKeys> = absent,
        /// `tiered`: the tier that holds what was placed, or copies, [device.fast]
        fast: Option<TierKeys> = absent,
        /// `tiered`, if the scheduler places data: the file that keeps where blocks lie; required if both tiers are files
        map: Option<PathBuf> = absent,
        /// `tiered`, if the scheduler places no data: "read", so that the fast tier holds copies of what is read again
        cache: Option<Cache> = absent,
        /// `joined`: 1 to 64 tables [[device.part]], each a name, a backend and its keys: devices that share a spindle or a budget, of
        /// which the scheduler and `depth` of this device are those of all together
        part: Vec<PartKeys> = absent,
        ..of: BackendKeys,
    }
}

/// Resolves the devices of a file. Their schedulers get room for the groups in the file, and those that keep checksums get
/// workers of their own, unless there are some that they can share.
pub(super) fn resolve_all(
    all: Vec<DeviceKeys>,
    groups: &[Group],
    shared: Option<&Workers>,
) -> Result<Vec<Device>, Complaint> {
    let mut devices: Vec<Device> = Vec::new();
    for (number, keys) in all.into_iter().enumerate() {
        let mut device = resolve(keys, &format!("device[{number}]"), &devices)?;
        count_groups(&mut device, groups);
        give_workers(&mut device, shared)?;
        devices.push(device);
    }
    if let Some(shared) = shared {
        check_workers(shared, "cores")?;
        if !devices.iter().any(Device::shares_cores) {
            let problem = "cores: no device would use these workers";
            return Err(Complaint::of_value("cores", problem)
                .expected("a device with checksums = true, and without [device.cores]"));
        }
    }
    Ok(devices)
}

impl Spec {
    /// The spec with one more device, of these keys; it is not checked as a whole.
    pub(crate) fn with_device(&self, keys: &Table) -> Result<Self, Complaint> {
        let keys: DeviceKeys = from_table(keys).map_err(|error| Complaint::of_toml(&error, HINTS))?;
        let others: Vec<Device> = self.present_devices().map(|(_, device)| device.clone()).collect();
        let mut device = resolve(keys, &format!("device[{}]", self.device.len()), &others)?;
        give_workers(&mut device, self.cores.as_ref())?;
        let mut changed = self.clone();
        changed.device.push(device);
        Ok(changed)
    }
}

/// Gives a device that keeps checksums workers of its own, unless there are some that it can share.
fn give_workers(device: &mut Device, shared: Option<&Workers>) -> Result<(), Complaint> {
    if shared.is_none() && device.shares_cores() {
        let usual = Workers::finish(<_>::default());
        device.cores = Some(usual.map_err(|error: toml::de::Error| Complaint::of_toml(&error, &[]))?);
    }
    Ok(())
}

fn count_groups(device: &mut Device, groups: &[Group]) {
    let its = groups.iter().filter(|group| group.device == device.name).count() as u64;
    let SchedulerChoice { row, settings, .. } = &mut device.scheduler;
    if row.get(settings, "groups").is_some_and(|places| places < its) {
        // If there are too many groups, the error is reported at the first group beyond the limit.
        let most = row.parameters.iter().find(|parameter| parameter.name == "groups").map_or(0, |groups| groups.max);
        let _ = row.set(settings, "groups", its.min(most));
    }
}

fn resolve(keys: DeviceKeys, at: &str, others: &[Device]) -> Result<Device, Complaint> {
    let key = |name: &str| format!("{at}.{name}");
    let name = keys.name.clone();
    if name.is_empty() || others.iter().any(|other| other.name == name) {
        let problem = format!("device name `{}` is empty or taken", shown(&name));
        return Err(Complaint::of_value(key("name"), problem).expected("a name of its own for each device"));
    }
    let row = find_row(&keys.backend, at)?;
    let scheduler = keys.scheduler;
    if scheduler.row.places && row.name != "tiered" {
        let problem =
            format!("scheduler {scheduler} places data on a second device, and backend {} has none", row.name);
        let expected = "backend = \"tiered\", or a scheduler of one device";
        return Err(Complaint::of_value(key("scheduler"), problem).expected(expected));
    }
    check_keys(&keys.given(), row, at)?;
    check_paths(&keys, at, others)?;
    let DeviceKeys { slow, fast, map, cache, of, part, .. } = keys;
    let backend = match (slow, fast) {
        (Some(slow), Some(fast)) => Tiers { slow, fast, map, cache }.resolve(scheduler, at)?,
        _ if row.name == "joined" => joined::resolve(part, at)?,
        _ => resolve_backend(of, row, at)?,
    };
    check_upstreams(&backend, at, others)?;
    let bytes_max = keys.request_bytes_max;
    within(&key("request_bytes_max"), bytes_max, Size(4096), Size(4 << 20))?;
    if !bytes_max.0.is_multiple_of(4096) {
        let problem = "request_bytes_max is not a multiple of 4KiB";
        return Err(Complaint::of_value(key("request_bytes_max"), problem).expected("such as 256KiB"));
    }
    // Half of it must hold the longest request, whose first and last part may take a whole buffer each.
    let least = Size(3 * u64::from(crate::nbd::protocol::REQUEST_BYTES_MAX));
    within(&key("buffer_bytes_max"), keys.buffer_bytes_max, least, Size(1 << 40))?;
    within(&key("queue_requests"), keys.queue_requests, 1, 65_536)?;
    let learns = keys.depth.is_none() && matches!(backend, Backend::Nbd(_));
    let depth = keys.depth.unwrap_or_else(|| if learns { DEPTH_LEARNT_MAX } else { backend.depth(row) });
    within(&key("depth"), depth, 1, 1024)?;
    if let Some(snapshots) = &keys.snapshots {
        snapshots::check(snapshots, &backend, at)?;
    }
    if keys.volumes.is_some() && row.name == "joined" {
        let problem = "volumes: a joined device has parts, and exports show these";
        return Err(Complaint::of_value(key("volumes"), problem));
    }
    if let Some(workers) = &keys.cores {
        check_own_workers(workers, keys.checksums, &key("cores"))?;
    }
    Ok(Device {
        name,
        is_removed: false,
        read_only: false,
        late: None,
        relocates: None,
        scheduler,
        depth,
        depth_stated: (!learns).then_some(depth),
        queue_requests: keys.queue_requests,
        request_bytes_max: bytes_max,
        merge: keys.merge,
        buffer_bytes_max: keys.buffer_bytes_max,
        checksums: keys.checksums,
        cores: keys.cores,
        snapshots: keys.snapshots,
        volumes: keys.volumes,
        backend,
    })
}

/// Refuses an upstream that is used twice, because nothing would keep overlapping operations apart.
fn check_upstreams(backend: &Backend, at: &str, others: &[Device]) -> Result<(), Complaint> {
    let mut taken: Vec<_> = others.iter().flat_map(|other| other.backend.upstreams()).collect();
    for upstream in backend.upstreams() {
        let same = |other: &&&Upstream| (&other.address, &other.export) == (&upstream.address, &upstream.export);
        if taken.iter().any(|other| same(&other)) {
            let problem =
                format!("export `{}` of the upstream at {} is used already", shown(&upstream.export), upstream.address);
            let expected = "an export of its own for each device, tier and part";
            return Err(Complaint::of_value(at, problem).expected(expected));
        }
        taken.push(upstream);
    }
    Ok(())
}

/// Refuses workers without checksums, since they would have nothing to do.
fn check_own_workers(workers: &Workers, checksums: bool, at: &str) -> Result<(), Complaint> {
    if !checksums {
        let problem = "cores: the device has no checksums, so that workers would have nothing to do";
        return Err(Complaint::of_value(at, problem).expected("checksums = true beside it"));
    }
    check_workers(workers, at)
}

fn check_workers(workers: &Workers, at: &str) -> Result<(), Complaint> {
    within(&format!("{at}.workers"), workers.workers.unwrap_or(1), 1, 256)
}

/// The row that the key `backend` of a table names.
pub(super) fn find_row(name: &str, at: &str) -> Result<&'static BackendRow, Complaint> {
    BackendRow::find(name).ok_or_else(|| {
        let names: Vec<_> = BACKENDS.iter().map(|row| row.name).collect();
        let error = unknown("backend", name, &names, "");
        // `file:disk.img` is the way of other servers.
        let hint = match name.split_once(':').and_then(|(kind, _)| BackendRow::find(kind)) {
            Some(row) => format!("backend = \"{}\", with keys of its own beside it: {}", row.name, row.keys.join(", ")),
            None => error.hint,
        };
        Complaint::of_value(format!("{at}.backend"), error.problem).expected(error.expected).hint(hint)
    })
}

/// Refuses keys of other backends, and missing ones.
pub(super) fn check_keys(given: &[&str], row: &BackendRow, at: &str) -> Result<(), Complaint> {
    let is_of_backends = |key: &str| BACKENDS.iter().any(|row| row.keys.contains(&key));
    if let Some(key) = given.iter().find(|key| is_of_backends(key) && !row.keys.contains(key)) {
        let problem = format!("backend {} takes no key `{key}`", row.name);
        let expected = format!("of its own keys: {}", row.keys.join(", "));
        return Err(Complaint::of_value(format!("{at}.{key}"), problem).expected(expected));
    }
    if let Some(key) = row.required.iter().find(|key| !given.contains(key)) {
        let example = match *key {
            "size" => "size = \"1GiB\"",
            "path" => "path = \"/dev/DEVICE\"",
            _ => key,
        };
        return Err(Complaint::of_value(at, format!("backend {} needs the key `{key}`", row.name))
            .hint(format!("add {example} below [[device]]; `ioweir doc serve` explains the keys")));
    }
    Ok(())
}

/// Makes a backend without tiers.
pub(super) fn resolve_backend(keys: BackendKeys, row: &BackendRow, at: &str) -> Result<Backend, Complaint> {
    let size = keys.size.unwrap_or(Size(512));
    within(&format!("{at}.size"), size, Size(512), Size(1 << 60))?;
    let threads = keys.threads.unwrap_or(4);
    within(&format!("{at}.threads"), threads, 1, 256)?;
    Ok(match row.name {
        "nbd" => upstream::resolve(keys, at)?,
        "null" => Backend::Null { size },
        "memory" => Backend::Memory { size },
        "emulated" => Backend::Emulated {
            model: keys.model.unwrap_or_default(),
            size: keys.size,
            seed: keys.seed.unwrap_or_default(),
        },
        "faulty" => Backend::Faulty { size, faults: keys.faults.unwrap_or_default() },
        _ => Backend::File {
            path: keys.path.unwrap_or_default(),
            size: keys.size,
            direct: keys.direct.unwrap_or(true),
            io: keys.io.unwrap_or_default(),
            threads,
        },
    })
}

/// Refuses a file that is used twice, because nothing would keep overlapping operations apart.
fn check_paths(keys: &DeviceKeys, at: &str, others: &[Device]) -> Result<(), Complaint> {
    let mut taken: Vec<PathBuf> = others.iter().flat_map(Device::paths).collect();
    let of_tier = |tier: &Option<TierKeys>| tier.as_ref().and_then(|tier| tier.of.path.clone());
    let paths = [
        ("path".to_string(), keys.of.path.clone()),
        ("slow.path".into(), of_tier(&keys.slow)),
        ("fast.path".into(), of_tier(&keys.fast)),
        ("map".into(), keys.map.clone()),
        ("volumes".into(), keys.volumes.clone()),
    ];
    let parts =
        keys.part.iter().enumerate().map(|(number, part)| (format!("part[{number}].path"), part.of.path.clone()));
    for (key, path) in paths.into_iter().chain(parts).filter_map(|(key, path)| Some((key, path?))) {
        if taken.contains(&path) {
            let problem = format!("file {} is used already", path.display());
            let expected = "a file of its own for each device, tier, part, map and table of volumes";
            return Err(Complaint::of_value(format!("{at}.{key}"), problem).expected(expected));
        }
        taken.push(path);
    }
    Ok(())
}
