//! Runs one fuzzing input through a disk of a virtual machine, for the target and for the test that replays the corpus on stable.

use ioweir_serve::vhost::chain::{Asked, Segment, Table, read_chain};
use vm_memory::{Bytes as _, GuestAddress, GuestMemory as _, GuestMemoryMmap, Permissions};

/// The memory of the guest: two regions that touch each other, and one apart from them.
pub(crate) const REGIONS: [(u64, usize); 3] = [(0x1000, 0x3000), (0x4000, 0x1000), (0x8000, 0x2000)];
/// Where the input is written to.
const INPUT: u64 = 0x1000;

/// First byte: the size of the queue, as an exponent. Second and third: the first descriptor. The rest is the memory of the guest,
/// beginning with the table of descriptors. What is read as a request lies in that memory, and is no longer than the queue.
pub(crate) fn drive(data: &[u8]) {
    let [exponent, low, high, rest @ ..] = data else { return };
    let regions = REGIONS.map(|(start, length)| (GuestAddress(start), length));
    let Ok(memory) = GuestMemoryMmap::<()>::from_ranges(&regions) else { return };
    let rest = &rest[..rest.len().min(0x4000)];
    assert!(memory.write_slice(rest, GuestAddress(INPUT)).is_ok());
    let table = Table { address: GuestAddress(INPUT), size: 1 << (exponent % 11) };
    let head = u16::from_le_bytes([*low, *high]);
    let read = read_chain(&memory, table, head);
    assert_eq!(read, read_chain(&memory, table, head), "the same memory is read as the same request");
    let Ok(chain) = read else { return };
    let writes = matches!(chain.asked, Asked::Of(request) if request.payload > 0);
    let access = if writes { Permissions::Read } else { Permissions::Write };
    let lies_within = |&(address, length): &Segment| length > 0 && memory.check_range(address, length as usize, access);
    assert!(chain.data.iter().all(lies_within));
    assert!(memory.check_range(chain.status, 1, Permissions::Write));
    assert!(chain.data.len() <= usize::from(table.size));
    if let Asked::Of(request) = chain.asked {
        let bytes: u64 = chain.data.iter().map(|(_, length)| u64::from(*length)).sum();
        assert!(chain.data.is_empty() || bytes == request.length, "a request is as long as its data");
    }
}
