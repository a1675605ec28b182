//! Numbers processes, streams and volumes in the order of their appearance.
//!
//! The maps are only used for look-ups, so their order never shows. A trace may contain any number of distinct names, so
//! both their count and their bytes are bounded.

use std::collections::HashMap;

use ioweir_core::StreamId;

use crate::Names;
use crate::reader::number::{Fault, Faulty};

/// The most distinct streams, and the most distinct volumes, of one trace.
const NAMES_MAX: usize = 1 << 20;
/// The longest name that is kept whole.
const NAME_BYTES_MAX: usize = 256;

fn shortened(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(NAME_BYTES_MAX)]).into_owned()
}

fn add(list: &mut Vec<String>, name: String, what: &str) -> Faulty<u32> {
    match u32::try_from(list.len()) {
        Ok(number) if list.len() < NAMES_MAX => {
            list.push(name);
            Ok(number)
        }
        _ => Err(Fault::new(0, format!("more than {NAMES_MAX} {what}")).expected("fewer: is this the right format?")),
    }
}

/// Numbers for byte strings.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    last: Option<(Box<[u8]>, u32)>,
    numbers: HashMap<Box<[u8]>, u32>,
}

impl Volumes {
    /// The number of `key`; if it is new, `name` gives its name.
    #[inline]
    pub(crate) fn number(&mut self, key: &[u8], names: &mut Names, name: impl FnOnce() -> String) -> Faulty<u32> {
        match &self.last {
            Some((last, number)) if **last == *key => Ok(*number),
            _ => self.find(key, names, name),
        }
    }

    /// The number of `key`, if it has had a request.
    pub(crate) fn known(&self, key: &[u8]) -> Option<u32> {
        match &self.last {
            Some((last, number)) if **last == *key => Some(*number),
            _ => self.numbers.get(key).copied(),
        }
    }

    /// Checks whether `text` begins with the volume of the previous call and then `follows`; returns its number, and the
    /// bytes of both.
    #[inline]
    pub(crate) fn again(&self, text: &[u8], follows: u8) -> Option<(u32, usize)> {
        let (key, number) = self.last.as_ref()?;
        let rest = text.strip_prefix(&**key)?;
        (rest.first() == Some(&follows)).then_some((*number, key.len() + 1))
    }

    /// As [`Self::number`], but also creates a stream of the same number and name.
    #[inline]
    pub(crate) fn with_stream(&mut self, key: &[u8], names: &mut Names, name: impl FnOnce() -> String) -> Faulty<u32> {
        let number = self.number(key, names, name)?;
        if let Some(new) = names.volumes.get(names.streams.len()..).filter(|new| !new.is_empty()) {
            names.streams.extend_from_slice(new);
        }
        Ok(number)
    }

    /// Numbers a stream that has only a name. One table is used either for volumes or for streams.
    pub(crate) fn stream(&mut self, key: &[u8], names: &mut Names) -> Faulty<StreamId> {
        if let Some(number) = self.known(key) {
            return Ok(StreamId(number));
        }
        let number = add(&mut names.streams, shortened(key), "streams")?;
        self.numbers.insert(key.into(), number);
        self.last = Some((key.into(), number));
        Ok(StreamId(number))
    }

    fn find(&mut self, key: &[u8], names: &mut Names, name: impl FnOnce() -> String) -> Faulty<u32> {
        let number = match self.numbers.get(key) {
            Some(&number) => number,
            None => {
                let number = add(&mut names.volumes, shortened(name().as_bytes()), "volumes")?;
                self.numbers.insert(key.into(), number);
                number
            }
        };
        self.last = Some((key.into(), number));
        Ok(number)
    }
}

const CACHE_ENTRIES: usize = 256;
const COMMAND_BYTES: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Cached {
    pid: u32,
    stream: u32,
    /// More than a command's bytes if the entry is free.
    length: usize,
    command: [u8; COMMAND_BYTES],
}

const FREE: Cached = Cached { pid: 0, stream: 0, length: usize::MAX, command: [0; COMMAND_BYTES] };

