//! Parameters of policies and schedules, and the values set for them.

/// Units of durations, in nanoseconds.
pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MILLI;
pub(crate) const HOUR: u64 = 3_600 * SECOND;

/// The most parameters that a policy or a schedule has.
pub const PARAMETERS_MAX: usize = 17;

/// The unit of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Count,
    /// A count above zero, or this name, which stands for zero.
    CountOr(&'static str),
    /// A duration in nanoseconds.
    Duration,
    /// A size in bytes.
    Bytes,
    /// Yes (1) or no (0).
    Switch,
    /// A choice from these names; the value is the position in the list.
    Choice(&'static [&'static str]),
}

/// A parameter: name, unit, default, range and help.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name on the command line.
    pub name: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// The value if none is set.
    pub default: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// The effect of the parameter, in a sentence.
    pub help: &'static str,
    /// The values that a search for the best ones tries.
    pub search: Search,
    /// The parameter's file on Linux, if Linux has it.
    pub linux: Option<LinuxFile>,
}

/// The values of a parameter that a search tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Every choice, or numbers from a quarter of the default to four times it.
    Usual,
    /// From the first to the second; in equal ratios unless the first is zero.
    Between(u64, u64),
    /// The default alone: the parameter says how much room there is, or describes the host, and does not change the schedule.
    Nothing,
}

/// A parameter's file in `/sys/block/DEVICE/queue/iosched`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxFile {
    /// The name of the file.
    pub name: &'static str,
    /// How many of the parameter's units one in the file stands for: a million nanoseconds for milliseconds.
    pub unit: u64,
}

impl Parameter {
    pub(crate) const fn new(
        name: &'static str,
        unit: Unit,
        default: u64,
        range: (u64, u64),
        help: &'static str,
    ) -> Self {
        Self { name, unit, default, min: range.0, max: range.1, help, search: Search::Usual, linux: None }
    }

    pub(crate) const fn count(name: &'static str, default: u64, min: u64, max: u64, help: &'static str) -> Self {
        Self::new(name, Unit::Count, default, (min, max), help)
    }

    pub(crate) const fn duration(name: &'static str, default: u64, min: u64, max: u64, help: &'static str) -> Self {
        Self::new(name, Unit::Duration, default, (min, max), help)
    }

    pub(crate) const fn bytes(name: &'static str, default: u64, min: u64, max: u64, help: &'static str) -> Self {
        Self::new(name, Unit::Bytes, default, (min, max), help)
    }

    pub(crate) const fn switch(name: &'static str, is_on: bool, help: &'static str) -> Self {
        Self::new(name, Unit::Switch, is_on as u64, (0, 1), help)
    }

    /// A choice from these words, the first by default.
    pub(crate) const fn choice(name: &'static str, words: &'static [&'static str], help: &'static str) -> Self {
        Self::new(name, Unit::Choice(words), 0, (0, words.len() as u64 - 1), help)
    }

    /// Sets the values between which a search tries the parameter.
    pub(crate) const fn tried(self, from: u64, to: u64) -> Self {
        Self { search: Search::Between(from, to), ..self }
    }

    /// Keeps searches from trying any value but the default.
    pub(crate) const fn fixed(self) -> Self {
        Self { search: Search::Nothing, ..self }
    }

    /// Names the file in which Linux keeps the parameter, and the file's unit.
    pub(crate) const fn on_linux(self, name: &'static str, unit: u64) -> Self {
        Self { linux: Some(LinuxFile { name, unit }), ..self }
    }
}

/// Values for the parameters of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    values: [u64; PARAMETERS_MAX],
}

/// Why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// The policy has no parameter of this name.
    UnknownParameter,
    /// The value is outside the parameter's range.
    OutOfRange {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
}

impl Settings {
    /// Every parameter of a table at its default.
    pub(crate) fn defaults(parameters: &[Parameter]) -> Self {
        let mut values = [0; PARAMETERS_MAX];
        for (value, parameter) in values.iter_mut().zip(parameters) {
            *value = parameter.default;
        }
        Self { values }
    }

    pub(crate) fn set(&mut self, parameters: &[Parameter], name: &str, value: u64) -> Result<(), SettingError> {
        let at = parameters.iter().position(|parameter| parameter.name == name);
        let at = at.ok_or(SettingError::UnknownParameter)?;
        let Parameter { min, max, .. } = parameters[at];
        if value < min || value > max {
            return Err(SettingError::OutOfRange { min, max });
        }
        self.values[at] = value;
        Ok(())
    }

    pub(crate) fn get(&self, parameters: &[Parameter], name: &str) -> Option<u64> {
        let at = parameters.iter().position(|parameter| parameter.name == name)?;
        Some(self.values[at])
    }

    /// The first values, in the order of the parameter table.
    pub(crate) fn values<const N: usize>(&self) -> [u64; N] {
        const { assert!(N <= PARAMETERS_MAX) };
        let mut values = [0; N];
        values.copy_from_slice(&self.values[..N]);
        values
    }
}

/// Gives a table row with a field `parameters` the methods that make and change its settings.
macro_rules! settable {
    ($row:ty) => {
        impl $row {
            /// Every parameter at its default.
            #[must_use]
            pub fn defaults(&self) -> Settings {
                Settings::defaults(self.parameters)
            }

            /// Sets one parameter.
            ///
            /// # Errors
            /// [`SettingError`] if there is no such parameter, or the value is out of its range.
            pub fn set(&self, settings: &mut Settings, name: &str, value: u64) -> Result<(), SettingError> {
                settings.set(self.parameters, name, value)
            }

            /// The value of one parameter, if there is one of this name.
            #[must_use]
            pub fn get(&self, settings: &Settings, name: &str) -> Option<u64> {
                settings.get(self.parameters, name)
            }
        }
    };
}

pub(crate) use settable;
