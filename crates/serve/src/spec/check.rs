//! Checks of a spec as a whole: addresses, names by which tables refer to each other, and shares that schedulers can grant.

use ioweir_config::{Complaint, IoPriority, KeySet as _, ShareKeys, Size, format_bytes, shown, unknown};
use ioweir_core::policy::{Limits, POLICIES, Policy, PolicyRow, Reads};
use ioweir_core::tenant::{GroupId, ShareError, WEIGHT_MAX};
use ioweir_core::{Nanos, QueueLimits, StreamId};

use super::classes::WEIGHT;
use super::{Allowed, Backend, Device, Export, Group, Holder, Listen, Server, Spec, Tls};
use crate::buffer;
use crate::nbd::protocol::STRING_BYTES_MAX;
use crate::tls;

/// The largest limit on the number of clients.
const CONNECTIONS_MAX: u32 = 16_384;

/// Refuses a value outside its bounds; the last part of `key` names it.
pub(super) fn within<T: PartialOrd + std::fmt::Display>(key: &str, value: T, min: T, max: T) -> Result<(), Complaint> {
    if value >= min && value <= max {
        return Ok(());
    }
    let name = key.rsplit('.').next().unwrap_or(key);
    Err(Complaint::of_value(key, format!("{name}: {value} is out of range")).expected(format!("{min} to {max}")))
}

/// Refuses a name that is not in a list.
fn named<'a, T>(
    key: &str,
    (what, name): (&str, &str),
    all: &'a [T],
    name_of: impl Fn(&T) -> &str,
    hint: &str,
) -> Result<(usize, &'a T), Complaint> {
    all.iter().enumerate().find(|(_, one)| name_of(one) == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(&name_of).collect();
        let error = unknown(what, name, &names, hint);
        Complaint::of_value(key, error.problem).expected(error.expected).hint(error.hint)
    })
}

impl Spec {
    /// The spec with every share filled in, if all of it can be served together.
    pub(crate) fn checked(mut self) -> Result<Self, Complaint> {
        self.note_lost_devices();
        check_server(&self.server)?;
        check_sockets(&self)?;
        for (number, device) in self.present_devices() {
            check_memory(device, self.server.connections_max, &format!("device[{number}]"))?;
        }
        let mut shares = Shares::new(&self.device);
        self.check_groups(&mut shares)?;
        self.check_exports(&mut shares)?;
        self.check_tenants(&mut shares)?;
        self.check_services()?;
        self.share_services(&mut shares)?;
        super::fleet::check(&self)?;
        Ok(self)
    }

    /// Keeps the link between removed exports and their device when that is removed, too.
    fn note_lost_devices(&mut self) {
        let Self { device, export, .. } = self;
        let lost = |export: &&mut Export| export.is_removed && export.lost_device.is_none();
        for export in export.iter_mut().filter(lost) {
            // The last device of the name is the one that existed together with the export.
            let its = device.iter().rposition(|device| device.name == export.device);
            export.lost_device = its.filter(|number| device[*number].is_removed);
        }
    }

    fn check_groups(&mut self, shares: &mut Shares) -> Result<(), Complaint> {
        for number in 0..self.group.len() {
            let (others, rest) = self.group.split_at_mut(number);
            let Some(group) = rest.first_mut() else { break };
            let at = format!("group[{number}]");
            if group.name.is_empty() || others.iter().any(|other| other.name == group.name) {
                let problem = format!("group name `{}` is empty or taken", shown(&group.name));
                return Err(
                    Complaint::of_value(format!("{at}.name"), problem).expected("a name of its own for each group")
                );
            }
            let device = find_device(&self.device, &group.device, &at)?;
            if group.share.group.is_some() {
                let problem = "group: a group cannot be in a group";
                return Err(Complaint::of_value(format!("{at}.group"), problem));
            }
            let id = GroupId(others.iter().filter(|other| other.device == group.device).count() as u32);
            shares.give(device, (Holder::Group(id), None), &mut group.share, &at)?;
        }
        Ok(())
    }

