//! The lengths of a device's files: the keys `size` that change while a server runs.

use ioweir_config::Size;

use super::backends::Backend;

impl Backend {
    /// The length in the backend's key `size`, if it has that key.
    pub const fn size(&self) -> Option<Size> {
        match self {
            Self::Null { size } | Self::Memory { size } | Self::Faulty { size, .. } => Some(*size),
            Self::File { size, .. } | Self::Emulated { size, .. } => *size,
            Self::Tiered { .. } | Self::Nbd(_) | Self::Joined { .. } => None,
        }
    }

    /// The backend with another length of its file, or of the slow one of two tiers.
    ///
    /// # Errors
    /// Why its length does not change while a server runs.
    pub(crate) fn with_length(&self, bytes: u64) -> Result<Self, String> {
        let mut changed = self.clone();
        match &mut changed {
            Self::File { size, .. } => *size = Some(Size(bytes)),
            Self::Tiered { slow, .. } if slow.backend.file().is_some() => {
                slow.backend = slow.backend.with_length(bytes)?;
            }
            _ => {
                let expected = "a device of backend file, or tiers over a file";
                return Err(format!("its length does not change while the server runs\n  expected: {expected}"));
            }
        }
        Ok(changed)
    }

    /// The new length of a device that becomes `other`; `None` if the length stays the same.
    pub(crate) fn length_as(&self, other: &Self) -> Option<u64> {
        match (self, other) {
            (Self::Tiered { slow, .. }, Self::Tiered { slow: other, .. }) => slow.backend.length_as(&other.backend),
            _ => other.size().filter(|new| Some(*new) != self.size()).map(|size| size.0),
        }
    }
}
