//! The data of options, and the replies to them.

use super::export::Export;
use super::fields::Fields;
use super::protocol::{
    INFO_BLOCK_SIZE, INFO_DESCRIPTION, INFO_EXPORT, INFO_NAME, MAGIC_OPTION_REPLY, REPLY_INFO, REPLY_META_CONTEXT,
    REPLY_SERVER, REQUEST_BYTES_MAX, STRING_BYTES_MAX,
};

/// The data of `INFO` and `GO`: an export, and the information that the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InfoQuery<'a> {
    pub(super) name: &'a [u8],
    /// The numbers of the wanted items, of 16 bits each.
    items: &'a [u8],
}

impl<'a> InfoQuery<'a> {
    /// `None` if the data is malformed.
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let name = fields.counted()?;
        let items = usize::from(fields.u16()?) * 2;
        let query = Self { name, items: fields.bytes(items)? };
        (fields.0.is_empty() && name.len() <= STRING_BYTES_MAX).then_some(query)
    }

    fn asks_for(&self, item: u16) -> bool {
        self.items.chunks_exact(2).any(|number| number == item.to_be_bytes())
    }

    /// Writes the information about `export`: always its size, the rest if the client asked for it.
    pub(super) fn answer(&self, out: &mut Vec<u8>, option: u32, export: &Export, chunks: bool) {
        let mut information = INFO_EXPORT.to_be_bytes().to_vec();
        information.extend(export.size_bytes.to_be_bytes());
        information.extend(export.flags(chunks).to_be_bytes());
        put_reply(out, option, REPLY_INFO, &information);
        for (item, text) in [(INFO_NAME, &export.name), (INFO_DESCRIPTION, &export.description)] {
            if self.asks_for(item) && !text.is_empty() {
                let mut information = item.to_be_bytes().to_vec();
                information.extend(text.as_bytes());
                put_reply(out, option, REPLY_INFO, &information);
            }
        }
        if self.asks_for(INFO_BLOCK_SIZE) {
            let mut information = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
            for bytes in [export.block_bytes_min, export.block_bytes_preferred, REQUEST_BYTES_MAX] {
                information.extend(bytes.to_be_bytes());
            }
            put_reply(out, option, REPLY_INFO, &information);
        }
    }
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextQuery<'a> {
    pub(super) name: &'a [u8],
    /// The queries, each with its length before it.
    queries: &'a [u8],
}

impl<'a> ContextQuery<'a> {
    /// `None` if the data is malformed.
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let name = fields.counted()?;
        let count = fields.u32()?;
        let query = Self { name, queries: fields.0 };
        for _ in 0..count {
            if fields.counted()?.len() > STRING_BYTES_MAX {
                return None;
            }
        }
        (fields.0.is_empty() && name.len() <= STRING_BYTES_MAX).then_some(query)
    }

    fn any(&self, is_meant: impl Fn(&[u8]) -> bool) -> bool {
        let mut fields = Fields(self.queries);
        std::iter::from_fn(|| fields.counted()).any(is_meant)
    }

    /// Whether a context is selected: by its name alone.
    pub(super) fn selects(&self, context: &str) -> bool {
        self.any(|query| query == context.as_bytes())
    }

    /// Whether a list contains a context. Without a query it contains all; a query may be the beginning of a name, such as a namespace.
    pub(super) fn lists(&self, context: &str) -> bool {
        let is_meant = |query: &[u8]| query.ends_with(b":") && context.as_bytes().starts_with(query);
        self.queries.is_empty() || self.selects(context) || self.any(is_meant)
    }
}

/// Writes a metadata context; number zero means that it is only listed.
pub(super) fn put_context(out: &mut Vec<u8>, option: u32, number: u32, name: &str) {
    let mut data = number.to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    put_reply(out, option, REPLY_META_CONTEXT, &data);
}

/// Writes one export of a list.
pub(super) fn put_listed(out: &mut Vec<u8>, option: u32, export: &Export) {
    let mut data = length_of(export.name.as_bytes()).to_be_bytes().to_vec();
    data.extend(export.name.as_bytes());
    data.extend(export.description.as_bytes());
    put_reply(out, option, REPLY_SERVER, &data);
}

/// Writes one reply to an option.
pub(super) fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(MAGIC_OPTION_REPLY.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(length_of(data).to_be_bytes());
    out.extend(data);
}

/// A length. Names and descriptions are a few KiB at most.
fn length_of(data: &[u8]) -> u32 {
    u32::try_from(data.len()).unwrap_or(u32::MAX)
}
