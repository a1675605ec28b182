//! Messages to the service manager that started the server (systemd): that the server is ready, and that its engines answer.
//!
//! Without a service manager nothing is sent. An error in sending is ignored: the manager then acts as without a message.

use sd_notify::NotifyState;

/// Reports that clients can connect.
pub fn say_ready() {
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}

/// Whether the manager ends a server that sends no messages.
pub(crate) fn is_watching() -> bool {
    sd_notify::watchdog_enabled().is_some()
}

/// Reports that all engines have answered.
pub(crate) fn say_alive() {
    let _ = sd_notify::notify(&[NotifyState::Watchdog]);
}
