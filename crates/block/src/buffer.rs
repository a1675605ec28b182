//! Buffers for data between socket and device, aligned for direct I/O and reused.
//!
//! A buffer has one owner at a time: a session, a backend, or the reply that is being sent. It is moved, never shared, so
//! nothing else writes to it while the device does.

/// The alignment that direct I/O needs of addresses, offsets and lengths.
pub const ALIGNMENT_BYTES: usize = 4096;

/// The capacities of buffers, except the largest.
const CLASSES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// The memory that a pool takes for data of so many bytes, if it is the longest.
#[must_use]
pub fn capacity_for(bytes: u64) -> u64 {
    CLASSES.iter().map(|&capacity| capacity as u64).find(|capacity| bytes <= *capacity).unwrap_or(bytes)
}

/// The longest data for which [`capacity_for`] is at most `bytes`; zero if there is none.
#[must_use]
pub fn longest_within(bytes: u64) -> u64 {
    let class = CLASSES.iter().map(|&capacity| capacity as u64).rfind(|capacity| *capacity <= bytes).unwrap_or(0);
    let page = CLASSES[0] as u64;
    if class == CLASSES[CLASSES.len() - 1] as u64 { bytes / page * page } else { class }
}

/// The number of buffers of the smallest class that are made in advance, so that a backend can register them.
pub const REGISTERED: u16 = 64;

/// Aligned bytes.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Longer than the capacity, by the alignment.
    memory: Vec<u8>,
    start: usize,
    capacity: usize,
    length: usize,
    /// The number among the registered buffers.
    registered: Option<u16>,
}

impl Buffer {
    /// A buffer outside of any pool.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let memory = vec![0; capacity + ALIGNMENT_BYTES];
        let start = memory.as_ptr().align_offset(ALIGNMENT_BYTES);
        Self { memory, start, capacity, length: capacity, registered: None }
    }

    /// The bytes in use.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    /// The bytes in use, for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    /// The number of bytes in use.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Reduces the bytes in use.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Whether no bytes are in use.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The most bytes that it can hold.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number among the registered buffers, if it is one.
    #[must_use]
    pub const fn registered(&self) -> Option<u16> {
        self.registered
    }
}

/// The buffers of one operation, ordered by their addresses on the device.
#[derive(Debug, Default)]
pub enum Buffers {
    /// No data.
    #[default]
    None,
    /// The data of one request.
    One(Buffer),
    /// The buffers of requests that were merged.
    Many(Vec<Buffer>),
}

impl Buffers {
    /// All buffers.
    #[must_use]
    pub fn as_slice(&self) -> &[Buffer] {
        match self {
            Self::None => &[],
            Self::One(buffer) => std::slice::from_ref(buffer),
            Self::Many(buffers) => buffers,
        }
    }

    /// All buffers, for writing.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [Buffer] {
        match self {
            Self::None => &mut [],
            Self::One(buffer) => std::slice::from_mut(buffer),
            Self::Many(buffers) => buffers,
        }
    }
}

impl Buffers {
    /// Calls `act` for each piece of the `length` bytes at `from`, with the place of the piece in them.
    pub fn each_part(&mut self, from: u64, length: usize, mut act: impl FnMut(usize, &mut [u8])) {
        let (mut at, mut done) = (0, 0);
        for buffer in self.as_mut_slice() {
            let bytes = buffer.bytes_mut();
            let whole = bytes.len();
            let skip = (from + done as u64).saturating_sub(at).min(whole as u64) as usize;
            let taken = (whole - skip).min(length - done);
            act(done, &mut bytes[skip..skip + taken]);
            done += taken;
            at += whole as u64;
        }
    }

    /// Makes all bytes zero.
    pub fn clear(&mut self) {
        self.as_mut_slice().iter_mut().for_each(|buffer| buffer.bytes_mut().fill(0));
    }
}

/// Free buffers by capacity. The last one returned is the first one taken, because its memory is in the caches.
#[derive(Debug)]
pub struct Pool {
    classes: [usize; CLASSES.len() + 1],
    free: [Vec<Buffer>; CLASSES.len() + 1],
    /// The bytes of the free buffers, without those that are registered.
    free_bytes: usize,
}

/// The number of buffers of each class that are kept; further ones are freed.
const KEPT: [usize; CLASSES.len() + 1] = [4096, 1024, 256, 128];

impl Pool {
    /// A pool for data of up to `largest` bytes.
    #[must_use]
    pub fn new(largest: usize) -> Self {
        let [small, middle, large] = CLASSES;
        let mut pool =
            Self { classes: [small, middle, large, largest.max(large)], free: Default::default(), free_bytes: 0 };
        pool.free[0] =
            (0..REGISTERED).map(|number| Buffer { registered: Some(number), ..Buffer::with_capacity(small) }).collect();
        pool
    }

    /// The registered buffers. Call it only before any was taken.
    pub fn registered(&mut self) -> &mut [Buffer] {
        &mut self.free[0]
    }

    /// The memory that a buffer for `length` bytes takes.
    #[must_use]
    pub fn charge(&self, length: usize) -> u64 {
        self.classes[self.class(length)] as u64
    }

    fn class(&self, length: usize) -> usize {
        self.classes.iter().position(|&capacity| length <= capacity).unwrap_or(self.classes.len() - 1)
    }

    /// Takes a buffer with `length` bytes in use, which may contain old data.
    #[must_use]
    pub fn take(&mut self, length: usize) -> Buffer {
        let class = self.class(length);
        let Some(buffer) = self.free[class].pop() else {
            return Buffer { length, ..Buffer::with_capacity(self.classes[class].max(length)) };
        };
        if buffer.registered.is_none() {
            self.free_bytes -= buffer.capacity;
        }
        Buffer { length, ..buffer }
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Buffer) {
        let class = self.class(buffer.capacity);
        if buffer.registered.is_some() {
            self.free[class].push(buffer);
        } else if self.free[class].len() < KEPT[class] {
            self.free_bytes += buffer.capacity;
            self.free[class].push(buffer);
        }
    }

    /// The bytes of free buffers that are kept for later.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.free_bytes as u64
    }

    /// Frees buffers, the largest first, until those that are kept have at most this many bytes.
    pub fn shrink(&mut self, bytes_max: u64) {
        for class in self.free.iter_mut().rev() {
            let free_bytes = &mut self.free_bytes;
            class.retain(|buffer| {
                let is_kept = buffer.registered.is_some() || *free_bytes as u64 <= bytes_max;
                *free_bytes -= if is_kept { 0 } else { buffer.capacity };
                is_kept
            });
        }
    }

    /// Takes all of them back.
    pub fn give_all(&mut self, buffers: Buffers) {
        match buffers {
            Buffers::None => {}
            Buffers::One(buffer) => self.give(buffer),
            Buffers::Many(buffers) => buffers.into_iter().for_each(|buffer| self.give(buffer)),
        }
    }
}
