//! A worker that is run, paused and asked by programs of this machine.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Child;

use ioweir_config::{plain, shown};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Patterns, Position, Progress, Task, Worker, WorkerError};
use crate::guard::{Fallback, Guard};
use crate::process::{self, drain, ending, last_line};
use crate::spec::{Otherwise, RateKeys, WorkerKeys};
use ioweir_block::executor::MachineClock;

/// The state of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No work is known to be going on.
    Idle,
    Running,
    Paused,
}

/// A program that does the work while it runs.
#[derive(Debug)]
struct Running {
    child: Child,
    output: PipeReader,
    printed: Vec<u8>,
}

/// Programs that run a service.
#[derive(Debug)]
pub struct Commands {
    keys: WorkerKeys,
    patterns: Patterns,
    guards: Vec<Guard>,
    state: State,
    position: Position,
    running: Option<Running>,
    /// The value that was last set.
    value: Option<u64>,
    clock: MachineClock,
}

fn failed(what: &str, words: &[String], error: impl std::fmt::Display) -> WorkerError {
    let program = words.first().map(String::as_str).unwrap_or_default();
    WorkerError(format!("{what}: {}: {error}", shown(program)))
}

impl Commands {
    /// A worker of checked keys; its lease begins now.
    ///
    /// # Errors
    /// If its lease cannot be begun.
    pub fn new(keys: WorkerKeys, position: Position) -> Result<Self, WorkerError> {
        let patterns = Patterns::new(&keys)?;
        if let Some(processors) = &keys.processors {
            processors.check().map_err(|problem| WorkerError(format!("processors: {problem}")))?;
        }
        let guards: Result<Vec<Guard>, _> = fallbacks(&keys).iter().map(Guard::start).collect();
        let guards = guards.map_err(|error| WorkerError(format!("the lease cannot be begun: {}", plain(&error))))?;
        let clock = MachineClock::new();
        Ok(Self { keys, patterns, guards, state: State::Idle, position, running: None, value: None, clock })
    }

    /// Runs one of the commands.
    fn call(&self, what: &str, words: &[String]) -> Result<String, WorkerError> {
        process::run(words, self.keys.limit.nanos()).map_err(|error| failed(what, words, error))
    }

    fn set_rate(&mut self, rate: &RateKeys, value: u64) -> Result<(), WorkerError> {
        if self.value == Some(value) {
            return Ok(());
        }
        match &rate.file {
            Some(file) => fs::write(file, value.to_string()).map_err(|error| {
                WorkerError(format!("rate: {}: {}", shown(&file.display().to_string()), plain(&error)))
            })?,
            None => drop(self.call("rate", &filled(&rate.command, &[("{value}", value)]))?),
        }
        self.value = Some(value);
        Ok(())
    }

    /// Begins work that goes on elsewhere, or goes on with it.
    fn start_or_resume(&mut self) -> Result<(), WorkerError> {
        let may_resume = self.position.is_begun && !self.keys.resume.is_empty();
        // Work may have ended while nobody looked.
        if !may_resume || self.call("resume", &self.keys.resume).is_err() {
            self.call("start", &self.keys.start)?;
        }
        self.position.is_begun = true;
        Ok(())
    }

    /// Starts the program that does the work. It waits until the guard knows of it, and ends if it never does.
    fn spawn(&mut self) -> Result<(), WorkerError> {
        let words = &self.keys.run;
        let start = || -> io::Result<(Child, PipeReader, PipeWriter)> {
            let (gate, opener) = io::pipe()?;
            let (output, writer) = io::pipe()?;
            rustix::io::ioctl_fionbio(&output, true)?;
            let mut command = process::command("/bin/sh");
            command.args(["-c", "read -r _ || exit 0\nexec \"$@\"", "ioweir-run"]).args(words).process_group(0);
            let child = command.stdin(gate).stdout(writer.try_clone()?).stderr(writer).spawn()?;
            Ok((child, output, opener))
        };
        let unstarted = |error: io::Error| failed("run", words, plain(&error));
        let (child, output, mut gate) = start().map_err(unstarted)?;
        let group = child.id();
        self.running = Some(Running { child, output, printed: Vec::new() });
        self.watch(group)?;
        writeln!(gate).map_err(|error| failed("run", &self.keys.run, plain(&error)))
    }

