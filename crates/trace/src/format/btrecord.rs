//! Reads btrecord's files for btreplay, which hold bunches of requests that are sent together.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::merge::merged;
use crate::reader::number::endian::{big, little};
use crate::reader::number::{Fault, Faulty, byte_extent, scaled};
use crate::reader::units::{Decoder, Units};
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

const HEADER_BYTES: usize = 32;
const BUNCH_BYTES: usize = 16;
const PACKET_BYTES: usize = 24;
const BUNCH_PACKETS_MAX: u64 = 512;
/// Major, minor and sub-version, one byte each; the tool has never gone beyond 0.9.3.
const VERSION_MAX: u64 = 0x01_ff_ff;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "btrecord",
    title: "btrecord files for btreplay",
    doc: include_str!("docs/btrecord.md"),
    detect: |head| swapped(head).is_some(),
    open,
    ..Format::UNSAID
};

#[inline]
fn number(bytes: &[u8], at: usize, swapped: bool) -> u64 {
    if swapped { big::<8>(bytes, at) } else { little::<8>(bytes, at) }
}

/// Whether the bytes are in the order of a big-endian machine; `None` if the file is not of this format.
fn swapped(head: &[u8]) -> Option<bool> {
    [false, true].into_iter().find(|&swapped| {
        let version = number(head, 0, swapped);
        let first = HEADER_BYTES + BUNCH_BYTES;
        head.len() >= first
            && (1..=VERSION_MAX).contains(&version)
            && number(head, 16, swapped) > 0
            && number(head, 16, swapped) <= number(head, 24, swapped)
            && (1..=BUNCH_PACKETS_MAX).contains(&number(head, HEADER_BYTES, swapped))
    })
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let mut sources: Vec<Box<dyn RawSource>> = Vec::new();
    let many = inputs.len() > 1;
    // The trace of all processors is one volume, named by the common part of the file names.
    let name = inputs.first().map(Input::volume_name).unwrap_or_default();
    let name = if many { name.rsplit_once('.').map_or(&*name, |(base, _)| base).to_owned() } else { name };
    for input in inputs {
        let head = input.head()?;
        let format =
            Bunches { swapped: swapped(&head).unwrap_or(false), head: None, bunch: None, packets: 0, bunches: 0 };
        let names = Names { streams: vec![name.clone()], volumes: vec![name.clone()] };
        let order = options.order(FORMAT.window_records);
        sources.push(Box::new(Units::open(&input, format, names, order, options.lenient)?));
    }
    merged(sources)
}

/// A bunch that is being read.
#[derive(Clone, Copy, Debug)]
struct Bunch {
    time: Nanos,
    left: u64,
}

struct Bunches {
    swapped: bool,
    /// The number of bunches and of packets that the header states.
    head: Option<(u64, u64)>,
    bunch: Option<Bunch>,
    packets: u64,
    bunches: u64,
}

impl Bunches {
    fn header(&mut self, bytes: &[u8]) -> Faulty<()> {
        let number = |at| number(bytes, at, self.swapped);
        let version = number(0);
        if !(1..=VERSION_MAX).contains(&version) {
            return Err(Fault::new(0, format!("version {version:#x} is not known"))
                .expected("three bytes of major, minor and sub-version, such as 0x000903"));
        }
        self.head = Some((number(16), number(24)));
        Ok(())
    }

    fn packet(&mut self, bytes: &[u8], bunch: Bunch) -> Faulty<Record> {
        let left = bunch.left - 1;
        self.bunch = (left > 0).then_some(Bunch { left, ..bunch });
        self.packets += 1;
        let number = |at| number(bytes, at, self.swapped);
        let offset = scaled(number(0), ioweir_core::SECTOR_BYTES, 0, "sector")?;
        let extent = byte_extent(offset, number(8), 0)?;
        let direction = if self.swapped { big::<4>(bytes, 16) } else { little::<4>(bytes, 16) };
        let operation = match direction {
            0 => Operation::Write,
            1 => Operation::Read,
            other => {
                return Err(
                    Fault::new(16, format!("rw {other} is not known")).expected("1 for a read or 0 for a write")
                );
            }
        };
        Ok(Record::plain(bunch.time, extent, operation, 0))
    }
}

impl Decoder for Bunches {
    fn unit_bytes(&self) -> Option<usize> {
        Some(match (self.head, self.bunch) {
            (None, _) => HEADER_BYTES,
            (_, None) => BUNCH_BYTES,
            (_, Some(_)) => PACKET_BYTES,
        })
    }

    fn unit(&mut self, bytes: &[u8], _: &mut Names) -> Faulty<Option<Record>> {
        if self.head.is_none() {
            return self.header(bytes).map(|()| None);
        }
        if let Some(bunch) = self.bunch {
            return self.packet(bytes, bunch).map(Some);
        }
        let left = number(bytes, 0, self.swapped);
        if !(1..=BUNCH_PACKETS_MAX).contains(&left) {
            return Err(Fault::new(0, format!("a bunch of {left} packets")).expected("1 to 512"));
        }
        self.bunches += 1;
        self.bunch = Some(Bunch { time: Nanos(number(bytes, 8, self.swapped)), left });
        Ok(None)
    }

    fn end(&mut self) -> Faulty<()> {
        let found = (self.bunches, self.packets);
        match self.head {
            Some(promised) if promised != found || self.bunch.is_some() => {
                let problem = format!("the file ends after {} bunches and {} packets", found.0, found.1);
                Err(Fault::new(0, problem).expected(format!("{} and {}, as its header says", promised.0, promised.1)))
            }
            _ => Ok(()),
        }
    }
}
