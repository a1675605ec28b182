//! Opens an upstream, and checks whether one that comes back is the same.

use std::collections::VecDeque;

use ioweir_config::{format_bytes, shown};
use ioweir_core::Nanos;

use super::kept::Kept;
use super::reach::{Reach, Sockets};
use super::{PAUSE_FIRST, Upstream};
use crate::buffer::ALIGNMENT_BYTES;
use crate::nbd::Replies;
use crate::nbd::client::{BlockSizes, Terms};
use crate::slots::Slots;
use crate::spec;
use crate::stream::Poller;
use crate::tls;

/// The settings of an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamPlan {
    /// The upstream's address and export, for people.
    pub name: String,
    /// The name of the upstream's export.
    pub export: String,
    /// The number of connections, if the upstream allows several.
    pub connections: u32,
    /// The longest time to agree on the export.
    pub timeout: Nanos,
    /// How long requests wait for an upstream that is away.
    pub reconnect_limit: Nanos,
    /// Whether every answered change is durable, so that none need be kept.
    pub write_through: bool,
    /// The most bytes of changes that are kept until they are durable.
    pub unflushed_bytes_max: u64,
    /// Whether nothing will be written.
    pub read_only: bool,
    /// The encryption of the connections, if there is any.
    pub tls: Option<spec::UpstreamTls>,
}

/// The terms before the first connection.
const UNKNOWN: Terms = Terms {
    size_bytes: 0,
    flags: 0,
    replies: Replies::Simple,
    allocation: None,
    blocks: BlockSizes { min: 1, preferred: 4096, max: 1 << 20 },
};

/// Checks that an upstream can be used with these settings.
pub(super) fn check(plan: &UpstreamPlan, terms: &Terms) -> Result<(), String> {
    if terms.size_bytes == 0 {
        return Err("its export is empty".into());
    }
    if terms.blocks.min as usize > ALIGNMENT_BYTES {
        let (its, most) = (terms.blocks.min, ALIGNMENT_BYTES);
        return Err(format!("its blocks are of {its} bytes at least, and of more than {most} they cannot be served"));
    }
    if terms.is_read_only() && !plan.read_only {
        return Err("it is read-only: give all exports of the device read_only = true".into());
    }
    if !terms.flushes() && !plan.read_only && !plan.write_through {
        return Err("it cannot flush, so that nothing would be known to be durable\n\nhint: if every write \
                    that it has answered is durable, set write_through = true; a device whose exports are all read_only needs no \
                    flush"
            .into());
    }
    Ok(())
}

/// Checks that an upstream is the same as before. Features that it has gained are not used, and one that has lost any is refused.
pub(super) fn compare(before: &Terms, now: &Terms) -> Result<(), String> {
    let (size, its) = (before.size_bytes, now.size_bytes);
    if size != its {
        let (size, its) = (format_bytes(size), format_bytes(its));
        return Err(format!("it is another one: it has {its} ({} bytes), and had {size}", now.size_bytes));
    }
    if before.is_read_only() != now.is_read_only() {
        return Err("it is another one: whether it can be written has changed".into());
    }
    if before.blocks != now.blocks {
        let (new, old) = (now.blocks, before.blocks);
        return Err(format!(
            "it is another one: its blocks are of {} to {} bytes, and were of {} to {}",
            new.min, new.max, old.min, old.max
        ));
    }
    let lacks = before.flags & !now.flags;
    if lacks != 0 || (before.allocation.is_some() && now.allocation.is_none()) {
        return Err(format!("it is another one: it lacks features that it had (flags {lacks:#x})"));
    }
    Ok(())
}

impl Upstream {
    /// Connects to the upstream of a spec.
    ///
    /// # Errors
    /// Why it cannot be used, in words.
    pub fn connect_to(spec: &spec::Upstream, read_only: bool) -> Result<Self, String> {
        let name = match spec.export.as_str() {
            "" => spec.address.to_string(),
            export => format!("`{}` at {}", shown(export), spec.address),
        };
        let plan = UpstreamPlan {
            name,
            export: spec.export.clone(),
            connections: spec.connections,
            timeout: spec.timeout.nanos(),
            reconnect_limit: spec.reconnect_limit.nanos(),
            write_through: spec.write_through,
            unflushed_bytes_max: spec.unflushed_max.0,
            read_only,
            tls: spec.tls.clone(),
        };
        let tls = spec.tls.as_ref().map(|tls| tls::Client::load(tls, &spec.address)).transpose();
        let tls = tls.map_err(|error| format!("tls.{error}"))?;
        Self::open(plan, tls, Box::new(Sockets::new(spec)))
    }

    /// Connects to an upstream, and waits until an export is agreed on.
    ///
    /// # Errors
    /// Why it cannot be used, in words.
    pub fn open(plan: UpstreamPlan, tls: Option<tls::Client>, reach: Box<dyn Reach>) -> Result<Self, String> {
        let problem = |what: &str| format!("upstream {}: {what}", plan.name);
        let poller = Poller::new().map_err(|error| problem(&std::io::Error::from(error).to_string()))?;
        let links = (0..plan.connections).map(|_| None).collect();
        let mut upstream = Self {
            plan: plan.clone(),
            tls,
            reach,
            poller,
            ready: Vec::with_capacity(plan.connections as usize + 1),
            terms: UNKNOWN,
            links,
            ops: Slots::default(),
            flights: Slots::default(),
            waiting: VecDeque::new(),
            serial: 0,
            answered: 0,
            covered: 0,
            deaths: 0,
            kept: Kept::default(),
            repeats: false,
            repeating: 0,
            flushes: false,
            lost: None,
            down_since: None,
            is_given_up: false,
            retry_at: Nanos::ZERO,
            pause: PAUSE_FIRST,
            problem: None,
            reconnects: 0,
            done: Vec::new(),
            remarks: Vec::new(),
            now: Nanos::ZERO,
        };
        let until = upstream.reach.now().after(plan.timeout);
        while upstream.ready_links().next().is_none() {
            let now = upstream.reach.now();
            upstream.advance(now).map_err(|error| problem(&error.to_string()))?;
            if let Some(why) = &upstream.problem {
                return Err(problem(why));
            }
            if now >= until {
                return Err(problem("it does not agree on an export in time"));
            }
            if upstream.ready_links().next().is_none() {
                let Self { reach, poller, .. } = &mut upstream;
                reach.wait(poller.descriptor()).map_err(|error| problem(&error.to_string()))?;
            }
        }
        // The other connections are made later; the times until now were not those of the engine.
        (upstream.retry_at, upstream.now) = (Nanos::ZERO, Nanos::ZERO);
        Ok(upstream)
    }
}
