//! Describes an upstream for people.

use ioweir_config::format_bytes;

use super::open::UpstreamPlan;
use crate::nbd::Replies;
use crate::nbd::client::Terms;

/// A description of the upstream and its features, and of the substitutes for those that it lacks.
pub(super) fn describe(plan: &UpstreamPlan, terms: &Terms, connections: usize) -> String {
    let size = format_bytes(terms.size_bytes);
    let replies = match terms.replies {
        Replies::Simple => "simple replies",
        Replies::Structured => "structured replies",
        Replies::Extended => "extended headers",
    };
    let has = [
        (!terms.has_fua() && terms.flushes(), "; no FUA: a durable write is a write and a flush"),
        (!terms.flushes(), "; no flush: it is taken to write through, as the spec says"),
        (!terms.trims(), "; no trim: it is not offered"),
        (!terms.zeroes(), "; no writing of zeroes: they are sent"),
        (terms.allocation.is_none(), "; no block status: every block counts as data"),
        (connections == 1 && !terms.is_shared(), "; not several connections"),
        (terms.is_read_only(), "; read-only"),
    ];
    let lacks: String = has.into_iter().filter(|(is, _)| *is).map(|(_, words)| words).collect();
    let encrypted = if plan.tls.is_some() { ", TLS" } else { "" };
    let least = terms.blocks.min;
    let blocks = if least > 1 { format!(", blocks of {least} bytes") } else { String::new() };
    format!("upstream {}, {size}, {replies}{encrypted}{blocks}, up to {connections} connections{lacks}", plan.name)
}