    fn check_exports(&mut self, shares: &mut Shares) -> Result<(), Complaint> {
        if self.present_exports().next().is_none()
            && !self.present_devices().any(|(_, device)| device.volumes.is_some())
        {
            let hint = "add [[export]] with name = \"a\" and the device it shows";
            return Err(Complaint::of_all("there is nothing to serve").expected("at least one [[export]]").hint(hint));
        }
        for number in 0..self.export.len() {
            let (others, rest) = self.export.split_at_mut(number);
            let Some(export) = rest.first_mut() else { break };
            let at = format!("export[{number}]");
            if export.is_removed {
                shares.classes += 1;
                continue;
            }
            if others.iter().any(|other| !other.is_removed && other.name == export.name)
                || export.name.len() > STRING_BYTES_MAX
            {
                let problem = format!("export name `{}` is taken, or too long", shown(&export.name));
                let expected = format!("a name of its own for each export, of at most {STRING_BYTES_MAX} bytes");
                return Err(Complaint::of_value(format!("{at}.name"), problem).expected(expected));
            }
            if export.description.len() > STRING_BYTES_MAX {
                let problem = format!("longer than {STRING_BYTES_MAX} bytes");
                return Err(Complaint::of_value(format!("{at}.description"), problem));
            }
            if !export.offset.unwrap_or(Size(0)).0.is_multiple_of(4096) {
                let problem = "offset is not a multiple of 4KiB";
                return Err(Complaint::of_value(format!("{at}.offset"), problem).expected("such as 1GiB"));
            }
            within(&format!("{at}.connections_max"), export.connections_max.unwrap_or(1), 1, CONNECTIONS_MAX)?;
            let device = find_device(&self.device, &export.device, &at)?;
            check_vhost(export, others, &at)?;
            check_part(export, device.1, &at)?;
            check_volume(export, device.1, &at)?;
            check_priority(export.priority, device.1, &at)?;
            shares.give_class(device, &self.group, &mut export.share, &at)?;
        }
        for device in self.device.iter_mut().filter(|device| !device.is_removed) {
            let present = self.export.iter().filter(|export| !export.is_removed);
            let mut its = present.filter(|export| export.device == device.name).peekable();
            device.read_only = its.peek().is_some() && its.all(|export| export.read_only);
        }
        self.check_access()
    }

    /// If one export restricts access and another does not mention it, that is a mistake: all clients could open the latter.
    fn check_access(&self) -> Result<(), Complaint> {
        let states = |export: &Export| !export.allow.is_empty();
        if let Some((number, _)) = self.present_exports().find(|(_, export)| !states(export))
            && let Some((_, other)) = self.present_exports().find(|(_, export)| states(export))
        {
            let problem = format!(
                "allow: every client may open it, and export `{}` names the clients that may open it",
                shown(&other.name)
            );
            let complaint = Complaint::of_value(format!("export[{number}].name"), problem);
            return Err(complaint.expected("allow beside it, such as [\"uid:1000\"] or [\"anyone\"]"));
        }
        let asks_clients = self.server.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
        for (number, export) in self.present_exports() {
            let names = export.allow.iter().filter_map(|allowed| match allowed {
                Allowed::Certificate(name) => Some(name),
                _ => None,
            });
            names.into_iter().try_for_each(|name| check_certificate(&format!("export[{number}].allow"), name))?;
            let by_certificate = |allowed: &&Allowed| matches!(allowed, Allowed::Certificate(_));
            if let Some(allowed) = export.allow.iter().find(by_certificate).filter(|_| !asks_clients) {
                let problem = format!("allow: no client is asked for a certificate, so that none is {allowed}");
                let hint =
                    "add [server.tls] with certificate, key, and clients: the authority that signs their certificates";
                return Err(Complaint::of_value(format!("export[{number}].allow"), problem).hint(hint));
            }
        }
        Ok(())
    }

