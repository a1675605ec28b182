//! The service manager that started the server (systemd): it hears when the server is ready, and that its engines answer.
//!
//! Without one nothing is sent. What cannot be sent is not missed: the manager then acts as it would without an answer.

use sd_notify::NotifyState;

/// Says that clients can connect.
pub fn say_ready() {
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}

/// Whether the manager ends a server of which it hears nothing.
pub(crate) fn is_watching() -> bool {
    sd_notify::watchdog_enabled().is_some()
}

/// Says that all engines have answered.
pub(crate) fn say_alive() {
    let _ = sd_notify::notify(&[NotifyState::Watchdog]);
}
