//! Reads user input: sizes, durations, rates, policies with settings, and files. Errors give the position.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod amount;
mod choice;
pub mod date;
mod error;
mod external;
mod file;
mod flag;
mod format;
mod keys;
mod priority;
mod scheduler;
mod share;
mod table;
mod text;

pub use amount::{
    AMOUNT_EXAMPLES, AmountExample, AmountKind, ByteRate, Duration, Rate, Ratio, Size, UnitError, parse_decimal,
};
pub use choice::{Choice, ChoiceError, Choosable, ScheduleChoice, format_range, format_value, unknown};
pub use error::{Complaint, SpecError};
pub use external::register_policy;
pub use file::{plain, read_spec};
pub use flag::{Flag, FlagForm, Shorthand, defaults, flags_of, with_flags};
pub use format::{format_bytes, format_count, format_decimals, format_nanos, is_same_name, shown};
#[doc(hidden)]
pub use keys::read_table;
pub use keys::{Key, KeySet, MayBeAbsent, default_text, one_line};
pub use priority::IoPriority;
pub use scheduler::SchedulerChoice;
#[doc(hidden)]
pub use serde;
pub use share::{SHARE_NUMBERS, ShareKeys, ShareNumber, ShareNumbers};
pub use table::{from_table, to_table};
