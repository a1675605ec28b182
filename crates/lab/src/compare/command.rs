//! The command line that runs a comparison again.

use super::Comparison;
use crate::document::quoted;

impl Comparison {
    /// The command that runs the comparison again: the settings that differ from the defaults, and those that a reader wants to see anyway.
    #[must_use]
    pub fn command(&self) -> String {
        let default = Self::default();
        let mut words: Vec<String> = vec!["ioweir".into(), "compare".into()];
        // A name that begins with a dash would be taken for a flag.
        let is_flag = |trace: &String| trace.starts_with('-') && trace != "-";
        let file = |trace: &String| if is_flag(trace) { quoted(&format!("./{trace}")) } else { quoted(trace) };
        words.extend(self.traces.iter().map(file));
        let mut flag = |name: &str, value: &str| words.extend([name.to_string(), quoted(value)]);
        flag("--device", &self.devices.0.join(","));
        if self.fast_device != default.fast_device {
            flag("--fast-device", &self.fast_device);
        }
        flag("--scheduler", &list(&self.schedulers));
        flag("--load", &list(&self.loads));
        if let Some(format) = &self.format {
            flag("--format", format);
        }
        if let Some(volume) = &self.volume {
            flag("--volume", volume);
        }
        if self.event != default.event {
            flag("--event", self.event.name());
        }
        if self.queue_requests != default.queue_requests {
            flag("--queue-requests", &self.queue_requests.to_string());
        }
        if self.request_bytes_max != default.request_bytes_max {
            flag("--request-bytes-max", &self.request_bytes_max.to_string());
        }
        if self.depths != default.depths {
            flag("--depth", &list(&self.depths.0));
        }
        flag("--seed", &list(&self.seeds.0));
        if self.lenient {
            words.push("--lenient".into());
        }
        if self.alone {
            words.push("--alone".into());
        }
        if self.fold {
            words.push("--fold".into());
        }
        if self.spread {
            words.push("--spread".into());
        }
        if !self.merge {
            words.push("--no-merge".into());
        }
        if self.goal != default.goal {
            words.extend(["--goal".into(), self.goal.name().into()]);
        }
        if let Some(of) = &self.of {
            words.extend(["--of".into(), quoted(of)]);
        }
        if self.by_stream {
            words.extend(["--by".into(), "stream".into()]);
        }
        words.join(" ")
    }
}

fn list(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
