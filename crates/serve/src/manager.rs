//! Messages to the service manager that started the server (systemd): that the server is ready, that its engines answer, and that
//! it ends or another process takes its place.
//!
//! Without a service manager nothing is sent. An error in sending is ignored: the manager then acts as without a message.

use sd_notify::NotifyState;

/// Reports that clients can connect.
pub fn say_ready() {
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}

/// Reports that the server ends.
pub fn say_stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
}

/// Reports that the process of this number takes the place of this one.
pub fn say_replaced_by(process: u32) {
    let _ = sd_notify::notify(&[NotifyState::MainPid(process)]);
}

/// Whether the manager ends a server that sends no messages.
pub fn is_watching() -> bool {
    sd_notify::watchdog_enabled().is_some()
}

/// Reports that all engines have answered.
pub fn say_alive() {
    let _ = sd_notify::notify(&[NotifyState::Watchdog]);
}
