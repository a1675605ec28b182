//! Parses and writes the letters by which the block layer describes a request (rwbs).
//!
//! The meaning of a letter depends on its position: `F` before the operation asks for a flush before the data, `F` after it
//! for the data to be durable. So letters are read by position: `[F] (R | W | D[E] | N | F) [F] [A] [B] [S] [M] [U]`. `B` is
//! the barrier of kernels before 2.6.37: a flush before the data, which are durable when they complete. `Z` and another letter
//! is an operation on a zone, of which only `ZA`, an append, moves data.

use ioweir_core::{Flags, Operation};

use crate::reader::number::{Fault, Faulty, quote};

/// The meaning of the letters; `operation` is `None` for `N` without a flush, which is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) operation: Option<Operation>,
    pub(crate) flags: Flags,
}

/// Reads the letters of a request of `length_bytes`.
#[inline]
pub(crate) fn parse(letters: &[u8], length_bytes: u64) -> Faulty<Meaning> {
    let preflush = letters.first() == Some(&b'F');
    let mut at = usize::from(preflush);
    let mut operation = match letters.get(at) {
        Some(b'R') => Some(Operation::Read),
        Some(b'W') => Some(Operation::Write),
        Some(b'D') => Some(Operation::Discard),
        Some(b'N') => None,
        Some(b'Z') if letters.get(at + 1) == Some(&b'A') => Some(Operation::Write),
        Some(b'Z') if matches!(letters.get(at + 1), Some(b'R' | b'O' | b'C' | b'F')) => None,
        // A flush by itself, with or without a flush before it.
        _ if preflush => {
            at = usize::from(letters.get(1) == Some(&b'F'));
            Some(Operation::Flush)
        }
        _ => return Err(unknown(letters, 0)),
    };
    at += 1;
    if letters.get(at - 1) == Some(&b'Z') {
        // Two letters, and a third for the reset of all zones.
        at += 1 + usize::from(letters[at..].starts_with(b"RA"));
    }
    if operation == Some(Operation::Discard) && letters.get(at) == Some(&b'E') {
        at += 1;
    }
    let (mut flags, mut is_barrier) = (Flags::NONE, false);
    while let Some(letter) = letters.get(at) {
        flags = flags.with(match letter {
            b'F' => Flags::FUA,
            b'A' => Flags::READ_AHEAD,
            b'B' => {
                is_barrier = true;
                Flags::NONE
            }
            b'S' => Flags::SYNC,
            b'M' => Flags::METADATA,
            // An untorn write, which makes no difference here.
            b'U' => Flags::NONE,
            _ => return Err(unknown(letters, at)),
        });
        at += 1;
    }
    if is_barrier && length_bytes == 0 && operation == Some(Operation::Write) {
        operation = Some(Operation::Flush);
    } else if is_barrier {
        flags = flags.with(Flags::PREFLUSH).with(Flags::FUA);
    }
    if preflush && operation != Some(Operation::Flush) {
        let without_data = operation.is_none() || length_bytes == 0 && operation == Some(Operation::Write);
        if without_data {
            operation = Some(Operation::Flush);
        } else {
            flags = flags.with(Flags::PREFLUSH);
        }
    }
    Ok(Meaning { operation, flags })
}

#[cold]
fn unknown(letters: &[u8], at: usize) -> Box<Fault> {
    let problem = if letters.is_empty() {
        "the operation is missing".to_owned()
    } else {
        format!("operation {} is not known", quote(letters))
    };
    Fault::new(at, problem)
        .expected("[F] R, W, D, N or Z with a letter, then any of F, A, B, S, M, U: such as R, RA, WS, FWFSM")
}

/// The letters of a request, which [`parse`] reads back as the same.
pub(crate) fn write(operation: Operation, flags: Flags) -> String {
    let mut letters = String::new();
    if operation == Operation::Flush || flags.has(Flags::PREFLUSH) {
        letters.push('F');
    }
    letters.push(match operation {
        Operation::Read => 'R',
        Operation::Write | Operation::Flush => 'W',
        Operation::Discard => 'D',
    });
    let known = [(Flags::FUA, 'F'), (Flags::READ_AHEAD, 'A'), (Flags::SYNC, 'S'), (Flags::METADATA, 'M')];
    letters.extend(known.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, letter)| letter));
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(letters: &str, length_bytes: u64) -> Option<(Option<Operation>, Flags)> {
        parse(letters.as_bytes(), length_bytes).ok().map(|meaning| (meaning.operation, meaning.flags))
    }

    #[test]
    fn the_place_of_an_f_decides_its_meaning() {
        let write = Some(Operation::Write);
        let journal = Flags::SYNC.with(Flags::METADATA);
        assert_eq!(meaning("FWFSM", 4096), Some((write, journal.with(Flags::FUA).with(Flags::PREFLUSH))));
        assert_eq!(meaning("WFSM", 4096), Some((write, journal.with(Flags::FUA))));
        assert_eq!(meaning("FWS", 4096), Some((write, Flags::SYNC.with(Flags::PREFLUSH))));
    }

    #[test]
    fn a_flush_without_data_is_a_flush() {
        for letters in ["FN", "FF", "F", "FW"] {
            assert_eq!(meaning(letters, 0), Some((Some(Operation::Flush), Flags::NONE)), "{letters}");
        }
        assert_eq!(meaning("FWS", 0), Some((Some(Operation::Flush), Flags::SYNC)));
        assert_eq!(meaning("N", 0), Some((None, Flags::NONE)));
    }

    #[test]
    fn a_discard_may_be_an_erase() {
        assert_eq!(meaning("DS", 512), Some((Some(Operation::Discard), Flags::SYNC)));
        assert_eq!(meaning("DES", 512), Some((Some(Operation::Discard), Flags::SYNC)));
    }

    #[test]
    fn unknown_letter_is_an_error_at_place() {
        assert_eq!(parse(b"WQ", 0).map_err(|fault| fault.at), Err(1));
        assert_eq!(parse(b"x", 0).map_err(|fault| fault.at), Err(0));
        assert!(parse(b"", 0).is_err());
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for operation in Operation::ALL {
            for flags in (0..32).filter_map(Flags::from_bits) {
                // A flush is not preceded by another flush.
                if operation == Operation::Flush && flags.has(Flags::PREFLUSH) {
                    continue;
                }
                let length_bytes = if operation == Operation::Flush { 0 } else { 512 };
                let letters = write(operation, flags);
                let read = parse(letters.as_bytes(), length_bytes).expect("written by us");
                assert_eq!((read.operation, read.flags), (Some(operation), flags));
            }
        }
    }
}
