//! How long the files of a device are to be: the keys `size` that change while a server runs.

use ioweir_config::Size;

use super::backends::Backend;

impl Backend {
    /// The length that its key `size` gives, if it has that key.
    pub(crate) const fn size(&self) -> Option<Size> {
        match self {
            Self::Null { size } | Self::Memory { size } | Self::Faulty { size, .. } => Some(*size),
            Self::File { size, .. } | Self::Emulated { size, .. } => *size,
            Self::Tiered { .. } | Self::Mirror { .. } | Self::Nbd(_) | Self::Joined { .. } => None,
        }
    }

    /// The same as a device of this length, which has another one now: a file, the slow one of two tiers, or the legs of a mirror.
    ///
    /// # Errors
    /// If its length does not change while a server runs, and why.
    pub(crate) fn with_length(&self, now_bytes: u64, bytes: u64) -> Result<Self, String> {
        let mut changed = self.clone();
        match &mut changed {
            Self::File { size, .. } => *size = Some(Size(bytes)),
            Self::Tiered { slow, .. } if slow.backend.file().is_some() => {
                slow.backend = slow.backend.with_length(now_bytes, bytes)?;
            }
            Self::Mirror { leg, .. } => {
                for (number, leg) in leg.iter_mut().enumerate() {
                    let Self::File { size: Some(size), .. } = &mut leg.backend else {
                        let problem =
                            format!("leg {number}: has no key `size`, so that nothing would say how long it is to be");
                        return Err(format!("{problem}\n  expected: legs of backend file, each with its `size`"));
                    };
                    size.0 = (size.0 + bytes).saturating_sub(now_bytes);
                }
            }
            _ => {
                let expected = "a device of backend file, tiers over a file, or a mirror of files";
                return Err(format!("its length does not change while the server runs\n  expected: {expected}"));
            }
        }
        Ok(changed)
    }

    /// How long such a device of this length becomes as another one; `None` if it stays as it is.
    ///
    /// # Errors
    /// If the legs of a mirror do not grow alike.
    pub(crate) fn length_as(&self, other: &Self, now_bytes: u64) -> Result<Option<u64>, String> {
        match (self, other) {
            (Self::Tiered { slow, .. }, Self::Tiered { slow: other, .. }) => {
                slow.backend.length_as(&other.backend, now_bytes)
            }
            (Self::Mirror { leg, .. }, Self::Mirror { leg: others, .. }) => {
                let sizes = leg.iter().zip(others).map(|(leg, other)| (leg.backend.size(), other.backend.size()));
                let mut grown = sizes.map(|sizes| match sizes {
                    (Some(old), Some(new)) => Ok(i128::from(new.0) - i128::from(old.0)),
                    (old, new) if old == new => Ok(0),
                    _ => Err("whether a leg has the key `size` does not change while the server runs".to_string()),
                });
                let first = grown.next().transpose()?.unwrap_or(0);
                for more in grown {
                    if more? != first {
                        return Err("its legs grow by the same length".into());
                    }
                }
                let length = u64::try_from(i128::from(now_bytes) + first).map_err(|_| "it would have no length")?;
                Ok((first != 0).then_some(length))
            }
            _ => Ok(other.size().filter(|new| Some(*new) != self.size()).map(|size| size.0)),
        }
    }
}
