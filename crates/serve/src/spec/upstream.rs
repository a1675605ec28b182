//! Upstreams: exports of other NBD servers that are devices here.

use std::path::PathBuf;

use ioweir_config::{Complaint, Duration, Size, keys};
use serde::Serialize;

use super::Listen;
use super::backends::Backend;
use super::check::within;
use super::device::BackendKeys;
use crate::nbd::protocol::STRING_BYTES_MAX;
use crate::tls;

/// The most connections.
const CONNECTIONS_MAX: u32 = 16;
/// The least memory for kept writes, if any are kept: with less, flushes would come too often.
const UNFLUSHED_MIN: Size = Size(8 << 20);

/// The export of another server, with the settings of the connections to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Upstream {
    /// The address of the upstream's server.
    pub address: Listen,
    /// The name of the export on that server.
    pub export: String,
    /// Connections at once, if the upstream allows several.
    pub connections: u32,
    /// The longest time to agree on the export, and for a peer to acknowledge sent data.
    pub timeout: Duration,
    /// How long requests wait for an upstream that is away.
    pub reconnect_limit: Duration,
    /// Whether every write that the upstream has answered is durable.
    pub write_through: bool,
    /// The memory for writes that the upstream has answered and not flushed.
    pub unflushed_max: Size,
    /// Certificates, if the connection is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<UpstreamTls>,
}

keys! {
    /// How an upstream is known, in PEM files.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct UpstreamTls {
        /// the authority that has signed the upstream's certificate
        authority: PathBuf = required,
        /// the name that its certificate has to bear; if absent, the IP address, and "localhost" for a unix socket
        name: Option<String> = absent,
        /// a certificate to show to an upstream that asks for one, followed by those between it and one that the upstream trusts
        certificate: Option<PathBuf> = absent,
        /// its private key
        key: Option<PathBuf> = absent,
    }
}

/// Makes the upstream of the device, tier or part at `at`; nothing is connected yet.
pub(super) fn resolve(keys: BackendKeys, at: &str) -> Result<Backend, Complaint> {
    let key = |name: &str| format!("{at}.{name}");
    let Some(address) = keys.address else {
        return Err(Complaint::of_value(at, "backend nbd needs the key `address`"));
    };
    let export = keys.export.unwrap_or_default();
    if export.len() > STRING_BYTES_MAX {
        let problem = format!("export: longer than {STRING_BYTES_MAX} bytes");
        return Err(Complaint::of_value(key("export"), problem));
    }
    let connections = keys.connections.unwrap_or(4);
    within(&key("connections"), connections, 1, CONNECTIONS_MAX)?;
    let timeout = keys.timeout.unwrap_or(Duration::from_seconds(10));
    within(&key("timeout"), timeout, Duration::from_seconds(1), Duration::from_seconds(3600))?;
    let reconnect_limit = keys.reconnect_limit.unwrap_or(Duration::from_seconds(60));
    within(&key("reconnect_limit"), reconnect_limit, Duration::from_seconds(0), Duration::from_seconds(86_400))?;
    let write_through = keys.write_through.unwrap_or(false);
    let unflushed_max = match keys.unflushed_max {
        Some(_) if write_through => {
            let problem = "unflushed_max: with write_through = true nothing has to be kept";
            return Err(Complaint::of_value(key("unflushed_max"), problem).expected("one of the two"));
        }
        _ if write_through => Size(0),
        Some(Size(0)) => Size(0),
        Some(size) => {
            within(&key("unflushed_max"), size, UNFLUSHED_MIN, Size(64 << 30))?;
            size
        }
        None => Size(64 << 20),
    };
    if let Some(tls) = &keys.tls {
        check_tls(tls, &address, &key("tls"))?;
    }
    let tls = keys.tls;
    let upstream =
        Upstream { address, export, connections, timeout, reconnect_limit, write_through, unflushed_max, tls };
    Ok(Backend::Nbd(Box::new(upstream)))
}

/// Reads the files, so that errors in them are reported at their key.
fn check_tls(tls: &UpstreamTls, address: &Listen, at: &str) -> Result<(), Complaint> {
    let lone = match (&tls.certificate, &tls.key) {
        (Some(_), None) => Some(("certificate", "key")),
        (None, Some(_)) => Some(("key", "certificate")),
        _ => None,
    };
    if let Some((given, missing)) = lone {
        let problem = format!("{given}: without `{missing}` it is of no use");
        return Err(Complaint::of_value(format!("{at}.{given}"), problem).expected(format!("`{missing}` beside it")));
    }
    let checked = tls::Client::load(tls, address).map_err(|error| {
        // Only a given name can be invalid: without one, the address is used.
        let complaint = Complaint::of_value(format!("{at}.{}", error.role.key()), error.to_string());
        complaint.expected(error.expected)
    });
    checked.map(drop)
}

impl Backend {
    /// Every upstream of the backend and its parts.
    #[must_use]
    pub fn upstreams(&self) -> Vec<&Upstream> {
        let leaves = self.leaves().into_iter();
        leaves.filter_map(|leaf| if let Self::Nbd(upstream) = leaf { Some(&**upstream) } else { None }).collect()
    }
}

impl Upstream {
    /// Files and sockets that the upstream needs.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let socket = if let Listen::Unix(path) = &self.address { Some(path.clone()) } else { None };
        let files =
            self.tls.iter().flat_map(|tls| [Some(tls.authority.clone()), tls.certificate.clone(), tls.key.clone()]);
        socket.into_iter().chain(files.flatten()).collect()
    }
}
