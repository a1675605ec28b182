//! The records of a fleet's servers, which outlast their leases, and the room that is left to those that are not heard of.
//!
//! A server that is cut off cannot be told from one that has died. It uses its `alone` percent of each limit for as long as
//! it hears nothing, so the others leave as much to it, from the end of its lease until it is heard of again. Each server
//! therefore writes down which tenants it has, and its `alone`, as a report without a lease; one that ends well deletes it.

use std::collections::BTreeSet;

use ioweir_config::shown;
use ioweir_core::fleet::report::{self, Entry};

use super::coordinator::{Heard, Own};
use crate::log::EventKind;

/// The record of a server: its tenants, each with the percentage that the server uses while it is alone.
pub(super) fn record(owns: &[Own], alone: u32) -> String {
    let entry = |own: &'_ Own| (own.tenant.clone(), u64::from(alone));
    let tenants: Vec<(String, u64)> = owns.iter().map(entry).collect();
    let entries = tenants.iter().map(|(tenant, demand)| Entry {
        tenant,
        demand: *demand,
        demand_bytes: 0,
        demand_reserved: 0,
        served: 0,
        served_bytes: 0,
    });
    let mut text = String::new();
    report::write(entries, &mut text);
    text
}

/// The records of all servers in a round.
pub(super) struct Members<'a> {
    /// The entries of each server that can be read, and whether the server has no report in the round.
    records: Vec<(&'a str, bool, Vec<Entry<'a>>)>,
}

impl<'a> Members<'a> {
    /// Reads the records beside the reports of a round. A record that cannot be read is ignored and named in a remark.
    pub(super) fn read(records: &'a [Heard], reports: &[Heard], remarks: &mut Vec<(EventKind, String)>) -> Self {
        let mut all = Vec::with_capacity(records.len());
        for heard in records {
            match report::read(&heard.report) {
                Ok(entries) => {
                    let is_missing = !reports.iter().any(|present| present.server == heard.server);
                    all.push((heard.server.as_str(), is_missing, entries.collect()));
                }
                Err(error) => {
                    let what = format!("the record of server {}: {error}", shown(&heard.server));
                    remarks.push((EventKind::FleetRefused, what));
                }
            }
        }
        Self { records: all }
    }

    /// The percentages of a tenant that its servers use alone: those of servers without a report in the round, and all.
    fn percent(&self, tenant: &str) -> (u64, u64) {
        let mut sums = (0, 0);
        for (_, is_missing, entries) in &self.records {
            let alone = entries.iter().find(|entry| entry.tenant == tenant).map_or(0, |entry| entry.demand.min(100));
            sums.1 += alone;
            sums.0 += if *is_missing { alone } else { 0 };
        }
        sums
    }

    /// The percentage of a tenant's share that the present servers divide: at least what each of them has when it is alone, so
    /// that records of servers that never return cannot take everything.
    pub(super) fn present_percent(&self, tenant: &str, alone: u32) -> u64 {
        100_u64.saturating_sub(self.percent(tenant).0).max(alone.into())
    }

    /// The servers of the round that have a record and no report.
    pub(super) fn missing(&self) -> BTreeSet<String> {
        self.records.iter().filter(|record| record.1).map(|record| record.0.to_string()).collect()
    }

    /// The first tenant whose servers would exceed its limit if none saw another, with their percentages added up.
    pub(super) fn excess<'b>(&self, owns: &'b [Own]) -> Option<(&'b str, u64)> {
        let all = owns.iter().map(|own| (own.tenant.as_str(), self.percent(&own.tenant).1));
        all.into_iter().find(|(_, percent)| *percent > 100)
    }
}

/// The events of servers that have ceased to be heard of, or are heard of again.
pub(super) fn remarks(fleet: &str, before: &BTreeSet<String>, now: &BTreeSet<String>) -> Vec<(EventKind, String)> {
    let lost = now.difference(before).map(|server| {
        let server = shown(server);
        let what = format!(
            "server {server} is not heard of: its `alone` percent is left to it until it is back; if it never will be: \
             etcdctl del /ioweir/{fleet}/member/{server}"
        );
        (EventKind::FleetLost, what)
    });
    let seen = before.difference(now);
    let seen =
        seen.map(|server| (EventKind::FleetSeen, format!("no room is left to server {} any more", shown(server))));
    lost.chain(seen).collect()
}