    /// Tells the guard the process group that it is responsible for.
    fn watch(&mut self, group: u32) -> Result<(), WorkerError> {
        let told = self.guards.iter_mut().try_for_each(|guard| guard.watch(group));
        told.map_err(|error| WorkerError(format!("its lease has ended: {}", plain(&error))))
    }

    fn signal(&self, signal: Signal) -> Result<(), WorkerError> {
        let group = self.running.as_ref().and_then(|running| Pid::from_raw(running.child.id().cast_signed()));
        let Some(group) = group else { return Ok(()) };
        kill_process_group(group, signal).map_err(|error| failed("signal", &self.keys.run, plain(&error.into())))
    }

    /// Does the next part, as long as that takes.
    fn step(&mut self, task: &Task) -> Result<(), WorkerError> {
        let size = self.keys.size.map_or(0, |size| size.0);
        if self.position.offset_bytes >= size {
            self.position.offset_bytes = 0;
        }
        let offset = self.position.offset_bytes;
        let length = task.bytes.clamp(1, size - offset);
        let words = filled(&self.keys.step, &[("{offset_bytes}", offset), ("{length_bytes}", length)]);
        let limit = self.keys.limit.nanos().after(self.keys.grace.nanos());
        process::run(&words, limit).map_err(|error| failed("step", &words, error))?;
        self.position = Position { is_begun: offset + length < size, offset_bytes: offset + length };
        Ok(())
    }

    /// Looks whether the program has ended.
    fn look(&mut self) -> Result<Progress, WorkerError> {
        let Some(running) = &mut self.running else { return Ok(Progress::default()) };
        drain(&running.output, &mut running.printed);
        let Ok(Some(status)) = running.child.try_wait() else { return Ok(Progress::default()) };
        // The program may have printed its last words between the two calls.
        drain(&running.output, &mut running.printed);
        let line = last_line(&String::from_utf8_lossy(&running.printed));
        (self.running, self.state, self.position.is_begun) = (None, State::Idle, false);
        self.watch(0)?;
        if status.success() {
            return Ok(Progress { is_finished: true, ..Progress::default() });
        }
        Err(failed("run", &self.keys.run, format_args!("{}: {}", ending(status), shown(&line))))
    }
}

impl Worker for Commands {
    fn run(&mut self, task: &Task) -> Result<(), WorkerError> {
        if let Some(rate) = self.keys.rate.clone() {
            self.set_rate(&rate, value_of(&rate, task.bytes_per_second_max))?;
        }
        if let Some(processors) = &self.keys.processors {
            // A worker has a thread of its own, and its programs inherit what the thread may use.
            processors.confine().map_err(|error| WorkerError(format!("processors: {}", plain(&error))))?;
        }
        if !self.keys.step.is_empty() {
            return self.step(task);
        }
        if self.state == State::Running {
            return Ok(());
        }
        if !self.keys.start.is_empty() {
            self.start_or_resume()?;
        } else if !self.keys.run.is_empty() {
            match self.state {
                State::Paused if !self.keys.resume.is_empty() => drop(self.call("resume", &self.keys.resume)?),
                State::Paused => self.signal(Signal::CONT)?,
                State::Idle | State::Running => self.spawn()?,
            }
        }
        self.state = State::Running;
        Ok(())
    }

