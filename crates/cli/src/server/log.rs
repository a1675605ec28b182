//! The server's log on standard error, in the form and from the level on that the spec says.

use std::fmt;
use std::io;

use ioweir_serve::spec::{Log, LogFormat, LogLevel};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Begins to write the events of the server. A second call has no effect.
pub(crate) fn begin(log: Log) {
    let level = match log.level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(false);
    let begun = match log.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Journald => lines.event_format(Journald).try_init(),
    };
    // This fails only if another subscriber was set before.
    drop(begun);
}

/// Lines that begin with the priority, which the journal takes off (sd-daemon(3)); it adds the time.
struct Journald;

impl<S, N> FormatEvent<S, N> for Journald
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            _ => 6,
        };
        write!(to, "<{priority}>")?;
        Format::default().without_time().with_level(false).with_target(false).format_event(context, to, event)
    }
}
