//! Runs one fuzzing input through the NBD codec, for the target and for the test that replays the corpus on stable.

use std::sync::Arc;

use ioweir_serve::nbd::{Agreed, Contexts, Decoder, Event, Export, Negotiation, Progress, Request, Tls};

/// The results of reading a stream of bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) answers: Vec<u8>,
    pub(crate) agreed: Option<Agreed>,
    /// Whether the rest came encrypted.
    pub(crate) is_secret: bool,
    pub(crate) closed: bool,
    pub(crate) requests: Vec<Request>,
    pub(crate) payload: Vec<u8>,
    pub(crate) is_broken: bool,
}

/// The exports that the tests talk about.
pub(crate) fn exports() -> Arc<[Export]> {
    let export = |name: &str, description: &str, read_only| Export {
        name: name.into(),
        offset_bytes: 0,
        description: description.into(),
        size_bytes: 1 << 20,
        read_only,
        block_bytes_min: 1,
        block_bytes_preferred: 4096,
        trims: true,
    };
    [export("a", "the first", false), export("b", "", true)].into()
}

/// Feeds `bytes` in pieces of the lengths that `pieces` gives, the last of which repeats.
#[allow(dead_code, reason = "the tests use it, and what is fuzzed has both")]
pub(crate) fn hear(bytes: &[u8], pieces: impl IntoIterator<Item = usize>) -> Heard {
    hear_under(Tls::None, bytes, pieces)
}

/// Reads a stream of bytes as a server with a certificate does. The bytes behind `STARTTLS` are taken for decrypted ones.
pub(crate) fn hear_under(tls: Tls, bytes: &[u8], pieces: impl IntoIterator<Item = usize>) -> Heard {
    let mut negotiation = Negotiation::new(exports(), tls);
    let mut decoder = None;
    let mut heard = Heard::default();
    let mut pieces = pieces.into_iter();
    let (mut rest, mut length) = (bytes, usize::MAX);
    while !rest.is_empty() && !heard.closed && !heard.is_broken {
        length = pieces.next().unwrap_or(length).max(1);
        let (mut piece, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        while heard.agreed.is_none() && !heard.closed && !piece.is_empty() {
            match negotiation.feed(&mut piece, &mut heard.answers) {
                Progress::More => assert!(piece.is_empty(), "more is wanted only when all was taken"),
                Progress::Answered => {}
                Progress::StartTls => {
                    assert!(!heard.is_secret, "TLS begins once");
                    heard.is_secret = true;
                }
                Progress::Agreed(agreed) => {
                    heard.agreed = Some(agreed);
                    decoder = Some(Decoder::new(agreed.replies));
                }
                Progress::Closed => heard.closed = true,
            }
        }
        if let Some(decoder) = &mut decoder {
            read_requests(decoder, &mut piece, &mut heard);
        }
    }
    heard
}

fn read_requests(decoder: &mut Decoder, piece: &mut &[u8], heard: &mut Heard) {
    loop {
        match decoder.next(piece) {
            Ok(Some(Event::Request(request))) => heard.requests.push(request),
            Ok(Some(Event::Payload(payload))) => heard.payload.extend_from_slice(payload),
            Ok(None) => return assert!(piece.is_empty(), "more is wanted only when all was taken"),
            Err(_) => {
                heard.is_broken = true;
                return;
            }
        }
    }
}

/// First byte: the length of the pieces, and whether there is TLS. The rest is what a client sends. However it is cut, the
/// same comes out.
pub(crate) fn drive(data: &[u8]) {
    let Some((&length, bytes)) = data.split_first() else { return };
    let tls = [Tls::None, Tls::Offered, Tls::Required][usize::from(length % 3)];
    let whole = hear_under(tls, bytes, [usize::MAX]);
    assert_eq!(whole, hear_under(tls, bytes, [usize::from(length)]), "the same in pieces as at once");
    assert!(tls != Tls::Required || whole.agreed.is_none() || whole.is_secret, "no export is agreed upon in the open");
    assert!(whole.answers.len() <= bytes.len().saturating_mul(64) + 4096, "answers are bounded by what was asked");
    for request in &whole.requests {
        for export in exports().iter() {
            if request.check(export, Contexts::of(&[1])).is_ok() {
                let end = request.offset.checked_add(request.length);
                assert!(end.is_some_and(|end| end <= export.size_bytes), "what is taken lies on the export");
                assert!(
                    request.payload == 0 || u64::from(request.payload) == request.length,
                    "data is as long as it says"
                );
            }
        }
    }
}
