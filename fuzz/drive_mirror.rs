//! What one fuzzing input means to the opening of a mirror, for the target and for the test that replays the corpus on stable.

use ioweir_serve::backend::{Backend, Faulty, Media, Mirror, MirrorPlan};
use ioweir_serve::spec::Faults;

const LEG_BYTES: u64 = 64 << 10;

/// First byte: even, the first block of each leg gets the right checksum; odd, it is taken as it is. Two legs, which begin with
/// the halves of the rest: they open or are refused, and what opens is as long as it fits a leg.
pub(crate) fn drive(data: &[u8]) {
    let Some((&selector, rest)) = data.split_first() else { return };
    let halves = rest.split_at(rest.len() / 2);
    let media = [halves.0, halves.1].map(|half| {
        let mut bytes = half.get(..half.len().min(LEG_BYTES as usize)).unwrap_or_default().to_vec();
        if selector & 1 == 0 && bytes.len() >= 76 {
            let sum = crc32c::crc32c(&bytes[..72]).to_le_bytes();
            bytes[72..76].copy_from_slice(&sum);
        }
        let media = Media::new(LEG_BYTES);
        assert!(media.write(0, &bytes).is_ok());
        media
    });
    let open = move |leg: usize| Ok(Box::new(Faulty::new(media[leg].clone(), Faults::default())) as Box<dyn Backend>);
    let plan = MirrorPlan { legs: 2, region_bytes: 4096, force: None, read_only: selector & 2 != 0 };
    if let Ok(mirror) = Mirror::open(plan, Box::new(open)) {
        assert!(mirror.size_bytes() < LEG_BYTES);
    }
}
