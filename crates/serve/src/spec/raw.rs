//! What stands in a spec, and does it make sense together?

use std::ops::Range;
use std::path::PathBuf;

use ioweir_core::StreamId;
use ioweir_core::cores::SCHEDULES;
use ioweir_core::policy::POLICIES;
use ioweir_core::tenant::GroupId;
use serde::Deserialize;
use toml::Spanned;

use super::backends::{BACKENDS, Backend, BackendRow, Faults, FileIo};
use super::share::{Judge, RawExport, RawGroup, RawShare, RawTenant};
use super::tiers::{self, Cache, Placing, RawTiers};
use super::{ClassShare, Device, Export, Group, Holder, Listen, Server, Spec, Tenant, Tls, Workers};
use crate::nbd::protocol::STRING_BYTES_MAX;
use crate::tls;
use ioweir_config::{Complaint, Duration, ScheduleChoice, SchedulerChoice, Size, SpecError, shown, unknown};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpec {
    #[serde(default)]
    server: RawServer,
    #[serde(default)]
    device: Vec<Spanned<RawDevice>>,
    #[serde(default)]
    group: Vec<RawGroup>,
    #[serde(default)]
    export: Vec<RawExport>,
    #[serde(default)]
    tenant: Vec<RawTenant>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    #[serde(default)]
    listen: Vec<Listen>,
    connections_max: Option<Spanned<u32>>,
    handshake_timeout: Option<Duration>,
    stall_timeout: Option<Duration>,
    shutdown_timeout: Option<Duration>,
    control: Option<Spanned<Listen>>,
    watch: Option<Spanned<Listen>>,
    tls: Option<RawTls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTls {
    certificate: Spanned<PathBuf>,
    key: Spanned<PathBuf>,
    clients: Option<Spanned<PathBuf>>,
    #[serde(default = "required")]
    required: bool,
}

/// Who has a certificate means it.
const fn required() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDevice {
    name: Spanned<String>,
    backend: Spanned<String>,
    scheduler: Option<Spanned<SchedulerChoice>>,
    depth: Option<Spanned<u32>>,
    queue_requests: Option<Spanned<u32>>,
    request_bytes_max: Option<Spanned<Size>>,
    merge: Option<bool>,
    buffer_bytes_max: Option<Spanned<Size>>,
    checksums: Option<bool>,
    cores: Option<Spanned<RawWorkers>>,
    // What only some backends take.
    path: Option<Spanned<PathBuf>>,
    size: Option<Spanned<Size>>,
    direct: Option<Spanned<bool>>,
    io: Option<Spanned<FileIo>>,
    threads: Option<Spanned<u32>>,
    model: Option<Spanned<String>>,
    seed: Option<Spanned<u64>>,
    faults: Option<Spanned<Faults>>,
    slow: Option<Spanned<RawBackend>>,
    fast: Option<Spanned<RawBackend>>,
    map: Option<Spanned<PathBuf>>,
    cache: Option<Spanned<Cache>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkers {
    schedule: Option<ScheduleChoice>,
    workers: Option<Spanned<u32>>,
}

/// What a device is made of, or a tier of one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBackend {
    pub(super) backend: Spanned<String>,
    /// Of a tier.
    pub(super) depth: Option<Spanned<u32>>,
    pub(super) path: Option<Spanned<PathBuf>>,
    size: Option<Spanned<Size>>,
    direct: Option<Spanned<bool>>,
    io: Option<Spanned<FileIo>>,
    threads: Option<Spanned<u32>>,
    model: Option<Spanned<String>>,
    seed: Option<Spanned<u64>>,
    faults: Option<Spanned<Faults>>,
}

impl RawDevice {
    /// Takes out what says what it is made of.
    fn take_backend(&mut self) -> (RawBackend, RawTiers) {
        let own = RawBackend {
            backend: self.backend.clone(),
            depth: None,
            path: self.path.take(),
            size: self.size.take(),
            direct: self.direct.take(),
            io: self.io.take(),
            threads: self.threads.take(),
            model: self.model.take(),
            seed: self.seed.take(),
            faults: self.faults.take(),
        };
        let Self { slow, fast, map, cache, .. } = self;
        (own, RawTiers { slow: slow.take(), fast: fast.take(), map: map.take(), cache: cache.take() })
    }
}

pub(super) fn parse(file: &str, text: &str) -> Result<Spec, SpecError> {
    let raw: Result<RawSpec, Complaint> = toml::from_str(text).map_err(|error| Complaint::of_toml(&error, &[]));
    let spec = raw.and_then(resolve).map_err(|complaint| complaint.in_file(file, Some(text)))?;
    Ok(Spec { file: file.into(), ..spec })
}

fn resolve(raw: RawSpec) -> Result<Spec, Complaint> {
    let server = resolve_server(&raw.server)?;
    let mut devices: Vec<Device> = Vec::new();
    for device in raw.device {
        let range = device.span();
        devices.push(resolve_device(device.into_inner(), range, &devices)?);
    }
    count_groups(&mut devices, &raw.group);
    let mut judge = Judge::new(&devices);
    let mut groups = Vec::new();
    for group in raw.group {
        groups.push(resolve_group(group, &devices, &groups, &mut judge)?);
    }
    let mut known = Known { devices: &devices, groups: &groups, judge, classes: 0 };
    let mut exports = Vec::new();
    for export in raw.export {
        exports.push(resolve_export(export, &exports, &mut known)?);
    }
    if exports.is_empty() {
        let hint = "add [[export]] with name = \"a\" and the device it shows";
        return Err(Complaint::of_all("there is nothing to serve").expected("at least one [[export]]").hint(hint));
    }
    let asks_clients = server.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
    if let Some(tenant) = raw.tenant.first().filter(|_| !asks_clients) {
        let problem = "certificate: no client is asked for one, so that nobody would be this tenant";
        let hint =
            "add [server.tls] with certificate, key, and clients: the authority that signs the certificates of clients";
        return Err(Complaint::at(tenant.certificate.span(), problem)
            .expected("a server with client certificates")
            .hint(hint));
    }
    let mut tenants = Vec::new();
    for tenant in raw.tenant {
        tenants.push(resolve_tenant(tenant, &exports, &tenants, &mut known)?);
    }
    Ok(Spec { file: String::new(), server, device: devices, group: groups, export: exports, tenant: tenants })
}

fn resolve_server(raw: &RawServer) -> Result<Server, Complaint> {
    let span = |given: Option<Duration>, seconds| given.unwrap_or(Duration::from_seconds(seconds));
    Ok(Server {
        listen: raw.listen.clone(),
        connections_max: number(raw.connections_max.as_ref(), "connections_max", 64, 1, 4096)?,
        handshake_timeout: span(raw.handshake_timeout, 10),
        stall_timeout: span(raw.stall_timeout, 30),
        shutdown_timeout: span(raw.shutdown_timeout, 10),
        tls: raw.tls.as_ref().map(resolve_tls).transpose()?,
        control: local(raw.control.as_ref(), "control", |place| matches!(place, Listen::Unix(_)))?,
        watch: local(raw.watch.as_ref(), "watch", Listen::is_local)?,
    })
}

/// A place that only this machine can reach.
fn local(
    given: Option<&Spanned<Listen>>,
    key: &str,
    is_local: impl Fn(&Listen) -> bool,
) -> Result<Option<Listen>, Complaint> {
    let Some(given) = given else { return Ok(None) };
    if is_local(given.get_ref()) {
        return Ok(Some(given.get_ref().clone()));
    }
    let problem = format!("{key}: {} can be reached by others, and whoever reaches it is let in", given.get_ref());
    let tcp = if key == "watch" { ", or a port of this machine, such as \"tcp:127.0.0.1:9090\"" } else { "" };
    Err(Complaint::at(given.span(), problem)
        .expected(format!("a unix socket, such as \"unix:/run/ioweir-{key}\"{tcp}")))
}

/// The files are read here, so that what is wrong with them is said with its place, and changes nothing.
fn resolve_tls(raw: &RawTls) -> Result<Tls, Complaint> {
    let resolved = Tls {
        certificate: raw.certificate.get_ref().clone(),
        key: raw.key.get_ref().clone(),
        clients: raw.clients.as_ref().map(|clients| clients.get_ref().clone()),
        required: raw.required,
    };
    let checked = tls::Server::load(&resolved).map_err(|error| {
        let range = match (error.role, &raw.clients) {
            (tls::Role::Key, _) => raw.key.span(),
            (tls::Role::Clients, Some(clients)) => clients.span(),
            _ => raw.certificate.span(),
        };
        Complaint::at(range, error.to_string()).expected(error.expected)
    });
    checked.map(|_| resolved)
}

/// A number within its bounds, or the default.
pub(super) fn number(
    given: Option<&Spanned<u32>>,
    key: &str,
    default: u32,
    min: u32,
    max: u32,
) -> Result<u32, Complaint> {
    let Some(given) = given else { return Ok(default) };
    let value = *given.get_ref();
    if value < min || value > max {
        let problem = format!("{key}: {value} is out of range");
        return Err(Complaint::at(given.span(), problem).expected(format!("{min} to {max}")));
    }
    Ok(value)
}

fn size(given: Option<&Spanned<Size>>, key: &str, default: Size, min: Size, max: Size) -> Result<Size, Complaint> {
    let Some(given) = given else { return Ok(default) };
    let value = *given.get_ref();
    if value < min || value > max {
        let problem = format!("{key}: {value} is out of range");
        return Err(Complaint::at(given.span(), problem).expected(format!("{min} to {max}")));
    }
    Ok(value)
}

fn resolve_device(mut raw: RawDevice, at: std::ops::Range<usize>, others: &[Device]) -> Result<Device, Complaint> {
    let name = raw.name.get_ref();
    if name.is_empty() || others.iter().any(|other| other.name == *name) {
        let problem = format!("device name `{}` is empty or taken", shown(name));
        return Err(Complaint::at(raw.name.span(), problem).expected("a name of its own for each device"));
    }
    let name = name.clone();
    let row = find_row(&raw.backend)?;
    let (own, tiers) = raw.take_backend();
    let paths = tiers::paths_in(&own, &tiers);
    let scheduler = resolve_scheduler(raw.scheduler.as_ref(), row)?;
    let backend = if row.name == "tiered" {
        check_keys(&own, row, &[], at.clone())?;
        let range = raw.scheduler.as_ref().map_or(0..0, Spanned::span);
        tiers.resolve(&Placing { choice: scheduler, range }, at)?
    } else {
        let of_tiers = [
            ("slow", tiers.slow.as_ref().map(Spanned::span)),
            ("fast", tiers.fast.as_ref().map(Spanned::span)),
            ("map", tiers.map.as_ref().map(Spanned::span)),
            ("cache", tiers.cache.as_ref().map(Spanned::span)),
        ];
        check_keys(&own, row, &of_tiers, at.clone())?;
        resolve_backend(own, row, at)?
    };
    let taken: Vec<_> = others.iter().flat_map(|other| other.backend.paths()).collect();
    tiers::check_paths(&paths, &taken)?;
    let bytes_max =
        size(raw.request_bytes_max.as_ref(), "request_bytes_max", Size(256 << 10), Size(4096), Size(4 << 20))?;
    if !bytes_max.0.is_multiple_of(4096) {
        let range = raw.request_bytes_max.as_ref().map_or(0..0, Spanned::span);
        return Err(Complaint::at(range, "request_bytes_max is not a multiple of 4KiB").expected("such as 256KiB"));
    }
    let checksums = raw.checksums.unwrap_or(false);
    let buffers = Size(256 << 20);
    // Half of it holds the longest request, whose first and last part may fill a buffer that they do not need.
    let least = Size(3 * u64::from(crate::nbd::protocol::REQUEST_BYTES_MAX));
    Ok(Device {
        name,
        scheduler,
        depth: number(raw.depth.as_ref(), "depth", backend.depth(row), 1, 1024)?,
        queue_requests: number(raw.queue_requests.as_ref(), "queue_requests", 4096, 1, 65_536)?,
        request_bytes_max: bytes_max,
        merge: raw.merge.unwrap_or(true),
        buffer_bytes_max: size(raw.buffer_bytes_max.as_ref(), "buffer_bytes_max", buffers, least, Size(1 << 40))?,
        checksums,
        cores: resolve_workers(raw.cores.as_ref(), checksums)?,
        backend,
    })
}

/// The scheduler given, which the backend must be made for; without one, first come, first served.
fn resolve_scheduler(
    given: Option<&Spanned<SchedulerChoice>>,
    backend: &BackendRow,
) -> Result<SchedulerChoice, Complaint> {
    let Some(given) = given else { return Ok(SchedulerChoice::of(&POLICIES[0])) };
    let choice = *given.get_ref();
    if choice.row.places && backend.name != "tiered" {
        let problem =
            format!("scheduler {choice} places data on a second device, and backend {} has none", backend.name);
        let expected = "backend = \"tiered\", or a scheduler of one device";
        return Err(Complaint::at(given.span(), problem).expected(expected));
    }
    Ok(choice)
}

/// Without checksums there is nothing for workers to do.
fn resolve_workers(given: Option<&Spanned<RawWorkers>>, checksums: bool) -> Result<Option<Workers>, Complaint> {
    if let Some(given) = given.filter(|_| !checksums) {
        let problem = "cores: the device has no checksums, so that workers would have nothing to do";
        return Err(Complaint::at(given.span(), problem).expected("checksums = true beside it"));
    }
    if !checksums {
        return Ok(None);
    }
    let none = RawWorkers::default();
    let raw = given.map_or(&none, |given| given.get_ref());
    let schedule = raw.schedule.unwrap_or(ScheduleChoice::of(&SCHEDULES[0]));
    let workers = raw.workers.as_ref();
    let workers = workers.map(|given| number(Some(given), "workers", 1, 1, 256)).transpose()?;
    Ok(Some(Workers { schedule, workers }))
}

/// The row that the key `backend` names.
pub(super) fn find_row(name: &Spanned<String>) -> Result<&'static BackendRow, Complaint> {
    BackendRow::find(name.get_ref()).ok_or_else(|| {
        let names: Vec<_> = BACKENDS.iter().map(|row| row.name).collect();
        let error = unknown("backend", name.get_ref(), &names, "");
        Complaint::at(name.span(), error.problem).expected(error.expected).hint(error.hint)
    })
}

