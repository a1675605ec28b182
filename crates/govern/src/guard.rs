//! The lease of work outside of this program: a small process that carries out the default as soon as the governor is gone.
//!
//! The process is a shell that reads from a pipe which only the governor can write to. When the governor ends, in whatever way, the kernel
//! closes the pipe; the shell's reading ends, and it carries out the default. An orderly end is the same: the pipe is closed. So there is
//! one way back to the default, and it is tested whenever the governor ends.

use std::io::{self, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};

use ioweir_config::format_nanos;
use ioweir_core::Nanos;

use super::process;
use ioweir_block::executor::MachineClock;

/// How long an orderly end waits for a default to be done.
const RELEASE_SPAN: Nanos = Nanos::from_seconds(5);

/// Waits for the end of the pipe, then becomes the command. A signal to all processes of the governor does not end it.
const THEN_RUN: &str = "trap '' HUP INT TERM\nread -r _\ntrap - HUP INT TERM\nexec \"$@\"";
/// Reads the number of a process group, or of none, on each line. At the end of the pipe it ends the last one: it asks first.
const THEN_END: &str = "trap '' HUP INT TERM
group=
while read -r next; do group=$next; done
[ -n \"$group\" ] || exit 0
kill -s TERM -- \"-$group\"
kill -s CONT -- \"-$group\"
for _ in 1 2 3 4 5; do
    kill -s 0 -- \"-$group\" || exit 0
    sleep 1
done
kill -s KILL -- \"-$group\"";
/// A script that reads process groups until the pipe closes, and then lets the last one go on.
const THEN_CONTINUE: &str = "trap '' HUP INT TERM
group=
while read -r next; do group=$next; done
[ -z \"$group\" ] || kill -s CONT -- \"-$group\"";

/// What happens without a governor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// A command is run.
    Run(Vec<String>),
    /// The process group that it was told goes on.
    Continue,
    /// The process group that it was told is ended.
    End,
}

/// A process that waits for the end of the governor. Dropping this lets it act.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    /// The only end that could be written to.
    pipe: PipeWriter,
    /// Whether the default is carried out quickly, so that a release waits for it: to end a process group may take seconds.
    acts_at_once: bool,
}

impl Guard {
    pub(super) fn start(fallback: &Fallback) -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        let (script, words): (_, &[String]) = match fallback {
            Fallback::Run(words) => (THEN_RUN, words),
            Fallback::Continue => (THEN_CONTINUE, &[]),
            Fallback::End => (THEN_END, &[]),
        };
        let mut command = process::command("/bin/sh");
        command.args(["-c", script, "ioweir-lease"]).args(words).process_group(0);
        let child = command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { child, pipe, acts_at_once: *fallback != Fallback::End })
    }

    /// Lets the process act, and waits until it has: a command's problem, if it failed.
    pub(super) fn release(self) -> Option<String> {
        let Self { mut child, pipe, acts_at_once } = self;
        drop(pipe);
        if !acts_at_once {
            return None;
        }
        let clock = MachineClock::new();
        match process::wait_for(&mut child, &clock, RELEASE_SPAN) {
            Some(status) if status.success() => None,
            Some(status) => Some(process::ending(status)),
            None => Some(format!("takes longer than {}", format_nanos(RELEASE_SPAN))),
        }
    }

    /// Tells it the process group that its fallback is about; none for zero.
    pub(super) fn watch(&mut self, group: u32) -> io::Result<()> {
        match group {
            0 => writeln!(self.pipe),
            group => writeln!(self.pipe, "{group}"),
        }
    }
}
