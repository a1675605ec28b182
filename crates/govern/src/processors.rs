//! Sets of processors, as the kernel writes them: "2-3,6".

use std::fmt;
use std::io;
use std::str::FromStr;

use ioweir_config::plain;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Some processors of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Processors {
    text: String,
    numbers: Vec<usize>,
}

impl FromStr for Processors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number < CpuSet::MAX_CPU);
        let mut numbers: Vec<usize> = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => numbers.extend(first..=last),
                _ => return Err(format!("\"{text}\" are no processors: numbers and ranges such as \"2-3,6\"")),
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self { text: text.to_owned(), numbers })
    }
}

impl TryFrom<String> for Processors {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Processors> for String {
    fn from(processors: Processors) -> Self {
        processors.text
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Processors {
    /// Whether this program may use all of them.
    ///
    /// # Errors
    /// The problem in words, where it may not.
    pub fn check(&self) -> Result<(), String> {
        let mine = sched_getaffinity(None).map_err(|error| plain(&error.into()))?;
        match self.numbers.iter().find(|number| !mine.is_set(**number)) {
            None => Ok(()),
            Some(number) => Err(format!("this program may not use processor {number}")),
        }
    }

    /// Confines the calling thread, and every program that it starts from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn confine(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.numbers.iter().for_each(|number| set.set(*number));
        Ok(sched_setaffinity(None, &set)?)
    }
}