/// A key, and where it is, if it is given.
type Given = (&'static str, Option<std::ops::Range<usize>>);

/// Keys that other backends take, and those that this one lacks.
fn check_keys(raw: &RawBackend, row: &BackendRow, more: &[Given], at: std::ops::Range<usize>) -> Result<(), Complaint> {
    let given: [Given; 8] = [
        ("path", raw.path.as_ref().map(Spanned::span)),
        ("size", raw.size.as_ref().map(Spanned::span)),
        ("direct", raw.direct.as_ref().map(Spanned::span)),
        ("io", raw.io.as_ref().map(Spanned::span)),
        ("threads", raw.threads.as_ref().map(Spanned::span)),
        ("model", raw.model.as_ref().map(Spanned::span)),
        ("seed", raw.seed.as_ref().map(Spanned::span)),
        ("faults", raw.faults.as_ref().map(Spanned::span)),
    ];
    for (key, range) in given.iter().chain(more) {
        match range.clone() {
            Some(range) if !row.keys.contains(key) => {
                let problem = format!("backend {} takes no key `{key}`", row.name);
                return Err(Complaint::at(range, problem).expected(format!("of its own keys: {}", row.keys.join(", "))));
            }
            None if row.required.contains(key) => {
                return Err(Complaint::at(at, format!("backend {} needs the key `{key}`", row.name)));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn resolve_backend(
    raw: RawBackend,
    row: &BackendRow,
    at: std::ops::Range<usize>,
) -> Result<Backend, Complaint> {
    check_keys(&raw, row, &[], at)?;
    let (unit, max) = (Size(512), Size(1 << 60));
    let given = raw.size.as_ref().map(|given| size(Some(given), "size", unit, unit, max)).transpose()?;
    let needed = given.unwrap_or(unit);
    Ok(match row.name {
        "null" => Backend::Null { size: needed },
        "memory" => Backend::Memory { size: needed },
        "emulated" => Backend::Emulated {
            model: raw.model.map(Spanned::into_inner).unwrap_or_default(),
            size: given,
            seed: raw.seed.map_or(0, Spanned::into_inner),
        },
        "faulty" => Backend::Faulty { size: needed, faults: raw.faults.map(Spanned::into_inner).unwrap_or_default() },
        _ => Backend::File {
            path: raw.path.map(Spanned::into_inner).unwrap_or_default(),
            size: given,
            direct: raw.direct.is_none_or(Spanned::into_inner),
            io: raw.io.map(Spanned::into_inner).unwrap_or_default(),
            threads: number(raw.threads.as_ref(), "threads", 4, 1, 256)?,
        },
    })
}

/// Schedulers are made with places for the groups that the spec has.
fn count_groups(devices: &mut [Device], groups: &[RawGroup]) {
    for device in devices {
        let its = groups.iter().filter(|group| *group.device.get_ref() == device.name).count() as u64;
        let SchedulerChoice { row, settings } = &mut device.scheduler;
        if row.get(settings, "groups").is_some_and(|places| places < its) {
            // More than can be had is said of the group that finds no place.
            let most =
                row.parameters.iter().find(|parameter| parameter.name == "groups").map_or(0, |groups| groups.max);
            let _ = row.set(settings, "groups", its.min(most));
        }
    }
}

/// What exports and tenants refer to.
struct Known<'a> {
    devices: &'a [Device],
    groups: &'a [Group],
    judge: Judge,
    /// Classes resolved so far.
    classes: u32,
}

impl Known<'_> {
    /// What the next class is entitled to.
    fn entitle(
        &mut self,
        device: (usize, &Device),
        group: Option<&Spanned<String>>,
        raw: &RawShare,
        named: Range<usize>,
    ) -> Result<Option<ClassShare>, Complaint> {
        let class = StreamId(self.classes);
        self.classes += 1;
        let Some(named_group) = group else {
            return self.judge.resolve(device, (Holder::Class(class), None), raw, named);
        };
        let name = named_group.get_ref();
        let its: Vec<&Group> = self.groups.iter().filter(|group| group.device == device.1.name).collect();
        let Some(number) = its.iter().position(|group| group.name == *name) else {
            let names: Vec<_> = its.iter().map(|group| group.name.as_str()).collect();
            let what = format!("group of device {}", device.1.name);
            let error = unknown(&what, name, &names, "add a [[group]] of this name");
            return Err(Complaint::at(named_group.span(), error.problem).expected(error.expected).hint(error.hint));
        };
        let holder = (Holder::Class(class), Some(GroupId(number as u32)));
        self.judge.resolve(device, holder, raw, named_group.span())
    }
}

fn find_device<'a>(name: &Spanned<String>, devices: &'a [Device]) -> Result<(usize, &'a Device), Complaint> {
    let found = devices.iter().enumerate().find(|(_, device)| device.name == *name.get_ref());
    found.ok_or_else(|| {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        let error = unknown("device", name.get_ref(), &names, "add a [[device]] of this name");
        Complaint::at(name.span(), error.problem).expected(error.expected).hint(error.hint)
    })
}

fn resolve_group(
    mut raw: RawGroup,
    devices: &[Device],
    others: &[Group],
    judge: &mut Judge,
) -> Result<Group, Complaint> {
    let name = raw.name.get_ref();
    if name.is_empty() || others.iter().any(|other| other.name == *name) {
        let problem = format!("group name `{}` is empty or taken", shown(name));
        return Err(Complaint::at(raw.name.span(), problem).expected("a name of its own for each group"));
    }
    let device = find_device(&raw.device, devices)?;
    let number = others.iter().filter(|other| other.device == device.1.name).count() as u32;
    let share = judge.resolve(device, (Holder::Group(GroupId(number)), None), &raw.take_share(), raw.name.span())?;
    let Some(share) = share else { return Err(Complaint::at(raw.name.span(), "this group changes nothing")) };
    Ok(Group { share, name: raw.name.into_inner(), device: raw.device.into_inner() })
}

fn resolve_export(mut raw: RawExport, others: &[Export], known: &mut Known<'_>) -> Result<Export, Complaint> {
    let name = raw.name.get_ref();
    let is_known = others.iter().any(|other| other.name == *name);
    if is_known || name.len() > STRING_BYTES_MAX {
        let problem = format!("export name `{}` is taken, or too long", shown(name));
        let expected = format!("a name of its own for each export, of at most {STRING_BYTES_MAX} bytes");
        return Err(Complaint::at(raw.name.span(), problem).expected(expected));
    }
    let device = find_device(&raw.device, known.devices)?;
    let share = raw.take_share();
    let share = known.entitle(device, raw.group.as_ref(), &share, raw.name.span())?;
    if let Some(description) = &raw.description
        && description.get_ref().len() > STRING_BYTES_MAX
    {
        return Err(Complaint::at(description.span(), format!("longer than {STRING_BYTES_MAX} bytes")));
    }
    Ok(Export {
        share,
        name: raw.name.into_inner(),
        description: raw.description.map(Spanned::into_inner).unwrap_or_default(),
        device: raw.device.into_inner(),
        read_only: raw.read_only.unwrap_or(false),
        group: raw.group.map(Spanned::into_inner),
    })
}

fn resolve_tenant(
    mut raw: RawTenant,
    exports: &[Export],
    others: &[Tenant],
    known: &mut Known<'_>,
) -> Result<Tenant, Complaint> {
    let name = raw.name.get_ref();
    let is_export = exports.iter().any(|export| export.name == *name);
    if name.is_empty() || is_export || others.iter().any(|other| other.name == *name) {
        let problem = format!("tenant name `{}` is empty, or taken by a tenant or an export", shown(name));
        return Err(Complaint::at(raw.name.span(), problem).expected("a name of its own for each class of clients"));
    }
    let Some(export) = exports.iter().find(|export| export.name == *raw.export.get_ref()) else {
        let names: Vec<_> = exports.iter().map(|export| export.name.as_str()).collect();
        let error = unknown("export", raw.export.get_ref(), &names, "add an [[export]] of this name");
        return Err(Complaint::at(raw.export.span(), error.problem).expected(error.expected).hint(error.hint));
    };
    let certificate = raw.certificate.get_ref();
    let same = others.iter().find(|other| other.export == export.name && other.certificate == *certificate);
    if certificate.is_empty() || same.is_some() {
        let problem = format!("certificate `{}` is empty, or another tenant's of this export", shown(certificate));
        return Err(Complaint::at(raw.certificate.span(), problem).expected("a name that only its certificates bear"));
    }
    // Exports are resolved: their devices are known.
    let device = known.devices.iter().enumerate().find(|(_, device)| device.name == export.device);
    let Some(device) = device else { return Err(Complaint::at(raw.export.span(), "its device is not known")) };
    let share = raw.take_share();
    let share = known.entitle(device, raw.group.as_ref(), &share, raw.name.span())?;
    Ok(Tenant {
        share,
        name: raw.name.into_inner(),
        export: raw.export.into_inner(),
        certificate: raw.certificate.into_inner(),
        group: raw.group.map(Spanned::into_inner),
    })
}
