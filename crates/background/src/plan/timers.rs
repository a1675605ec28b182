//! A plan as units of systemd: for each service a target that is started when one of its windows begins and stopped when it
//! ends.
//!
//! The operator's own unit does the work: with `PartOf=` and `WantedBy=` of the target it starts and stops with it. Nothing of
//! this program runs in between, so nothing looks at what the foreground really does: the windows hold up to the plan's
//! quantile.

use std::fmt::Write as _;

use super::made::{Plan, Window};
use ioweir_config::date::format_moment;

/// What happens to a target, what systemd does then, and when in a window that is.
type Change = (&'static str, &'static str, fn(&Window) -> i64);
const CHANGES: [Change; 2] =
    [("open", "start", |window| window.start_unix_seconds), ("close", "stop", |window| window.end_unix_seconds)];

impl Plan {
    /// The units, each with the name of its file.
    #[must_use]
    pub fn timers(&self) -> Vec<(String, String)> {
        let mut units = Vec::new();
        for sheet in &self.balance {
            let windows: Vec<&Window> = self.windows.iter().filter(|window| window.service == sheet.service).collect();
            if windows.is_empty() {
                continue;
            }
            let target = format!("ioweir-{}.target", sheet.service);
            let about =
                format!("time for {} by the plan of {} UTC", sheet.service, format_moment(self.start_unix_seconds));
            let whole = format!(
                "# A unit that does the work has these lines, and is enabled:\n#   [Unit]\n#   PartOf={target}\n#   [Install]\n\
                 #   WantedBy={target}\n[Unit]\nDescription={about}\n"
            );
            units.push((target.clone(), whole));
            for (name, verb, at) in CHANGES {
                let unit = format!("ioweir-{}-{name}", sheet.service);
                let mut timer = format!("[Unit]\nDescription={about}: {verb}\n\n[Timer]\n");
                for window in &windows {
                    let _ = writeln!(timer, "OnCalendar={}:00 UTC", format_moment(at(window)));
                }
                timer.push_str("AccuracySec=1s\n\n[Install]\nWantedBy=timers.target\n");
                let service = format!(
                    "[Unit]\nDescription={about}: {verb}\n\n[Service]\nType=oneshot\nExecStart=systemctl --no-block {verb} \
                     {target}\n"
                );
                units.extend([(format!("{unit}.timer"), timer), (format!("{unit}.service"), service)]);
            }
        }
        units
    }
}
