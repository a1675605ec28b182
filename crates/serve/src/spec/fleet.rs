//! A fleet of servers that share what tenants may have: where they meet, and what this one does while it sees none of the others.

use std::path::PathBuf;

use ioweir_config::{Complaint, Duration, keys, shown};
use ioweir_core::Nanos;
use ioweir_core::tenant::Share;

use super::check::within;
use super::{ClassKind, Spec};

/// The longest name of a fleet or a server, in bytes.
const NAME_BYTES_MAX: usize = 100;

keys! {
    /// The fleet that this server belongs to. Exports and tenants of the same name are one tenant on all its servers, and their shares
    /// state the sum over all servers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Fleet {
        /// the name of the fleet, the same on all its servers: letters, digits, - and _
        name: String = required,
        /// the name of this server, which no other of the fleet has
        server: String = required,
        /// the addresses of etcd: one or more of http://HOST:PORT and https://HOST:PORT, tried in turn
        etcd: Vec<String> = (Vec::new()),
        /// how often the server reports the demand of its tenants and reads the reports of others, 100ms to 1s; the same on all servers. A
        /// round, in which all of them change their parts, is two of these
        period: Duration = (Duration::new(Nanos::from_millis(250))),
        /// how long a server without contact to the others keeps its parts, in whole seconds, 2s to 60s; others reserve them as long
        lease: Duration = (Duration::from_seconds(5)),
        /// percent of each limit and reservation that the server takes while it sees no other, and that the others leave to
        /// it as long as they do not hear of it, 1 to 100. Limits hold without contact, too, if this is at most 100 over the
        /// number of servers; the same on all servers
        alone: u32 = (10),
        /// the user of etcd, with `password_file`
        user: Option<String> = absent,
        /// the file that holds that user's password in one line
        password_file: Option<PathBuf> = absent,
        /// the authorities that sign the certificates of etcd's servers, in a PEM file; needed for https
        authorities: Option<PathBuf> = absent,
        /// the certificate that this server shows to etcd, in a PEM file, with `key`
        certificate: Option<PathBuf> = absent,
        /// its private key
        key: Option<PathBuf> = absent,
    }
}

/// The part of its share that a class has on this server; a key that is `None` is as the spec states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPart {
    /// The limit in units of cost a second.
    pub limit: Option<u64>,
    /// The limit in bytes a second.
    pub limit_bytes: Option<u64>,
    /// The reservation in units of cost a second.
    pub reservation: Option<u64>,
    /// The weight of the class.
    pub weight: Option<u32>,
}

impl ClassPart {
    /// The part of a share: never more than it.
    #[must_use]
    pub fn of(&self, share: Share) -> Share {
        let part = |whole: u64, part: Option<u64>, least: u64| match (whole, part) {
            (0, _) | (_, None) => whole,
            (whole, Some(part)) => part.max(least).min(whole),
        };
        let limit_per_second = part(share.limit_per_second, self.limit, 1);
        let reservation = part(share.reservation_per_second, self.reservation, 0);
        Share {
            limit_per_second,
            limit_bytes_per_second: part(share.limit_bytes_per_second, self.limit_bytes, 1),
            reservation_per_second: if limit_per_second > 0 { reservation.min(limit_per_second) } else { reservation },
            weight: self.weight.map_or(share.weight, |weight| weight.clamp(1, share.weight)),
            ..share
        }
    }

    /// This percentage of a share's limits and reservation.
    #[must_use]
    pub fn percent(share: &Share, percent: u32) -> Self {
        let part = |whole: u64| Some((u128::from(whole) * u128::from(percent) / 100) as u64); // no more than the whole
        Self {
            limit: part(share.limit_per_second),
            limit_bytes: part(share.limit_bytes_per_second),
            reservation: part(share.reservation_per_second),
            weight: None,
        }
    }
}