    fn pause(&mut self) -> Result<(), WorkerError> {
        if self.state == State::Paused {
            return Ok(());
        }
        let is_known = self.state == State::Running;
        if let Some(rate) = self.keys.rate.clone() {
            self.set_rate(&rate, rate.min)?;
        }
        if !self.keys.pause.is_empty() {
            // Work that is not known to run may be absent when it is paused.
            let paused = self.call("pause", &self.keys.pause);
            if is_known {
                paused?;
            }
        } else if !self.keys.run.is_empty() {
            self.signal(Signal::STOP)?;
        } else if is_known && self.keys.rate.is_none() && !self.keys.end.is_empty() {
            self.call("end", &self.keys.end)?;
        }
        if is_known {
            self.state = State::Paused;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), WorkerError> {
        if !self.keys.end.is_empty() {
            self.call("end", &self.keys.end)?;
        }
        if let Some(running) = &mut self.running {
            process::end_group(&mut running.child, &self.clock);
            if !matches!(running.child.try_wait(), Ok(Some(_))) {
                return Err(failed("run", &self.keys.run, "does not end, even when it is killed"));
            }
            self.running = None;
            self.watch(0)?;
        }
        self.state = State::Idle;
        Ok(())
    }

    fn progress(&mut self) -> Result<Progress, WorkerError> {
        let looked = self.look()?;
        if looked.is_finished {
            return Ok(looked);
        }
        if !self.keys.step.is_empty() {
            let (done, size) = (self.position.offset_bytes, self.keys.size.map_or(0, |size| size.0));
            let is_finished = done > 0 && done >= size;
            let owed_bytes = Some(size.saturating_sub(done));
            return Ok(Progress { done_bytes: Some(done), owed_bytes, is_finished, ..Progress::default() });
        }
        // Work that is not known to have begun has no progress.
        if self.keys.progress.is_empty() || self.state == State::Idle {
            return Ok(Progress::default());
        }
        let progress = self.patterns.read(&self.call("progress", &self.keys.progress)?)?;
        if progress.is_finished && self.state == State::Running {
            (self.state, self.position.is_begun) = (State::Idle, false);
        }
        Ok(progress)
    }

    fn position(&self) -> Position {
        self.position
    }

    fn release(self: Box<Self>) -> Result<(), WorkerError> {
        let said: Vec<String> = self.guards.into_iter().filter_map(Guard::release).collect();
        // Work that has not begun, or has ended, may be absent when it is paused.
        let is_nothing = self.keys.default == Otherwise::Rest && !self.position.is_begun && self.keys.rate.is_none();
        if said.is_empty() || is_nothing {
            Ok(())
        } else {
            Err(WorkerError(format!("its default: {}", said.join(", "))))
        }
    }
}

/// The actions to take when the governor is gone.
fn fallbacks(keys: &WorkerKeys) -> Vec<Fallback> {
    let rests = keys.default == Otherwise::Rest;
    let mut fallbacks = Vec::new();
    if let Some(rate) = &keys.rate {
        let value = rate.otherwise.unwrap_or(if rests { rate.min } else { rate.max });
        fallbacks.push(Fallback::Run(match &rate.file {
            None => filled(&rate.command, &[("{value}", value)]),
            Some(file) => {
                let script = "printf %s \"$1\" > \"$2\"";
                let words = ["/bin/sh", "-c", script, "ioweir-rate", &value.to_string(), &file.display().to_string()];
                words.map(str::to_owned).into()
            }
        }));
    }
    if !keys.run.is_empty() {
        fallbacks.push(if rests { Fallback::End } else { Fallback::Continue });
    } else if !keys.start.is_empty() {
        let (first, second) = if rests { (&keys.pause, &keys.end) } else { (&keys.resume, &keys.start) };
        let words = if first.is_empty() { second } else { first };
        // Where resting is a slow pace, that is set above.
        let is_paced = rests && keys.rate.is_some() && keys.pause.is_empty();
        if !words.is_empty() && !is_paced {
            fallbacks.push(Fallback::Run(words.clone()));
        }
    }
    fallbacks
}

/// The value that stands for a rate.
fn value_of(rate: &RateKeys, bytes_per_second: Option<u64>) -> u64 {
    bytes_per_second.map_or(rate.max, |bytes| (bytes / rate.unit.0.max(1)).clamp(rate.min, rate.max))
}

/// The words of a command with numbers in their places.
fn filled(words: &[String], numbers: &[(&str, u64)]) -> Vec<String> {
    let fill = |word: &String| {
        numbers.iter().fold(word.clone(), |word, (place, number)| word.replace(place, &number.to_string()))
    };
    words.iter().map(fill).collect()
}
