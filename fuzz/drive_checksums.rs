//! Runs one fuzzing input through the reader of kept checksums, for the target and for the test that replays the corpus on stable.

use ioweir_block::backend::checked::sidecar::{Identity, read, write};

/// The file that the checksums are of.
pub(crate) const IDENTITY: Identity =
    Identity { size_bytes: 5_000 * 4096 + 100, device: 3, inode: 4, changed: (1_700_000_000, 5) };

/// First byte: even, the rest gets the right checksum at its end; odd, it is taken as it is. Whatever is read comes out the same when it
/// is written.
pub(crate) fn drive(data: &[u8]) {
    let Some((&selector, rest)) = data.split_first() else { return };
    let mut bytes = rest.to_vec();
    if selector & 1 == 0 {
        bytes.extend(crc32c::crc32c(rest).to_le_bytes());
    }
    if let Ok(table) = read(&IDENTITY, &bytes[..]) {
        let mut again = Vec::new();
        assert!(write(&table, &IDENTITY, &mut again).is_ok());
        assert!(again == bytes, "what is written is what was read");
    }
}
