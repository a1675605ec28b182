//! The head of a leg: its first block, which says to which mirror the leg belongs and which legs had everything when it was
//! written.
//!
//! It fits a sector, so that a loss of power leaves the old one or the new one. All numbers are little-endian: 16 bytes
//! `ioweir mirror`, padded with zeroes; version, number of the leg, number of legs, and zero, 32 bits each; identity,
//! generation, members, bytes of data and of a region, 64 bits each; and the CRC-32C of everything before.

use super::super::bits::PAGE_REGIONS;
use super::super::parts::BLOCK_BYTES;

pub(super) const MAGIC: &[u8; 16] = b"ioweir mirror\0\0\0";
const VERSION: u32 = 1;
/// The bytes before the checksum.
const SUMMED: usize = 72;

/// Where things lie on a leg: the head, the pages of the map of regions, the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) data_bytes: u64,
    pub(super) region_bytes: u64,
}

impl Layout {
    /// The layout of a new mirror whose shortest leg has this length.
    pub(super) fn of_leg(leg_bytes: u64, region_bytes: u64) -> Result<Self, String> {
        let blocks = leg_bytes / BLOCK_BYTES;
        let pages_of = |blocks: u64| (blocks * BLOCK_BYTES).div_ceil(region_bytes).div_ceil(PAGE_REGIONS);
        // The map of the whole leg is larger than that of what is left for data. One page more is for the blocks that this gains.
        let most = pages_of(blocks);
        let pages = most.min(pages_of(blocks.saturating_sub(1 + most)) + 1);
        match blocks.checked_sub(1 + pages).filter(|&blocks| blocks > 0) {
            Some(blocks) => Ok(Self { data_bytes: blocks * BLOCK_BYTES, region_bytes }),
            None => Err(format!("too small: it takes at least {} bytes", (2 + pages) * BLOCK_BYTES)),
        }
    }

    /// The layout with more data. The map keeps its place, and so does the data.
    pub(super) fn grown(self, data_bytes: u64) -> Result<Self, String> {
        let most = (self.pages() * PAGE_REGIONS).saturating_mul(self.region_bytes);
        if data_bytes < self.data_bytes {
            return Err(format!("has {} bytes, and does not become shorter", self.data_bytes));
        }
        if !data_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(format!("size: {data_bytes} bytes are not whole blocks of {BLOCK_BYTES}"));
        }
        if data_bytes > most {
            let what = "its map lies before its data, and has room for";
            return Err(format!("size: {what} {most} bytes in regions of {}", self.region_bytes));
        }
        Ok(Self { data_bytes, ..self })
    }

    pub(super) const fn regions(&self) -> u64 {
        self.data_bytes.div_ceil(self.region_bytes)
    }

    pub(super) const fn pages(&self) -> u64 {
        self.regions().div_ceil(PAGE_REGIONS)
    }

    /// Where a page of the map lies.
    pub(super) const fn page_at(page: u64) -> u64 {
        (1 + page) * BLOCK_BYTES
    }

    /// Where the data begins.
    pub(super) const fn data_at(&self) -> u64 {
        Self::page_at(self.pages())
    }

    pub(super) const fn leg_bytes(&self) -> u64 {
        self.data_at() + self.data_bytes
    }
}

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// That of the mirror: random, and the same on all its legs.
    pub(super) identity: u64,
    /// Increases with every change of the members. Zero on a leg that is being copied to, whose data is of no time.
    pub(super) generation: u64,
    /// The legs that have everything, a bit for each.
    pub(super) members: u64,
    /// The number of the leg.
    pub(super) leg: u32,
    /// The number of legs of the mirror.
    pub(super) legs: u32,
    pub(super) layout: Layout,
}

impl Head {
    /// The head of a leg that is being copied to.
    pub(super) const fn of_copy(self, leg: u32) -> Self {
        Self { generation: 0, members: 0, leg, ..self }
    }

    pub(super) fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            block[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(MAGIC);
        for number in [VERSION, self.leg, self.legs, 0] {
            put(&number.to_le_bytes());
        }
        let Layout { data_bytes, region_bytes } = self.layout;
        for number in [self.identity, self.generation, self.members, data_bytes, region_bytes] {
            put(&number.to_le_bytes());
        }
        let sum = crc32c::crc32c(&block[..SUMMED]);
        block[SUMMED..SUMMED + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads a head; `None` if the block is empty.
    pub(super) fn decode(block: &[u8]) -> Result<Option<Self>, String> {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let short = |at: usize| {
            block.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
        };
        let long = |at: usize| u64::from(short(at)) | u64::from(short(at + 4)) << 32;
        if !block.starts_with(MAGIC) {
            return Err("holds something else; expected an empty one, or one that belongs to the mirror".into());
        }
        if short(16) != VERSION {
            return Err(format!("its head is of version {}, and this program knows {VERSION}", short(16)));
        }
        if crc32c::crc32c(block.get(..SUMMED).unwrap_or_default()) != short(SUMMED) {
            return Err("its head is damaged".into());
        }
        let layout = Layout { data_bytes: long(56), region_bytes: long(64) };
        let (leg, legs) = (short(20), short(24));
        if layout.region_bytes == 0 || layout.data_bytes == 0 || layout.data_bytes > 1 << 62 || leg >= legs || legs > 64
        {
            return Err("its head is damaged".into());
        }
        Ok(Some(Self { identity: long(32), generation: long(40), members: long(48), leg, legs, layout }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        identity: 0x0123_4567_89ab_cdef,
        generation: 7,
        members: 0b11,
        leg: 1,
        legs: 2,
        layout: Layout { data_bytes: 40_960, region_bytes: 4096 },
    };

    #[test]
    fn a_head_reads_back_and_one_that_is_empty_foreign_or_damaged_is_told_apart() {
        let mut block = vec![0; BLOCK_BYTES as usize];
        assert_eq!(Head::decode(&block), Ok(None));
        HEAD.encode(&mut block);
        assert_eq!(Head::decode(&block), Ok(Some(HEAD)));
        for at in 0..76 {
            let mut other = block.clone();
            other[at] ^= 1;
            assert!(Head::decode(&other).is_err(), "byte {at}");
        }
        assert!(Head::decode(b"MBR").unwrap_err().starts_with("holds something else"));
        assert!(Head::decode(&block[..40]).is_err());
    }

    #[test]
    fn data_and_map_of_a_new_mirror_fit_its_shortest_leg() {
        for leg_bytes in (0..40_u64).map(|blocks| blocks * 4096 + 100).chain([1 << 30, (1 << 44) + 5]) {
            for region_bytes in [4096, 1 << 20] {
                match Layout::of_leg(leg_bytes, region_bytes) {
                    Ok(layout) => {
                        assert!(layout.leg_bytes() <= leg_bytes && leg_bytes - layout.leg_bytes() < 3 * 4096);
                    }
                    Err(problem) => assert!(leg_bytes < 3 * 4096, "{problem}"),
                }
            }
        }
    }
}
