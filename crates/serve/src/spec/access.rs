//! The clients that may open an export: by certificate, by user or group of this machine, or by address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ioweir_config::{as_text, shown};

/// The clients that may open an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// All clients.
    Anyone,
    /// Clients whose certificate has this common name or DNS name.
    Certificate(String),
    /// Processes of this machine, connected over a unix socket, with this user number.
    User(u32),
    /// Processes of this machine, connected over a unix socket, with this effective group number.
    Group(u32),
    /// Clients that connect over TCP from this range: an address, and the number of its bits that count.
    Address(IpAddr, u8),
}

/// The facts about a client that decide which exports it may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The names in its certificate, which is signed by an authority of the spec.
    pub certificate: Vec<String>,
    /// The user and group number of a process of this machine.
    pub process: Option<(u32, u32)>,
    /// The client's IP address.
    pub address: Option<IpAddr>,
}

as_text!(Allowed => "text such as \"certificate:NAME\", \"uid:1000\", \"gid:100\", \"address:10.0.0.0/8\" or \"anyone\"");

impl Allowed {
    /// Whether a client is among these.
    #[must_use]
    pub fn includes(&self, client: &Identity) -> bool {
        match self {
            Self::Anyone => true,
            Self::Certificate(name) => client.certificate.contains(name),
            Self::User(user) => client.process.is_some_and(|(its, _)| its == *user),
            Self::Group(group) => client.process.is_some_and(|(_, its)| its == *group),
            Self::Address(range, bits) => client.address.is_some_and(|address| is_within(address, *range, *bits)),
        }
    }
}

/// An address as a number, and the number of its bits. An IPv6 address that contains an IPv4 address counts as the latter.
fn number_of(address: IpAddr) -> (u128, u8) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

fn is_within(address: IpAddr, range: IpAddr, bits: u8) -> bool {
    let ((address, length), (range, of_range)) = (number_of(address), number_of(range));
    let ignored = u32::from(length - bits.min(length));
    length == of_range && (address ^ range).checked_shr(ignored).unwrap_or(0) == 0
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected \"certificate:NAME\", \"uid:NUMBER\", \"gid:NUMBER\", \"address:RANGE\" such as \
                        \"address:10.0.0.0/8\", or \"anyone\"";
        let error = |what: &str| format!("`{}` {what}; {expected}", shown(text));
        let number = |digits: &str| digits.parse().map_err(|_| error("has no number of a user or group"));
        match text.split_once(':') {
            None if text == "anyone" => Ok(Self::Anyone),
            Some(("certificate", name)) if !name.is_empty() => Ok(Self::Certificate(name.into())),
            Some(("uid", digits)) => number(digits).map(Self::User),
            Some(("gid", digits)) => number(digits).map(Self::Group),
            Some(("address", range)) => {
                let (address, bits) = range.split_once('/').map_or((range, None), |(range, bits)| (range, Some(bits)));
                let address: IpAddr = address.parse().map_err(|_| error("is no range of addresses"))?;
                let length = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(Some(length), |bits| bits.parse().ok()).filter(|bits| *bits <= length);
                bits.map(|bits| Self::Address(address, bits)).ok_or_else(|| error("has more bits than the address"))
            }
            _ => Err(error("says nobody")),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => out.write_str("anyone"),
            Self::Certificate(name) => write!(out, "certificate:{name}"),
            Self::User(user) => write!(out, "uid:{user}"),
            Self::Group(group) => write!(out, "gid:{group}"),
            Self::Address(range, bits) => write!(out, "address:{range}/{bits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(text: &str, client: &Identity) -> bool {
        text.parse::<Allowed>().unwrap().includes(client)
    }

    #[test]
    fn clients_are_known_by_certificate_process_or_address() {
        let nobody = Identity::default();
        let one = Identity {
            certificate: vec!["gold".into(), "gold.example".into()],
            process: Some((1000, 100)),
            address: Some("10.1.2.3".parse().unwrap()),
        };
        for (text, is_one) in [
            ("anyone", true),
            ("certificate:gold.example", true),
            ("certificate:gol", false),
            ("uid:1000", true),
            ("uid:100", false),
            ("gid:100", true),
            ("address:10.0.0.0/8", true),
            ("address:10.1.2.3", true),
            ("address:10.1.2.2/31", true),
            ("address:10.1.2.4/31", false),
            ("address:0.0.0.0/0", true),
            ("address:::/0", false),
        ] {
            assert_eq!(allows(text, &one), is_one, "{text}");
            assert_eq!(allows(text, &nobody), text == "anyone", "{text}");
        }
        let mapped = Identity { address: Some("::ffff:10.1.2.3".parse().unwrap()), ..Identity::default() };
        assert!(allows("address:10.0.0.0/8", &mapped));
    }

    #[test]
    fn what_names_no_client_is_refused() {
        for text in ["", "all", "uid:", "uid:me", "gid:-1", "certificate:", "address:10.0.0.0/33", "address:here"] {
            let error = text.parse::<Allowed>().unwrap_err();
            assert!(error.contains("expected \"certificate:NAME\""), "{error}");
        }
        for text in ["anyone", "certificate:a:b", "uid:7", "gid:0", "address:10.0.0.0/8", "address:fe80::/10"] {
            assert_eq!(text.parse::<Allowed>().unwrap().to_string(), text);
        }
    }
}