    fn check_tenants(&mut self, shares: &mut Shares) -> Result<(), Complaint> {
        let asks_clients = self.server.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
        if !self.tenant.is_empty() && !asks_clients {
            let problem = "certificate: no client is asked for one, so that no client would be this tenant";
            let hint = "add [server.tls] with certificate, key, and clients: the authority that signs the certificates of clients";
            let complaint = Complaint::of_value("tenant[0].certificate", problem);
            return Err(complaint.expected("a server with client certificates").hint(hint));
        }
        for number in 0..self.tenant.len() {
            let (others, rest) = self.tenant.split_at_mut(number);
            let Some(tenant) = rest.first_mut() else { break };
            let at = format!("tenant[{number}]");
            let key = |name: &str| format!("{at}.{name}");
            let is_taken = self.export.iter().any(|export| !export.is_removed && export.name == tenant.name)
                || others.iter().any(|other| other.name == tenant.name);
            if tenant.name.is_empty() || is_taken {
                let problem =
                    format!("tenant name `{}` is empty, or taken by a tenant or an export", shown(&tenant.name));
                let expected = "a name of its own for each class of clients";
                return Err(Complaint::of_value(key("name"), problem).expected(expected));
            }
            let hint = "add an [[export]] of this name";
            let present: Vec<&Export> = self.export.iter().filter(|export| !export.is_removed).collect();
            let (_, export) = named(&key("export"), ("export", &tenant.export), &present, |export| &export.name, hint)?;
            let mut same = others.iter().filter(|other| other.export == tenant.export);
            if tenant.certificate.is_empty() || same.any(|other| other.certificate == tenant.certificate) {
                let name = shown(&tenant.certificate);
                let problem = format!("certificate `{name}` is empty, or another tenant's of this export");
                let expected = "a name that only its certificates bear";
                return Err(Complaint::of_value(key("certificate"), problem).expected(expected));
            }
            check_certificate(&key("certificate"), &tenant.certificate)?;
            within(&key("connections_max"), tenant.connections_max.unwrap_or(1), 1, CONNECTIONS_MAX)?;
            let device = find_device(&self.device, &export.device, &at)?;
            check_priority(tenant.priority, device.1, &at)?;
            shares.give_class(device, &self.group, &mut tenant.share, &at)?;
        }
        Ok(())
    }
}

impl Spec {
    fn share_services(&mut self, shares: &mut Shares) -> Result<(), Complaint> {
        for (name, service) in &mut self.service {
            let at = format!("service.\"{name}\"");
            let device = find_device(&self.device, &service.device, &at)?;
            check_priority(service.priority, device.1, &at)?;
            shares.give_class(device, &self.group, &mut service.share, &at)?;
        }
        Ok(())
    }
}

/// The limits of shares, with the kind of schedulers that keep them.
const LIMITS: [(&str, Limits); 6] = [
    ("limit", Limits::Both),
    ("limit_bytes", Limits::Both),
    ("rbps", Limits::Directions),
    ("wbps", Limits::Directions),
    ("riops", Limits::Directions),
    ("wiops", Limits::Directions),
];

/// A key of a share that the scheduler does not read, and the reason. Default values are allowed.
fn unread(keys: &ShareKeys, reads: Reads) -> Option<(&'static str, &'static str)> {
    let has_limit = keys.limit.is_some_and(|rate| rate.0 > 0);
    let is_weighted = keys.weight.is_some_and(|weight| weight != WEIGHT) && keys.group.is_none();
    [
        ("weight", "has no weights", is_weighted && !reads.weight),
        ("reservation", "keeps no reservations", keys.reservation.is_some() && !reads.reservation),
        ("latency", "keeps no latencies", keys.latency.is_some() && !reads.latency),
        (
            "burst",
            "has bursts at a limit only",
            keys.burst.is_some_and(|burst| burst != 0) && !has_limit && !reads.burst,
        ),
    ]
    .into_iter()
    .find_map(|(key, what, is_unread)| is_unread.then_some((key, what)))
}

/// The condition under which a key of a share, or a priority, has an effect, for the words of an error.
fn reading(key: &str) -> String {
    let reads: fn(&PolicyRow) -> bool = match key {
        "burst" => return "limit beside it, such as \"500/s\"".into(),
        "weight" => |row| row.reads.weight,
        "reservation" => |row| row.reads.reservation,
        "latency" => |row| row.reads.latency,
        _ => |row| row.reads.priority,
    };
    let names: Vec<&str> = POLICIES.iter().filter(|row| reads(row)).map(|row| row.name).collect();
    format!("a scheduler that does, one of {}", names.join(", "))
}

/// Refuses a priority where the scheduler does not read it.
fn check_priority(priority: Option<IoPriority>, device: &Device, at: &str) -> Result<(), Complaint> {
    if priority.is_none() || device.scheduler.reads().priority {
        return Ok(());
    }
    let problem = format!(
        "priority: scheduler {} has no I/O priorities, so that this would change nothing",
        device.scheduler.row.name
    );
    let expected = format!("{}, alone or below an order of tenants", reading("priority"));
    Err(Complaint::of_value(format!("{at}.priority"), problem).expected(expected))
}

