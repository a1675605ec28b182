//! Real devices: their identity, operations that measure them, and settings that are changed and restored.
//!
//! A [`Target`] is a block device or a file that was opened for measuring, read-only unless writing is allowed. An [`Identity`] has the
//! facts of sysfs about a device. A [`Ring`] sends operations to a target (or to any [`crate::backend::Backend`], so that an emulated
//! device can be measured in virtual time) and times them. [`Settings`] changes the queue of a device and restores it, even after the
//! process was killed.

mod error;
mod identity;
mod ring;
mod settings;
mod stat;
mod stop;
mod system;
mod target;

pub use error::RealError;
pub use identity::Identity;
pub use ring::{Completed, Halt, Ring};
pub use settings::{Settings, restore_left, state_folder};
pub use stat::Stat;
pub use stop::Stop;
pub use system::{Number, System};
pub use target::{Access, Kind, Target};
