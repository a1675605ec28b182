//! What stands in a spec, and does it make sense together?

use std::path::PathBuf;

use ioweir_core::tenant::WEIGHT_MAX;
use ioweir_core::{Nanos, QueueLimits, StreamId};
use ioweir_lab::choice::{ChoiceError, ScheduleChoice, SchedulerChoice, unknown};
use ioweir_lab::units::shown;
use serde::Deserialize;
use toml::Spanned;

use super::amount::{Schedule, Scheduler, Size, Span};
use super::backends::{BACKENDS, Backend, BackendRow, Faults, FileIo};
use super::{Device, Export, ExportShare, Listen, Server, Spec, Workers};
use crate::nbd::protocol::STRING_BYTES_MAX;
use ioweir_lab::spec::{Complaint, SpecError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpec {
    #[serde(default)]
    server: RawServer,
    #[serde(default)]
    device: Vec<Spanned<RawDevice>>,
    #[serde(default)]
    export: Vec<RawExport>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    #[serde(default)]
    listen: Vec<Listen>,
    connections_max: Option<Spanned<u32>>,
    handshake_timeout: Option<Span>,
    stall_timeout: Option<Span>,
    shutdown_timeout: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDevice {
    name: Spanned<String>,
    backend: Spanned<String>,
    scheduler: Option<Spanned<String>>,
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
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkers {
    schedule: Option<Spanned<String>>,
    workers: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExport {
    name: Spanned<String>,
    #[serde(default)]
    description: Option<Spanned<String>>,
    device: Spanned<String>,
    #[serde(default)]
    read_only: bool,
    weight: Option<Spanned<u32>>,
    reservation_per_second: Option<Spanned<u64>>,
    limit_per_second: Option<Spanned<u64>>,
    burst: Option<Spanned<u64>>,
    latency: Option<Spanned<Span>>,
}

pub(super) fn parse(file: &str, text: &str) -> Result<Spec, SpecError> {
    let raw: Result<RawSpec, Complaint> = toml::from_str(text).map_err(|error| Complaint::of_toml(&error));
    raw.and_then(resolve).map_err(|complaint| complaint.in_file(file, Some(text)))
}

fn resolve(raw: RawSpec) -> Result<Spec, Complaint> {
    let server = resolve_server(&raw.server)?;
    let mut devices: Vec<Device> = Vec::new();
    for device in raw.device {
        let range = device.span();
        devices.push(resolve_device(device.into_inner(), range, &devices)?);
    }
    let mut exports = Vec::new();
    for export in raw.export {
        exports.push(resolve_export(export, &devices, &exports)?);
    }
    if exports.is_empty() {
        let hint = "add [[export]] with name = \"a\" and the device it shows";
        return Err(Complaint::of_all("there is nothing to serve").expected("at least one [[export]]").hint(hint));
    }
    Ok(Spec { server, device: devices, export: exports })
}

fn resolve_server(raw: &RawServer) -> Result<Server, Complaint> {
    let span = |given: Option<Span>, seconds| given.unwrap_or(Span(ioweir_core::Nanos::from_seconds(seconds)));
    Ok(Server {
        listen: raw.listen.clone(),
        connections_max: number(raw.connections_max.as_ref(), "connections_max", 64, 1, 4096)?,
        handshake_timeout: span(raw.handshake_timeout, 10),
        stall_timeout: span(raw.stall_timeout, 30),
        shutdown_timeout: span(raw.shutdown_timeout, 10),
    })
}

/// A number within its bounds, or the default.
fn number(given: Option<&Spanned<u32>>, key: &str, default: u32, min: u32, max: u32) -> Result<u32, Complaint> {
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

fn resolve_device(raw: RawDevice, at: std::ops::Range<usize>, others: &[Device]) -> Result<Device, Complaint> {
    let name = raw.name.get_ref();
    if name.is_empty() || others.iter().any(|other| other.name == *name) {
        let problem = format!("device name `{}` is empty or taken", shown(name));
        return Err(Complaint::at(raw.name.span(), problem).expected("a name of its own for each device"));
    }
    let row = BackendRow::find(raw.backend.get_ref()).ok_or_else(|| {
        let names: Vec<_> = BACKENDS.iter().map(|row| row.name).collect();
        let error = unknown("backend", raw.backend.get_ref(), &names, "");
        Complaint::at(raw.backend.span(), error.problem).expected(error.expected).hint(error.hint)
    })?;
    check_keys(&raw, row, at)?;
    let unit = Size(512);
    let bytes_max =
        size(raw.request_bytes_max.as_ref(), "request_bytes_max", Size(256 << 10), Size(4096), Size(4 << 20))?;
    if !bytes_max.0.is_multiple_of(4096) {
        let range = raw.request_bytes_max.as_ref().map_or(0..0, Spanned::span);
        return Err(Complaint::at(range, "request_bytes_max is not a multiple of 4KiB").expected("such as 256KiB"));
    }
    let buffers = Size(128 << 20);
    let scheduler = resolve_scheduler(raw.scheduler.as_ref())?;
    let checksums = raw.checksums.unwrap_or(false);
    // Half of it holds the longest request, whose first and last part may fill a buffer that they do not need.
    let least = Size(3 * u64::from(crate::nbd::protocol::REQUEST_BYTES_MAX));
    Ok(Device {
        name: name.clone(),
        scheduler,
        depth: number(raw.depth.as_ref(), "depth", row.depth, 1, 1024)?,
        queue_requests: number(raw.queue_requests.as_ref(), "queue_requests", 4096, 1, 65_536)?,
        request_bytes_max: bytes_max,
        merge: raw.merge.unwrap_or(true),
        buffer_bytes_max: size(raw.buffer_bytes_max.as_ref(), "buffer_bytes_max", buffers, least, Size(1 << 40))?,
        checksums,
        cores: resolve_workers(raw.cores.as_ref(), checksums)?,
        backend: resolve_backend(raw, row, unit)?,
    })
}

/// Without one, first come, first served.
fn resolve_scheduler(given: Option<&Spanned<String>>) -> Result<Scheduler, Complaint> {
    let (text, range) = given.map_or(("noop", 0..0), |given| (given.get_ref().as_str(), given.span()));
    let choice: Result<SchedulerChoice, ChoiceError> = text.parse();
    let choice = choice
        .map_err(|error| Complaint::at(range.clone(), error.problem).expected(error.expected).hint(error.hint))?;
    if choice.row.places {
        let problem = format!("scheduler {choice} places data on a second device, which an export cannot have yet");
        return Err(Complaint::at(range, problem).expected("a scheduler of one device"));
    }
    Ok(Scheduler(choice))
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
    let (text, range) =
        raw.schedule.as_ref().map_or(("baseline", 0..0), |given| (given.get_ref().as_str(), given.span()));
    let choice: Result<ScheduleChoice, ChoiceError> = text.parse();
    let choice =
        choice.map_err(|error| Complaint::at(range, error.problem).expected(error.expected).hint(error.hint))?;
    let workers = raw.workers.as_ref();
    let workers = workers.map(|given| number(Some(given), "workers", 1, 1, 256)).transpose()?;
    Ok(Some(Workers { schedule: Schedule(choice), workers }))
}

/// Keys that other backends take, and those that this one lacks.
fn check_keys(raw: &RawDevice, row: &BackendRow, at: std::ops::Range<usize>) -> Result<(), Complaint> {
    let given = [
        ("path", raw.path.as_ref().map(Spanned::span)),
        ("size", raw.size.as_ref().map(Spanned::span)),
        ("direct", raw.direct.as_ref().map(Spanned::span)),
        ("io", raw.io.as_ref().map(Spanned::span)),
        ("threads", raw.threads.as_ref().map(Spanned::span)),
        ("model", raw.model.as_ref().map(Spanned::span)),
        ("seed", raw.seed.as_ref().map(Spanned::span)),
        ("faults", raw.faults.as_ref().map(Spanned::span)),
    ];
    for (key, range) in given {
        match range {
            Some(range) if !row.keys.contains(&key) => {
                let problem = format!("backend {} takes no key `{key}`", row.name);
                return Err(Complaint::at(range, problem).expected(format!("of its own keys: {}", row.keys.join(", "))));
            }
            None if row.required.contains(&key) => {
                return Err(Complaint::at(at, format!("backend {} needs the key `{key}`", row.name)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn resolve_backend(raw: RawDevice, row: &BackendRow, unit: Size) -> Result<Backend, Complaint> {
    let max = Size(1 << 60);
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

fn resolve_export(raw: RawExport, devices: &[Device], others: &[Export]) -> Result<Export, Complaint> {
    let name = raw.name.get_ref();
    let is_known = others.iter().any(|other| other.name == *name);
    if is_known || name.len() > STRING_BYTES_MAX {
        let problem = format!("export name `{}` is taken, or too long", shown(name));
        let expected = format!("a name of its own for each export, of at most {STRING_BYTES_MAX} bytes");
        return Err(Complaint::at(raw.name.span(), problem).expected(expected));
    }
    let device = raw.device.get_ref();
    let Some(on) = devices.iter().find(|known| known.name == *device) else {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        let error = unknown("device", device, &names, "add a [[device]] of this name");
        return Err(Complaint::at(raw.device.span(), error.problem).expected(error.expected).hint(error.hint));
    };
    let share = resolve_share(&raw, on)?;
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
        read_only: raw.read_only,
    })
}

/// What an export is entitled to. Keys that would change nothing are refused.
fn resolve_share(raw: &RawExport, device: &Device) -> Result<Option<ExportShare>, Complaint> {
    let SchedulerChoice { row, settings } = device.scheduler.0;
    let given = [
        ("weight", raw.weight.as_ref().map(Spanned::span)),
        ("reservation_per_second", raw.reservation_per_second.as_ref().map(Spanned::span)),
        ("limit_per_second", raw.limit_per_second.as_ref().map(Spanned::span)),
        ("burst", raw.burst.as_ref().map(Spanned::span)),
        ("latency", raw.latency.as_ref().map(Spanned::span)),
    ];
    let mut policy = row.build(QueueLimits::with_units(1), &settings);
    let Some(control) = policy.tenants_mut() else {
        let Some((key, range)) = given.into_iter().find_map(|(key, range)| Some((key, range?))) else {
            return Ok(None);
        };
        let problem = format!("{key}: scheduler {} knows no shares, so that this would change nothing", row.name);
        return Err(Complaint::at(range, problem).expected("a scheduler that tells tenants apart, such as sfq"));
    };
    let value = |given: &Option<Spanned<u64>>, default| given.as_ref().map_or(default, |given| *given.get_ref());
    let share = ExportShare {
        weight: number(raw.weight.as_ref(), "weight", 100, 1, WEIGHT_MAX)?,
        reservation_per_second: value(&raw.reservation_per_second, 0),
        limit_per_second: value(&raw.limit_per_second, 0),
        burst: value(&raw.burst, 1),
        latency: raw.latency.as_ref().map(|latency| *latency.get_ref()),
    };
    control.configure(Nanos::ZERO, StreamId(0), share.as_share()).map_err(|error| {
        let range = given.into_iter().find_map(|(_, range)| range).unwrap_or_else(|| raw.name.span());
        Complaint::at(range, error.to_string())
    })?;
    Ok(Some(share))
}