/// Refuses wildcards in the name of a certificate: names are compared letter by letter.
fn check_certificate(key: &str, name: &str) -> Result<(), Complaint> {
    if !name.contains('*') {
        return Ok(());
    }
    let problem = format!("certificate `{}`: names are compared letter by letter, `*` included", shown(name));
    let expected = "a whole name, as it stands in the certificate; several names are several entries";
    Err(Complaint::of_value(key, problem).expected(expected))
}

/// Refuses a socket for virtual machines that is not a unix socket of its own; its clients are known by their user on this machine.
fn check_vhost(export: &Export, others: &[Export], at: &str) -> Result<(), Complaint> {
    let Some(place) = &export.vhost else { return Ok(()) };
    let wrong = |problem: String| Complaint::of_value(format!("{at}.vhost"), format!("vhost: {problem}"));
    if !matches!(place, Listen::Unix(_)) {
        let problem = format!("{place}: the memory of a guest is shared over a unix socket only");
        return Err(wrong(problem).expected("a unix socket, such as \"unix:/run/vm.sock\""));
    }
    if !cfg!(feature = "vhost") {
        return Err(wrong("this build is without it".into()).hint("build it with the feature `vhost`"));
    }
    let is_same = |other: &&Export| !other.is_removed && other.vhost.as_ref() == Some(place);
    if let Some(other) = others.iter().find(is_same) {
        return Err(
            wrong(format!("{place} is that of export `{}`", shown(&other.name))).expected("a socket of its own")
        );
    }
    let by_process = |allowed: &Allowed| matches!(allowed, Allowed::Anyone | Allowed::User(_) | Allowed::Group(_));
    if !export.allow.is_empty() && !export.allow.iter().any(by_process) {
        let expected = "\"uid:NUMBER\", \"gid:NUMBER\" or \"anyone\" in `allow`";
        return Err(
            wrong("`allow` names no process of this machine, so that none could connect".into()).expected(expected)
        );
    }
    Ok(())
}

/// Checks that an export of a device with volumes shows one of them.
fn check_volume(export: &Export, device: &Device, at: &str) -> Result<(), Complaint> {
    match (&device.volumes, &export.volume) {
        (Some(_), None) => {
            let problem = format!("device {} has volumes, and an export shows one of them", device.name);
            let complaint = Complaint::of_value(format!("{at}.device"), problem);
            Err(complaint.expected("volume = \"NAME\" beside it"))
        }
        (None, Some(_)) => {
            let problem = format!("volume: device {} has none", device.name);
            Err(Complaint::of_value(format!("{at}.volume"), problem).expected("a device with `volumes = \"FILE\"`"))
        }
        _ => Ok(()),
    }
}

/// Checks that an export of a joined device shows one of its parts.
fn check_part(export: &Export, device: &Device, at: &str) -> Result<(), Complaint> {
    let key = format!("{at}.part");
    match (&device.backend, &export.part) {
        (Backend::Joined { part }, Some(name)) => {
            let what = format!("part of device {}", device.name);
            named(&key, (&what, name), part, |part| &part.name, "add a [[device.part]] of this name").map(drop)
        }
        (Backend::Joined { part }, None) => {
            let names: Vec<_> = part.iter().map(|part| part.name.as_str()).collect();
            let problem = format!("device {} is joined, and an export shows one of its parts", device.name);
            let complaint = Complaint::of_value(format!("{at}.device"), problem);
            Err(complaint.expected(format!("part = one of {} beside it", names.join(", "))))
        }
        (_, Some(_)) => {
            let problem = format!("part: device {} has none", device.name);
            Err(Complaint::of_value(key, problem).expected("a device with backend = \"joined\""))
        }
        (_, None) => Ok(()),
    }
}

fn find_device<'a>(devices: &'a [Device], name: &str, at: &str) -> Result<(usize, &'a Device), Complaint> {
    let hint = "add a [[device]] of this name";
    let present: Vec<_> = devices.iter().enumerate().filter(|(_, device)| !device.is_removed).collect();
    named(&format!("{at}.device"), ("device", name), &present, |(_, device)| &device.name, hint).map(|(_, its)| *its)
}

