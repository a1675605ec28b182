//! Decodes Google's protocol buffers as far as OCTF uses them.

/// The value of a field. The wire gives its type, the format its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(crate) const fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }

    pub(crate) const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Number(_) => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The most bytes of a number on the wire.
const VARINT_BYTES_MAX: usize = 10;

/// Reads the number at `at`, and moves `at` past it; `None` if the bytes end within it or it is too long.
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for place in 0..VARINT_BYTES_MAX {
        let byte = *bytes.get(*at + place)?;
        let part = u64::from(byte & 0x7f);
        // The tenth byte has room for a single bit.
        if place == VARINT_BYTES_MAX - 1 && part > 1 {
            return None;
        }
        value |= part << (7 * place);
        if byte & 0x80 == 0 {
            *at += place + 1;
            return Some(value);
        }
    }
    None
}

/// The fields of a message in their order. An item of `None` means damage, and is the last.
pub(crate) fn fields(message: &[u8]) -> impl Iterator<Item = Option<(u64, Value<'_>)>> {
    let mut at = 0;
    let mut damaged = false;
    std::iter::from_fn(move || {
        if damaged || at >= message.len() {
            return None;
        }
        let found = field(message, &mut at);
        damaged = found.is_none();
        Some(found)
    })
}

fn field<'a>(message: &'a [u8], at: &mut usize) -> Option<(u64, Value<'a>)> {
    let key = varint(message, at)?;
    let value = match key & 7 {
        0 => Value::Number(varint(message, at)?),
        2 => {
            let length = usize::try_from(varint(message, at)?).ok()?;
            Value::Bytes(take(message, at, length)?)
        }
        1 => Value::Number(u64::from_le_bytes(*take(message, at, 8)?.first_chunk()?)),
        5 => Value::Number(u64::from(u32::from_le_bytes(*take(message, at, 4)?.first_chunk()?))),
        _ => return None,
    };
    Some((key >> 3, value))
}

fn take<'a>(message: &'a [u8], at: &mut usize, length: usize) -> Option<&'a [u8]> {
    let end = at.checked_add(length)?;
    let bytes = message.get(*at..end)?;
    *at = end;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    proptest! {
        #[test]
        fn numbers_read_back(value in any::<u64>(), shift in 0_u32..64) {
            let bytes = written(value >> shift);
            let mut at = 0;
            prop_assert_eq!(varint(&bytes, &mut at), Some(value >> shift));
            prop_assert_eq!(at, bytes.len());
        }

        #[test]
        fn no_message_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(fields(&bytes).count() <= bytes.len());
        }
    }

    #[test]
    fn every_type_of_field_is_known() {
        let message = [8, 150, 1, 18, 2, 7, 8, 25, 1, 0, 0, 0, 0, 0, 0, 0, 37, 2, 0, 0, 0];
        let found: Vec<_> = fields(&message).flatten().collect();
        assert_eq!(
            found,
            [(1, Value::Number(150)), (2, Value::Bytes(&[7, 8])), (3, Value::Number(1)), (4, Value::Number(2)),]
        );
        assert_eq!(fields(&[18, 9, 1]).collect::<Vec<_>>(), [None]);
    }
}