/// Checks the keys of a fleet against the rest of the spec.
pub(super) fn check(spec: &Spec) -> Result<(), Complaint> {
    let Some(fleet) = &spec.fleet else { return Ok(()) };
    if cfg!(not(feature = "fleet")) {
        let problem = "fleet: this build has no fleets";
        return Err(Complaint::of_value("fleet.name", problem).expected("a build with the feature `fleet`"));
    }
    for (key, name) in [("name", &fleet.name), ("server", &fleet.server)] {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let problem = format!("{key}: `{}` is not a name that all servers can read", shown(name));
            let expected = format!("1 to {NAME_BYTES_MAX} letters, digits, -, _ and .");
            return Err(Complaint::of_value(format!("fleet.{key}"), problem).expected(expected));
        }
    }
    let is_url = |url: &&String| !(url.starts_with("http://") || url.starts_with("https://"));
    if let Some(url) = fleet.etcd.iter().find(is_url) {
        let problem = format!("etcd: `{}` is no address of it", shown(url));
        return Err(Complaint::of_value("fleet.etcd", problem).expected("http://HOST:PORT or https://HOST:PORT"));
    }
    if fleet.etcd.is_empty() {
        let complaint = Complaint::of_value("fleet.name", "etcd: the servers of a fleet have to meet somewhere");
        return Err(complaint.expected("etcd = [\"http://HOST:2379\"] beside it"));
    }
    let is_https = fleet.etcd.iter().any(|url| url.starts_with("https://"));
    if is_https != fleet.authorities.is_some() {
        let problem = "authorities: needed for https, and for nothing else";
        return Err(Complaint::of_value("fleet.etcd", problem).expected("both or neither"));
    }
    for (one, other) in [
        (("user", fleet.user.is_some()), ("password_file", fleet.password_file.is_some())),
        (("certificate", fleet.certificate.is_some()), ("key", fleet.key.is_some())),
    ] {
        if one.1 != other.1 {
            let (given, missing) = if one.1 { (one.0, other.0) } else { (other.0, one.0) };
            let problem = format!("{given}: without `{missing}` this would change nothing");
            return Err(Complaint::of_value(format!("fleet.{given}"), problem).expected("both or neither"));
        }
    }
    if fleet.certificate.is_some() && !is_https {
        let problem = "certificate: no address of etcd has https, so that it would not be shown";
        return Err(Complaint::of_value("fleet.certificate", problem).expected("https:// in `etcd`"));
    }
    let millis = |count| Duration::new(Nanos::from_millis(count));
    within("fleet.period", fleet.period, millis(100), millis(1_000))?;
    within("fleet.lease", fleet.lease, millis(2_000), millis(60_000))?;
    if !fleet.lease.nanos().0.is_multiple_of(1_000_000_000) {
        let problem = format!("lease: {} is not a whole number of seconds", fleet.lease);
        return Err(Complaint::of_value("fleet.lease", problem).expected("such as 5s"));
    }
    within("fleet.alone", fleet.alone, 1, 100)?;
    check_costs(spec)
}

/// The time of devices cannot be divided over servers: a second of one is not a second of another.
fn check_costs(spec: &Spec) -> Result<(), Complaint> {
    for (number, class) in spec.classes().iter().enumerate() {
        let device = &spec.device[class.device];
        let limits = spec.share_of(number).is_some_and(|share| share.limit.is_some() || share.reservation.is_some());
        let by_time = device.scheduler.row.get(&device.scheduler.settings, "cost") == Some(2);
        if limits && by_time && class.kind != ClassKind::Service && !class.is_removed {
            let problem = format!(
                "`{}` has a limit or a reservation in the time of device {}, which servers cannot divide",
                shown(&class.name),
                shown(&device.name)
            );
            let complaint = Complaint::of_value("fleet.name", problem);
            return Err(complaint.expected("cost=requests or cost=sectors in its scheduler"));
        }
    }
    Ok(())
}
