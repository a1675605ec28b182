//! Runs one fuzzing input through the client's side of NBD, for the target and for the test that replays the corpus on stable.

use ioweir_serve::nbd::client::{Answer, Answers, Asked, Coverage, Encryption, Handshake, Step, Terms};
use ioweir_serve::nbd::{Command, NbdError};

/// The size of the export that is asked.
pub(crate) const SIZE: u64 = 1 << 20;

/// The requests, under the cookies from zero on.
pub(crate) const ASKED: [Asked; 5] = [
    Asked { command: Command::Read, offset: 4096, length: 8192 },
    Asked { command: Command::Write, offset: 0, length: 4096 },
    Asked { command: Command::Flush, offset: 0, length: 0 },
    Asked { command: Command::BlockStatus, offset: 0, length: SIZE },
    Asked { command: Command::Read, offset: 0, length: 1 },
];

/// Of one answer: data by place, whether all of it came, extents, error, and how often it was done.
pub(crate) type Answered = (Vec<(u64, u8)>, Coverage, Vec<(u64, u32)>, Option<NbdError>, u32);

/// The results of reading a stream of bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) said: Vec<u8>,
    pub(crate) terms: Option<Terms>,
    /// Why it was left.
    pub(crate) problem: Option<String>,
    /// By cookie.
    pub(crate) answers: [Answered; 5],
}

/// Feeds `bytes` in pieces of this length.
pub(crate) fn hear(encryption: Encryption, bytes: &[u8], piece: usize) -> Heard {
    let mut handshake = Handshake::new("a", encryption);
    let mut answers = None;
    let mut heard = Heard::default();
    for mut input in bytes.chunks(piece.max(1)) {
        while heard.terms.is_none() && heard.problem.is_none() {
            match handshake.feed(&mut input, &mut heard.said) {
                Ok(Step::More) => {
                    assert!(input.is_empty(), "more is wanted only when all was taken");
                    break;
                }
                Ok(Step::StartTls) => handshake.encrypted(&mut heard.said),
                Ok(Step::Agreed(terms)) => {
                    heard.terms = Some(terms);
                    answers = Some(Answers::new(terms.replies, terms.allocation));
                }
                Err(error) => heard.problem = Some(error.to_string()),
            }
        }
        if let Some(answers) = &mut answers {
            take(answers, &mut input, &mut heard);
        }
        if heard.problem.is_some() {
            break;
        }
    }
    heard
}

fn take(answers: &mut Answers, input: &mut &[u8], heard: &mut Heard) {
    let find = |cookie: u64| ASKED.get(cookie as usize).copied();
    while heard.problem.is_none() {
        let answer = match answers.next(input, find) {
            Ok(Some(answer)) => answer,
            Ok(None) => return assert!(input.is_empty(), "more is wanted only when all was taken"),
            Err(error) => return heard.problem = Some(error.to_string()),
        };
        let of = |cookie: u64| cookie as usize;
        let covered = match answer {
            Answer::Data(cookie, offset, bytes) => {
                let asked = ASKED[of(cookie)];
                let end = offset + bytes.len() as u64;
                assert!(asked.command == Command::Read && offset >= asked.offset && end <= asked.offset + asked.length);
                heard.answers[of(cookie)].0.extend((offset..).zip(bytes.iter().copied()));
                heard.answers[of(cookie)].1.add(offset, bytes.len() as u64)
            }
            Answer::Zeroes(cookie, offset, length) => {
                let asked = ASKED[of(cookie)];
                assert!(asked.command == Command::Read && offset >= asked.offset);
                assert!(offset + length <= asked.offset + asked.length && length > 0);
                heard.answers[of(cookie)].1.add(offset, length)
            }
            Answer::Extent(cookie, extent) => {
                assert!(ASKED[of(cookie)].command == Command::BlockStatus && extent.length > 0);
                heard.answers[of(cookie)].2.push((extent.length, extent.state));
                Ok(())
            }
            Answer::Error(cookie, error) => {
                heard.answers[of(cookie)].3.get_or_insert(error);
                Ok(())
            }
            Answer::Done(cookie) => {
                heard.answers[of(cookie)].4 += 1;
                Ok(())
            }
        };
        if let Err(error) = covered {
            heard.problem = Some(error.to_string());
        }
    }
}

/// Runs an input whole and in pieces: however it is cut, the result is the same.
pub(crate) fn drive(data: &[u8]) {
    let Some((&length, bytes)) = data.split_first() else { return };
    if length & 1 == 1 {
        // Bytes that follow STARTTLS at once are refused, so that the cut matters.
        drop(hear(Encryption::First, bytes, usize::from(length)));
        return;
    }
    let whole = hear(Encryption::None, bytes, usize::MAX);
    let pieces = hear(Encryption::None, bytes, usize::from(length));
    assert_eq!((&whole.problem, &whole.said), (&pieces.problem, &pieces.said), "the same in pieces as at once");
    // Answers that came in before an error need not be equal.
    assert!(whole.problem.is_some() || whole == pieces, "the same in pieces as at once");
    assert!(whole.said.len() <= 4096, "what is said is bounded, whatever comes");
}