fn check_server(server: &Server) -> Result<(), Complaint> {
    within("server.connections_max", server.connections_max, 1, CONNECTIONS_MAX)?;
    within("server.connections_per_peer_max", server.connections_per_peer_max.unwrap_or(1), 1, CONNECTIONS_MAX)?;
    if let Some(tls) = &server.tls {
        check_tls(tls)?;
    }
    check_local("control", server.control.as_ref(), |place| matches!(place, Listen::Unix(_)))?;
    check_local("watch", server.watch.as_ref(), Listen::is_local)
}

/// The most data that a client may always have in flight, however much the others hold.
const CLIENT_BYTES_MAX: u64 = 1 << 20;

/// The data that each of so many clients may always have in flight: all together have a quarter of the memory at most.
pub(crate) fn client_bytes(bytes_max: u64, clients_max: u32) -> u64 {
    (bytes_max / 4 / u64::from(clients_max.max(1))).min(CLIENT_BYTES_MAX)
}

/// Refuses a bound of memory in which a client has no room for a part of a request while others hold as much as they may.
fn check_memory(device: &Device, clients_max: u32, at: &str) -> Result<(), Complaint> {
    let (bytes_max, part) = (device.buffer_bytes_max.0, buffer::capacity_for(device.request_bytes_max.0));
    let each = client_bytes(bytes_max, clients_max);
    if each >= part {
        return Ok(());
    }
    let least = Size((4 * u64::from(clients_max) * part).next_multiple_of(1 << 20));
    let problem = format!(
        "buffer_bytes_max: a quarter of {}, divided among connections_max = {clients_max} clients, is {} for each, less than \
         one part of a request",
        device.buffer_bytes_max,
        format_bytes(each)
    );
    let (clients, shorter) = (bytes_max / 4 / part, buffer::longest_within(each));
    let mut hint = format!("buffer_bytes_max = \"{least}\"");
    if clients > 0 {
        hint += &format!(", connections_max = {clients}");
    }
    if shorter > 0 {
        hint += &format!(", or request_bytes_max = \"{}\", the longest part", Size(shorter));
    }
    Err(Complaint::of_value(format!("{at}.buffer_bytes_max"), problem).expected(format!("at least {least}")).hint(hint))
}

/// Refuses permissions of unix sockets where there are no such sockets.
fn check_sockets(spec: &Spec) -> Result<(), Complaint> {
    let server = &spec.server;
    let given = [("socket_mode", server.socket_mode.is_some()), ("socket_group", server.socket_group.is_some())];
    let is_unix = |place: &Listen| matches!(place, Listen::Unix(_));
    // Without addresses, the sockets come from the command line.
    if let Some((key, _)) = given.into_iter().find(|(_, is_given)| *is_given)
        && !server.listen.is_empty()
        && !spec.sockets_of_clients().any(is_unix)
    {
        let problem = format!("{key}: clients have no unix socket, so that this would change nothing");
        let expected = "a unix socket in `listen`, such as \"unix:/run/ioweir.sock\"";
        return Err(Complaint::of_value(format!("server.{key}"), problem).expected(expected));
    }
    Ok(())
}

/// Refuses an address that other machines can reach.
fn check_local(key: &str, given: Option<&Listen>, is_local: impl Fn(&Listen) -> bool) -> Result<(), Complaint> {
    let Some(place) = given.filter(|place| !is_local(place)) else { return Ok(()) };
    let problem = format!("{key}: {place} can be reached by others, and nothing there asks who they are");
    let tcp = if key == "watch" { ", or a port of this machine, such as \"tcp:127.0.0.1:9090\"" } else { "" };
    let expected = format!("a unix socket, such as \"unix:/run/ioweir-{key}\"{tcp}");
    Err(Complaint::of_value(format!("server.{key}"), problem).expected(expected))
}

/// Reads the files, so that errors in them are reported at their key in the spec; changes nothing.
fn check_tls(tls: &Tls) -> Result<(), Complaint> {
    let checked = tls::Server::load(tls).map_err(|error| {
        let key = match error.role {
            tls::Role::Key => "server.tls.key",
            tls::Role::Clients if tls.clients.is_some() => "server.tls.clients",
            _ => "server.tls.certificate",
        };
        Complaint::of_value(key, error.to_string()).expected(error.expected)
    });
    checked.map(drop)
}

