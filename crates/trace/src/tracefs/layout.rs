//! The kernel's description of its pages and of the block events in them.

use crate::Event;
use crate::reader::events::Action;

/// A field of a page's head or of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
}

/// Where the parts of an event of one kind are.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) id: u16,
    pub(super) action: Action,
    pub(super) pid: Field,
    pub(super) device: Field,
    pub(super) sector: Field,
    pub(super) sectors: Field,
    pub(super) letters: Field,
    pub(super) command: Option<Field>,
    pub(super) priority: Option<Field>,
    /// Where offset and length of the passed-through command are.
    pub(super) passed_through: Option<Field>,
}

/// Where everything is in the pages of one kernel.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) id: Field,
    pub(super) timestamp: Field,
    pub(super) commit: Field,
    pub(super) data: usize,
    page_bytes: usize,
    pub(super) kinds: Vec<Kind>,
}

/// A description that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct LayoutError {
    /// The file of tracefs.
    pub file: String,
    /// The problem in words.
    pub problem: String,
}

/// The events that a recording understands, by the names of their folders in `events/block`.
const ACTIONS: [(&str, Action); 5] = [
    ("block_bio_queue", Action::Request(Event::Queue)),
    ("block_rq_insert", Action::Request(Event::Insert)),
    ("block_rq_issue", Action::Request(Event::Issue)),
    ("block_rq_complete", Action::Request(Event::Complete)),
    ("block_bio_complete", Action::Request(Event::Complete)),
];

/// No event and no head of a page is larger than a page.
const BYTES_MAX: usize = 1 << 16;

/// The number after a key, as in `offset:8;`.
fn number(text: &str, key: &str) -> Option<usize> {
    let rest = &text[text.find(key)? + key.len()..];
    rest.split(';').next()?.trim().parse().ok().filter(|&number| number < BYTES_MAX)
}

/// The fields of a description, by name: `field:char comm[16]; offset:38; size:16; signed:0;`, with tabs between.
fn fields(text: &str) -> impl Iterator<Item = (&str, Field)> {
    text.lines().filter_map(|line| {
        let (declared, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let name = declared.split('[').next()?.trim().rsplit(' ').next()?;
        // An array without a length, as in `char[] cmd`, has its brackets before the name.
        let name = if declared.contains("[] ") { declared.rsplit(' ').next()? } else { name };
        Some((name, Field { offset: number(rest, "offset:")?, size: number(rest, "size:")? }))
    })
}

fn field(file: &str, text: &str, name: &str, sizes: &[usize]) -> Result<Field, LayoutError> {
    let error = |problem| LayoutError { file: file.into(), problem };
    let found = fields(text).find(|(known, _)| *known == name);
    let (_, field) = found.ok_or_else(|| error(format!("has no field `{name}`")))?;
    if sizes.is_empty() || sizes.contains(&field.size) {
        Ok(field)
    } else {
        Err(error(format!("field `{name}` has {} bytes", field.size)))
    }
}

impl Layout {
    /// The events of a device with a queue of requests, by the names of their folders below `events/block`.
    pub const REQUEST_EVENTS: &'static [&'static str] = &[ACTIONS[0].0, ACTIONS[1].0, ACTIONS[2].0, ACTIONS[3].0];

    /// The events of a device without a queue of its own, which passes requests on: device mapper, RAID, compressed memory.
    pub const BIO_EVENTS: &'static [&'static str] = &[ACTIONS[0].0, ACTIONS[4].0];

    /// The size of a page.
    #[must_use]
    pub const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The layout that `events/header_page` and the `format` files of events describe, each with the event's name.
    ///
    /// # Errors
    /// If something that is needed is not described.
    pub fn parse(header_page: &str, formats: &[(&str, &str)]) -> Result<Self, LayoutError> {
        const FILE: &str = "events/header_page";
        let mut kinds = Vec::new();
        let mut id = Field::default();
        for (name, text) in formats {
            let Some((_, action)) = ACTIONS.iter().find(|(known, _)| known == name) else { continue };
            let kind = Kind::parse(name, text, *action)?;
            id = field(name, text, "common_type", &[2])?;
            kinds.push(kind);
        }
        let Field { offset: data, size } = field(FILE, header_page, "data", &[])?;
        Ok(Self {
            page_bytes: data + size,
            id,
            timestamp: field(FILE, header_page, "timestamp", &[8])?,
            commit: field(FILE, header_page, "commit", &[4, 8])?,
            data,
            kinds,
        })
    }
}

impl Kind {
    fn parse(name: &str, text: &str, action: Action) -> Result<Self, LayoutError> {
        let error = || LayoutError { file: name.into(), problem: "has no ID".into() };
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok()).ok_or_else(error)?;
        let need = |field_name: &str, sizes: &[usize]| field(name, text, field_name, sizes);
        let may = |field_name: &str, sizes: &[usize]| field(name, text, field_name, sizes).ok();
        Ok(Self {
            id,
            action,
            pid: need("common_pid", &[4])?,
            device: need("dev", &[4])?,
            sector: need("sector", &[8])?,
            sectors: need("nr_sector", &[4])?,
            letters: need("rwbs", &[])?,
            command: may("comm", &[]),
            priority: may("ioprio", &[2]),
            passed_through: may("cmd", &[4]),
        })
    }
}
