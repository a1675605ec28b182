//! The state of a device that is an export of another server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The upstream of a device, or several as one.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// The upstream's address and export.
    pub name: String,
    /// Connections that have agreed on the export.
    pub connections: u32,
    /// How often a connection was made after all were lost.
    pub reconnects: u64,
    /// How long the upstream has had no connection, if it has none.
    pub down_seconds: Option<f64>,
    /// The bytes of changes that are kept because they are not durable.
    pub kept_bytes: u64,
    /// Whether changes that the upstream had answered may be lost.
    pub has_lost: bool,
    /// Why the last connection has ended, or could not be made, until another one is made.
    pub problem: Option<String>,
}

impl UpstreamStatus {
    /// The status of all upstreams of a device together, if there are any: sums, and the longest time that one has been away.
    pub fn of_all(each: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let each: Vec<Self> = each.into_iter().flatten().collect();
        let is_one = each.len() == 1;
        let named = |its: Self| {
            let problem = its.problem.map(|problem| if is_one { problem } else { format!("{}: {problem}", its.name) });
            Self { problem, ..its }
        };
        each.into_iter().map(named).reduce(|all, its| Self {
            name: format!("{}, {}", all.name, its.name),
            connections: all.connections + its.connections,
            reconnects: all.reconnects + its.reconnects,
            down_seconds: all.down_seconds.into_iter().chain(its.down_seconds).reduce(f64::max),
            kept_bytes: all.kept_bytes + its.kept_bytes,
            has_lost: all.has_lost || its.has_lost,
            problem: all.problem.or(its.problem),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_upstreams_are_shown_as_one() {
        let upstream = |name: &str, connections, down, problem: Option<&str>| UpstreamStatus {
            name: name.into(),
            connections,
            reconnects: 1,
            down_seconds: down,
            kept_bytes: 4096,
            has_lost: down.is_some(),
            problem: problem.map(String::from),
        };
        let well = upstream("a", 4, None, None);
        let gone = upstream("b", 0, Some(7.0), Some("it has closed"));
        assert_eq!(UpstreamStatus::of_all([None, Some(gone.clone())]), Some(gone.clone()));
        assert_eq!(UpstreamStatus::of_all([None]), None);
        let both = UpstreamStatus {
            reconnects: 2,
            kept_bytes: 8192,
            ..upstream("a, b", 4, Some(7.0), Some("b: it has closed"))
        };
        assert_eq!(UpstreamStatus::of_all([Some(well), None, Some(gone)]), Some(both));
    }
}
