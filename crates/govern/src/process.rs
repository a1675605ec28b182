//! Runs a program for at most a given time, and takes its output, up to a bound.
//!
//! The program has a process group of its own, so that ending the group ends the processes that it has started, and a Ctrl-C at the
//! terminal does not reach it.

use std::fmt;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use ioweir_config::{format_nanos, plain, shown};
use ioweir_core::Nanos;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use ioweir_block::backend::poll_for;
use ioweir_block::executor::{Clock as _, MachineClock};

/// The most bytes of a program's output that are kept.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// How long a program that was killed may take to disappear; one that waits for a dead device never does.
const KILL_SPAN: Nanos = Nanos::from_seconds(2);

/// Why a program did not do what it was started for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessError {
    /// The program could not be started.
    NotStarted(String),
    /// The program took longer than it may, and was ended.
    Hung(Nanos),
    /// The program ended with a failure: how, and the last line that it printed.
    Failed(String, String),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(problem) => write!(out, "cannot be started: {problem}"),
            Self::Hung(limit) => write!(out, "took longer than {}, and was ended", format_nanos(*limit)),
            Self::Failed(how, line) if line.is_empty() => write!(out, "{how}"),
            Self::Failed(how, line) => write!(out, "{how}: {}", shown(line)),
        }
    }
}

impl std::error::Error for ProcessError {}

/// [`ProcessError`]. A program that has not ended in time is killed, with its process group.
pub fn run(words: &[String], limit: Nanos) -> Result<String, ProcessError> {
    let (mut child, output) = spawn(words, 0).map_err(|error| ProcessError::NotStarted(plain(&error)))?;
    let clock = MachineClock::new();
    let end = clock.now().after(limit);
    let mut kept = Vec::new();
    let status = loop {
        drain(&output, &mut kept);
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if clock.now() < end => wait(&child, Some(&output), end.since(clock.now())),
            _ => {
                end_group(&mut child, &clock);
                return Err(ProcessError::Hung(limit));
            }
        }
    };
    drain(&output, &mut kept);
    let text = String::from_utf8_lossy(&kept).into_owned();
    if status.success() { Ok(text) } else { Err(ProcessError::Failed(ending(status), last_line(&text))) }
}

/// A program to start. It is not this service: it has no word with the service manager, which would take it for the governor.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    command
}

/// Starts a program in the process group `group`, or in one of its own for zero. Both of its outputs are one pipe, which does
/// not block.
pub(super) fn spawn(words: &[String], group: i32) -> io::Result<(Child, PipeReader)> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let (output, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let mut command = command(program);
    command.args(arguments).process_group(group).stdin(Stdio::null());
    let child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    Ok((child, output))
}

/// How a program ended, in words.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended in an unknown way".into(),
    }
}

/// The last line that is not blank.
pub(super) fn last_line(text: &str) -> String {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// Reads the available output of a pipe, and keeps its end.
pub(super) fn drain(mut output: &PipeReader, kept: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    // The pipe is empty, has ended or has failed: the program's end tells more.
    while let Ok(read @ 1..) = output.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        if kept.len() > 2 * OUTPUT_BYTES_MAX {
            kept.drain(..kept.len() - OUTPUT_BYTES_MAX);
        }
    }
    kept.drain(..kept.len().saturating_sub(OUTPUT_BYTES_MAX));
}

/// Waits until the program ends or prints something, or for `span`.
fn wait(child: &Child, output: Option<&PipeReader>, span: Nanos) {
    let end = Pid::from_raw(child.id().cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let ends = end.as_ref().map(|end| end.as_fd());
    // A pipe that all writers have closed is always readable, and would make this a busy loop.
    let output = output.filter(|output| !is_closed(output)).map(|output| output.as_fd());
    let watched: Vec<_> = ends.into_iter().chain(output).collect();
    // Without a descriptor of the process it is looked at a few times a second.
    let span = if end.is_some() { span } else { span.min(Nanos::from_millis(50)) };
    // Where waiting fails, the caller looks again.
    let _ = poll_for(&watched, span);
}

fn is_closed(output: &PipeReader) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut watched = [PollFd::new(output, PollFlags::IN)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok() && watched[0].revents() == PollFlags::HUP
}

/// Kills a process group. One that does not die, because it waits for a device that does not answer, is left behind.
pub(super) fn end_group(child: &mut Child, clock: &MachineClock) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // The group may have ended by itself.
        let _ = kill_process_group(group, Signal::KILL);
    }
    wait_for(child, clock, KILL_SPAN);
}

/// Waits for the end of a program, for at most `span`.
pub(super) fn wait_for(child: &mut Child, clock: &MachineClock, span: Nanos) -> Option<ExitStatus> {
    let end = clock.now().after(span);
    loop {
        match child.try_wait() {
            Ok(None) if clock.now() < end => wait(child, None, end.since(clock.now())),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn started_program_cannot_notify_the_service_manager() {
        let command = command("true");
        assert!(command.get_envs().any(|(name, value)| name == "NOTIFY_SOCKET" && value.is_none()));
    }
}