#[derive(Clone, Copy, Debug)]
struct Current {
    stream: u32,
    named: bool,
}

/// Numbers for processes. A process that changes its command becomes a new stream; one whose command becomes known later
/// keeps its number and gets the name.
#[derive(Debug)]
pub(crate) struct Processes {
    cache: Box<[Cached; CACHE_ENTRIES]>,
    current: HashMap<u32, Current>,
    named: HashMap<(u32, Box<[u8]>), u32>,
    noted: HashMap<u32, Box<[u8]>>,
}

impl Processes {
    pub(crate) fn new() -> Self {
        let cache = Box::new([FREE; CACHE_ENTRIES]);
        Self { cache, current: HashMap::new(), named: HashMap::new(), noted: HashMap::new() }
    }

    /// The stream of a process with its command; an empty command or `(null)` means unknown.
    #[inline]
    pub(crate) fn stream(&mut self, pid: u32, command: &[u8], names: &mut Names) -> Faulty<StreamId> {
        let cached = &self.cache[pid as usize % CACHE_ENTRIES];
        if cached.pid == pid && cached.length == command.len() && cached.command[..cached.length] == *command {
            return Ok(StreamId(cached.stream));
        }
        let stream = self.find(pid, command, names)?;
        if command.len() <= COMMAND_BYTES {
            let mut bytes = [0; COMMAND_BYTES];
            bytes[..command.len()].copy_from_slice(command);
            self.cache[pid as usize % CACHE_ENTRIES] = Cached { pid, stream, length: command.len(), command: bytes };
        }
        Ok(StreamId(stream))
    }

    /// The stream of a process whose command may have been given to [`Self::note`].
    #[inline]
    pub(crate) fn noted_stream(&mut self, pid: u32, names: &mut Names) -> Faulty<StreamId> {
        let cached = &self.cache[pid as usize % CACHE_ENTRIES];
        if cached.pid == pid && cached.length == 0 {
            return Ok(StreamId(cached.stream));
        }
        let command = self.noted.get(&pid).cloned().unwrap_or_default();
        let stream = self.find(pid, &command, names)?;
        self.cache[pid as usize % CACHE_ENTRIES] = Cached { pid, stream, length: 0, command: [0; COMMAND_BYTES] };
        Ok(StreamId(stream))
    }

    /// Learns the command of a process, for later requests and for earlier ones without a name.
    pub(crate) fn note(&mut self, pid: u32, command: &[u8], names: &mut Names) -> Faulty<()> {
        if self.noted.len() >= NAMES_MAX && !self.noted.contains_key(&pid) {
            return Err(Fault::new(0, format!("more than {NAMES_MAX} processes")));
        }
        self.noted.insert(pid, command.into());
        self.cache[pid as usize % CACHE_ENTRIES] = FREE;
        if self.current.get(&pid).is_some_and(|current| !current.named) {
            self.find(pid, command, names)?;
        }
        Ok(())
    }

    fn find(&mut self, pid: u32, command: &[u8], names: &mut Names) -> Faulty<u32> {
        let current = self.current.get(&pid).copied();
        if command.is_empty() || command == b"(null)" {
            if let Some(current) = current {
                return Ok(current.stream);
            }
            let stream = add(&mut names.streams, pid.to_string(), "streams")?;
            self.current.insert(pid, Current { stream, named: false });
            return Ok(stream);
        }
        let command = &command[..command.len().min(NAME_BYTES_MAX)];
        let key = (pid, Box::from(command));
        let stream = match (self.named.get(&key), current) {
            (Some(&stream), _) => stream,
            (None, Some(Current { stream, named: false })) => {
                if let Some(name) = names.streams.get_mut(stream as usize) {
                    *name = format!("{pid} {}", shortened(command));
                }
                stream
            }
            (None, _) => add(&mut names.streams, format!("{pid} {}", shortened(command)), "streams")?,
        };
        self.named.insert(key, stream);
        self.current.insert(pid, Current { stream, named: true });
        Ok(stream)
    }
}
