//! The numbers of the NBD protocol, named as in the protocol document without its prefix.

/// The first eight bytes that a server sends.
pub const MAGIC_INIT: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: begins the newstyle negotiation, and every option.
pub const MAGIC_OPTION: u64 = 0x4948_4156_454f_5054;
/// Begins every reply to an option.
pub const MAGIC_OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Begins every request.
pub const MAGIC_REQUEST: u32 = 0x2560_9513;
/// Begins every request once extended headers are agreed upon.
pub const MAGIC_EXTENDED_REQUEST: u32 = 0x21e4_1c71;
/// Begins a simple reply.
pub const MAGIC_SIMPLE_REPLY: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const MAGIC_STRUCTURED_REPLY: u32 = 0x668e_33ef;
/// Begins every chunk of a reply once extended headers are agreed upon.
pub const MAGIC_EXTENDED_REPLY: u32 = 0x6e8a_278c;

/// Handshake flag: options other than the export's name are understood.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// Handshake flag: no 124 zero bytes after the answer to [`OPTION_EXPORT_NAME`].
pub const FLAG_NO_ZEROES: u16 = 2;

/// Option: use this export, the old way.
pub const OPTION_EXPORT_NAME: u32 = 1;
/// Option: end the negotiation.
pub const OPTION_ABORT: u32 = 2;
/// Option: list the exports.
pub const OPTION_LIST: u32 = 3;
/// Option: encrypt the connection.
pub const OPTION_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPTION_INFO: u32 = 6;
/// Option: describe an export and use it.
pub const OPTION_GO: u32 = 7;
/// Option: answer reads in chunks.
pub const OPTION_STRUCTURED_REPLY: u32 = 8;
/// Option: list metadata contexts.
pub const OPTION_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts.
pub const OPTION_SET_META_CONTEXT: u32 = 10;
/// Option: requests and replies with lengths of 64 bits.
pub const OPTION_EXTENDED_HEADERS: u32 = 11;

/// Option reply: done.
pub const REPLY_ACK: u32 = 1;
/// Option reply: an export.
pub const REPLY_SERVER: u32 = 2;
/// Option reply: information about an export.
pub const REPLY_INFO: u32 = 3;
/// Option reply: a metadata context.
pub const REPLY_META_CONTEXT: u32 = 4;
/// Option reply: the option is not known.
pub const REPLY_ERROR_UNSUPPORTED: u32 = 0x8000_0001;
/// Option reply: the option's data is malformed.
pub const REPLY_ERROR_INVALID: u32 = 0x8000_0003;
/// Option reply: refused without encryption.
pub const REPLY_ERROR_TLS_REQUIRED: u32 = 0x8000_0005;
/// Option reply: no such export.
pub const REPLY_ERROR_UNKNOWN: u32 = 0x8000_0006;
/// Set in the kinds of all option replies that are errors.
pub const REPLY_ERROR_BIT: u32 = 1 << 31;
/// Option reply: the data is longer than the server accepts.
pub const REPLY_ERROR_TOO_BIG: u32 = 0x8000_0009;
/// Option reply: extended headers were negotiated, which cannot be undone.
pub const REPLY_ERROR_EXTENDED_HEADERS_REQUIRED: u32 = 0x8000_000a;

/// Information: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Information: the name.
pub const INFO_NAME: u16 = 1;
/// Information: the description.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information: block sizes.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Transmission flag: the other flags are valid.
pub const EXPORT_HAS_FLAGS: u16 = 1;
/// Transmission flag: the export is read-only.
pub const EXPORT_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: flush is supported.
pub const EXPORT_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: forced unit access is supported.
pub const EXPORT_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: trim is supported.
pub const EXPORT_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: writing zeroes is supported.
pub const EXPORT_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: a read can ask for one chunk.
pub const EXPORT_SEND_DF: u16 = 1 << 7;
/// Transmission flag: a flush on one connection applies to all.
pub const EXPORT_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: prefetching is supported.
pub const EXPORT_SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: a client can ask for zeroes only if that is fast.
pub const EXPORT_SEND_FAST_ZERO: u16 = 1 << 11;

/// Command flag: durable when answered.
pub const COMMAND_FUA: u16 = 1;
/// Command flag of write-zeroes: keep the space allocated.
pub const COMMAND_NO_HOLE: u16 = 1 << 1;
/// Command flag of read: answer in one chunk.
pub const COMMAND_DF: u16 = 1 << 2;
/// Command flag of block status: one extent is enough.
pub const COMMAND_REQUEST_ONE: u16 = 1 << 3;
/// Command flag of write-zeroes: fail if writing would be as fast.
pub const COMMAND_FAST_ZERO: u16 = 1 << 4;
/// Command flag of extended headers: the length is that of the data after the request.
pub const COMMAND_PAYLOAD_LENGTH: u16 = 1 << 5;

/// Chunk flag: the last one of its reply.
pub const CHUNK_DONE: u16 = 1;
/// Chunk: no content, only the flags.
pub const CHUNK_NONE: u16 = 0;
/// Chunk: data.
pub const CHUNK_OFFSET_DATA: u16 = 1;
/// Chunk: zeroes that are not sent.
pub const CHUNK_OFFSET_HOLE: u16 = 2;
/// Chunk: extents.
pub const CHUNK_BLOCK_STATUS: u16 = 5;
/// Chunk: extents with lengths of 64 bits.
pub const CHUNK_BLOCK_STATUS_EXTENDED: u16 = 6;
/// Set in the kinds of all chunks that are errors.
pub const CHUNK_ERROR_BIT: u16 = 1 << 15;
/// Chunk: an error of the whole request.
pub const CHUNK_ERROR: u16 = CHUNK_ERROR_BIT + 1;

pub use ioweir_block::{STATE_HOLE, STATE_ZERO};

/// The metadata context of what is allocated.
pub const CONTEXT_ALLOCATION: &str = "base:allocation";
/// The number of `base:allocation` on the wire, once a client has selected it.
pub const CONTEXT_ALLOCATION_ID: u32 = 1;
/// The most metadata contexts that a client may select.
pub const CONTEXTS_MAX: usize = 8;

/// The longest string (name, description) that the protocol allows.
pub const STRING_BYTES_MAX: usize = 4096;
/// The most data of a request or its answer: twice what the protocol lets a client assume, because some clients do not ask
/// and send more.
pub const REQUEST_BYTES_MAX: u32 = 64 << 20;
/// The longest data of an option that is read into memory.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;
/// The most options that a client may send before it must use an export.
pub const OPTIONS_MAX: u32 = 256;
