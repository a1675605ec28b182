//! Notices a device that has had an operation for so long that it seems to hang, while its engine continues.

use ioweir_core::Nanos;

use super::Engine;
use crate::log::EventKind;

/// How long a device may have an operation until it seems to hang: as long as Linux waits before it resets a disk.
const HANG_AFTER: Nanos = Nanos::from_seconds(30);
/// How often the engine checks a device that seems to hang.
const HANGING_LOOK: Nanos = Nanos::from_seconds(1);

/// The result of the last check.
#[derive(Debug, Default)]
pub(super) struct Hang {
    /// Whether the device had an operation for too long.
    pub(super) is_seen: bool,
    /// The earliest time at which an operation can be too old.
    due: Nanos,
}

impl Engine {
    /// Logs once that an operation of the device has become too old, and once that no operation is too old any more. Returns the time of
    /// the next check.
    pub(super) fn look_for_hang(&mut self) -> Nanos {
        if self.now >= self.hang.due {
            let due = self.dispatcher.oldest().unwrap_or(self.now).after(HANG_AFTER);
            let is_seen = due <= self.now;
            if is_seen && !self.hang.is_seen {
                let what = format!("it has had an operation for {} s: it seems to hang", HANG_AFTER.as_seconds());
                self.log.report(self.now, EventKind::DeviceHangs, &what);
            } else if !is_seen && self.hang.is_seen {
                self.log.report(self.now, EventKind::DeviceBack, "it has completed its old operations");
            }
            self.hang = Hang { is_seen, due: if is_seen { self.now.after(HANGING_LOOK) } else { due } };
        }
        // A device without operations is not checked.
        if self.dispatcher.is_idle() && !self.hang.is_seen { Nanos::NEVER } else { self.hang.due }
    }
}
