//! The errors of operations, which are those of NBD.

/// An error number of the protocol. The numbers are those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NbdError {
    /// The export may not be written.
    NotPermitted = 1,
    /// The device failed.
    InputOutput = 5,
    /// The server has no memory for the request.
    OutOfMemory = 12,
    /// The request is not valid.
    Invalid = 22,
    /// The device is full, or a write goes past its end.
    NoSpace = 28,
    /// The request cannot be answered in one chunk.
    Overflow = 75,
    /// The request cannot be carried out, or not fast.
    NotSupported = 95,
    /// The server is about to stop.
    ShuttingDown = 108,
}

impl NbdError {
    /// Every error, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::NotPermitted,
        Self::InputOutput,
        Self::OutOfMemory,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::NotSupported,
        Self::ShuttingDown,
    ];

    /// The name used in metrics and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotPermitted => "not_permitted",
            Self::InputOutput => "input_output",
            Self::OutOfMemory => "out_of_memory",
            Self::Invalid => "invalid",
            Self::NoSpace => "no_space",
            Self::Overflow => "overflow",
            Self::NotSupported => "not_supported",
            Self::ShuttingDown => "shutting_down",
        }
    }

    /// The index in [`Self::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|&other| other == self).unwrap_or(0)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The error with this number on the wire. An unknown number counts as a failure of the device.
    #[must_use]
    pub fn of_code(code: u32) -> Self {
        Self::ALL.into_iter().find(|error| error.code() == code).unwrap_or(Self::InputOutput)
    }

    /// The protocol's error that is nearest to an error of the system.
    #[must_use]
    pub fn from_io(error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(1 | 13 | 30) => Self::NotPermitted,
            Some(12) => Self::OutOfMemory,
            Some(22) => Self::Invalid,
            Some(27 | 28 | 122) => Self::NoSpace,
            Some(95) => Self::NotSupported,
            _ => Self::InputOutput,
        }
    }
}