/// The schedulers of a spec's devices. Each gets all shares of its device in turn: shares that it accepts are feasible
/// together.
struct Shares {
    schedulers: Vec<Policy>,
    /// The number of classes so far.
    classes: u32,
}

impl Shares {
    fn new(devices: &[Device]) -> Self {
        let build = |device: &Device| device.scheduler.build(QueueLimits::with_requests(1));
        Self { schedulers: devices.iter().map(build).collect(), classes: 0 }
    }

    /// Gives the next class its share.
    fn give_class(
        &mut self,
        device: (usize, &Device),
        groups: &[Group],
        keys: &mut ShareKeys,
        at: &str,
    ) -> Result<(), Complaint> {
        let class = Holder::Class(StreamId(self.classes));
        self.classes += 1;
        let Some(name) = &keys.group else { return self.give(device, (class, None), keys, at) };
        let its: Vec<&Group> = groups.iter().filter(|group| group.device == device.1.name).collect();
        let what = format!("group of device {}", device.1.name);
        let hint = "add a [[group]] of this name";
        let (number, _) = named(&format!("{at}.group"), (&what, name), &its, |group| &group.name, hint)?;
        self.give(device, (class, Some(GroupId(number as u32))), keys, at)
    }

    /// Gives a share to its owner on a device, and fills it in. If the scheduler has no shares, keys without an effect are
    /// refused.
    fn give(
        &mut self,
        (number, device): (usize, &Device),
        (holder, group): (Holder, Option<GroupId>),
        keys: &mut ShareKeys,
        at: &str,
    ) -> Result<(), Complaint> {
        let given = keys.given();
        let first = given.first().filter(|key| **key != "group").map_or("name", |key| *key);
        let path = |key: &str| format!("{at}.{key}");
        let Some(control) = self.schedulers.get_mut(number).and_then(Policy::tenants_mut) else {
            let (key, place) = match holder {
                Holder::Group(_) => ("group", "name"),
                Holder::Class(_) if group.is_some() => ("group", "group"),
                Holder::Class(_) if given.is_empty() => return Ok(()),
                Holder::Class(_) => (first, first),
            };
            let name = device.scheduler.row.name;
            let problem = format!("{key}: scheduler {name} knows no shares, so that this would change nothing");
            let expected = "a scheduler that shares a device between tenants, such as sfq";
            return Err(Complaint::of_value(path(place), problem).expected(expected));
        };
        if keys.burst_bytes.is_some() && keys.limit_bytes.is_none() {
            let problem = "burst_bytes: without limit_bytes this would change nothing";
            let expected = "limit_bytes beside it, such as \"10MiB/s\"";
            return Err(Complaint::of_value(path("burst_bytes"), problem).expected(expected));
        }
        if let Some((key, what)) = unread(keys, device.scheduler.reads()) {
            let name = device.scheduler.row.name;
            let problem = format!("{key}: scheduler {name} {what}, so that this would change nothing");
            return Err(Complaint::of_value(path(key), problem).expected(reading(key)));
        }
        within(&path("weight"), keys.weight.unwrap_or(WEIGHT), 1, WEIGHT_MAX)?;
        keys.fill_in(WEIGHT);
        let share = ioweir_core::tenant::Share { group, ..keys.share(WEIGHT) };
        holder.configure(control, Nanos::ZERO, share).map_err(|error| {
            // An error of the share itself is reported at its first key; an error for lack of room, at the name.
            let is_full = matches!(error, ShareError::ClientsFull { .. } | ShareError::GroupsFull { .. });
            let named = if group.is_some() { "group" } else { "name" };
            if matches!(error, ShareError::NotKept) {
                let kept = device.scheduler.row.limits;
                let is_refused = |key: &&&str| LIMITS.iter().any(|(limit, its)| limit == *key && *its != kept);
                let key = given.iter().find(is_refused).map_or(first, |key| *key);
                return Complaint::of_value(path(key), format!("{key}: {error}"));
            }
            Complaint::of_value(path(if is_full || first == "name" { named } else { first }), error.to_string())
        })
    }
}
