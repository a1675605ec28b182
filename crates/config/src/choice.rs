//! Rows of a table chosen by name, with settings: `bid-hdd:wait=6ms:history=4`.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use ioweir_core::Nanos;
use ioweir_core::cores::{SCHEDULES, ScheduleRow};
use ioweir_core::policy::{LinuxFile, PAIR, POLICIES, PairRow, Parameter, PolicyRow, SettingError, Settings, Unit};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Duration, Size, UnitError, is_same_name, shown};

/// A row of a table, with its settings; text in a file.
///
/// ```
/// use ioweir_config::ScheduleChoice;
/// let choice: ScheduleChoice = "sord:hq-weight=90:qats=yes".parse()?;
/// // Settings at their default are left out.
/// assert_eq!(choice.to_string(), "sord:hq-weight=90:qats=yes");
/// # Ok::<(), ioweir_config::ChoiceError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Choice<R: 'static> {
    /// The row of the table.
    pub row: &'static R,
    /// The settings.
    pub settings: Settings,
}

/// A schedule of a server's cores, with its settings.
pub type ScheduleChoice = Choice<ScheduleRow>;

/// A row that can be chosen by name and has parameters.
pub trait Choosable: Sized + 'static {
    /// The rows of the table.
    const ROWS: &'static [Self];
    /// The word for a row in errors.
    const WHAT: &'static str;
    /// The topic of `ioweir doc` that lists the rows.
    const TOPIC: &'static str;

    /// Finds a row by its name, as people write it.
    #[must_use]
    fn find(name: &str) -> Option<&'static Self> {
        Self::ROWS.iter().find(|row| is_same_name(row.name(), name))
    }

    /// The name of the row.
    fn name(&self) -> &'static str;
    /// The parameters of the row.
    fn parameters(&self) -> &'static [Parameter];
    /// The settings with every parameter at its default.
    fn defaults(&self) -> Settings;
    /// Sets one parameter.
    ///
    /// # Errors
    /// [`SettingError`] if there is no such parameter or it does not accept the value.
    fn set(&self, settings: &mut Settings, name: &str, value: u64) -> Result<(), SettingError>;
    /// The value of one parameter.
    fn get(&self, settings: &Settings, name: &str) -> Option<u64>;
}

macro_rules! choosable {
    ($row:ty, $rows:expr, $what:literal, $topic:literal $(, $find:expr)?) => {
        impl Choosable for $row {
            const ROWS: &'static [Self] = $rows;
            const WHAT: &'static str = $what;
            const TOPIC: &'static str = $topic;

            $(fn find(name: &str) -> Option<&'static Self> {
                $find(name)
            })?

            fn name(&self) -> &'static str {
                self.name
            }
            fn parameters(&self) -> &'static [Parameter] {
                self.parameters
            }
            fn defaults(&self) -> Settings {
                self.defaults()
            }
            fn set(&self, settings: &mut Settings, name: &str, value: u64) -> Result<(), SettingError> {
                self.set(settings, name, value)
            }
            fn get(&self, settings: &Settings, name: &str) -> Option<u64> {
                self.get(settings, name)
            }
        }
    };
}

choosable!(PolicyRow, POLICIES, "scheduler", "policy", crate::external::find);
choosable!(PairRow, std::slice::from_ref(&PAIR), "pair", "policy");
choosable!(ScheduleRow, SCHEDULES, "schedule", "cores");

/// A choice that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ChoiceError {
    /// The problem, in words.
    pub problem: String,
    /// The values that are accepted.
    pub expected: String,
    /// The advice to the user; may be empty.
    pub hint: String,
}

/// An expectation that is longer is a list, which is read last.
const LIST_BYTES: usize = 72;

impl fmt::Display for ChoiceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The list of accepted values may be long: the hint comes before it then.
        match &*self.hint {
            "" => write!(out, "{}\n  expected: {}", self.problem, self.expected),
            hint if self.expected.len() > LIST_BYTES => {
                write!(out, "{}: {hint}\n  expected: {}", self.problem, self.expected)
            }
            hint => write!(out, "{}\n  expected: {}\n\nhint: {hint}", self.problem, self.expected),
        }
    }
}

impl<R: Choosable> Choice<R> {
    /// A row with every parameter at its default.
    #[must_use]
    pub fn of(row: &'static R) -> Self {
        Self { row, settings: row.defaults() }
    }

    /// Writes the settings that are not at their default, each after a colon.
    pub(crate) fn fmt_settings(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for parameter in self.row.parameters() {
            let value = self.row.get(&self.settings, parameter.name).unwrap_or(parameter.default);
            if value != parameter.default {
                write!(out, ":{}={}", parameter.name, format_value(parameter.unit, value))?;
            }
        }
        Ok(())
    }
}

impl<R: Choosable> FromStr for Choice<R> {
    type Err = ChoiceError;

    /// Reads `name[:parameter=value...]`.
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let row = R::find(name).ok_or_else(|| unknown_row::<R>(name))?;
        let mut settings = row.defaults();
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| ChoiceError {
                problem: format!("`{}` in {} `{}` sets nothing", shown(part), R::WHAT, shown(text)),
                expected: "NAME:PARAMETER=VALUE, with more parameters behind further colons".into(),
                hint: format!("`ioweir doc {} {}` lists its parameters", R::TOPIC, row.name()),
            })?;
            let (parameter, file) = named(row, name).ok_or_else(|| unknown_parameter(row, name))?;
            let name = parameter.name;
            if seen.contains(&name) {
                return Err(ChoiceError {
                    problem: format!("{} `{}` sets {name} twice", R::WHAT, shown(text)),
                    expected: "each parameter once".into(),
                    hint: String::new(),
                });
            }
            seen.push(name);
            let value = match file.and_then(|file| value.parse::<u64>().ok()?.checked_mul(file.unit)) {
                Some(value) => value,
                None => parse_value(row, parameter, value)?,
            };
            row.set(&mut settings, name, value).map_err(|error| refused(row, parameter, value, error))?;
        }
        Ok(Self { row, settings })
    }
}

impl<R: Choosable> fmt::Display for Choice<R> {
    /// Writes the form that [`Choice::from_str`](FromStr::from_str) reads, without settings at their default.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.row.name())?;
        self.fmt_settings(out)
    }
}

impl<R: Choosable> PartialEq for Choice<R> {
    fn eq(&self, other: &Self) -> bool {
        self.row.name() == other.row.name() && self.settings == other.settings
    }
}

impl<R: Choosable> Eq for Choice<R> {}

impl<R: Choosable> Serialize for Choice<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, R: Choosable> Deserialize<'de> for Choice<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_text(deserializer, R::WHAT)
    }
}

/// Reads a choice of `what` from text.
pub(crate) fn deserialize_text<'de, D: Deserializer<'de>, T: FromStr<Err = ChoiceError>>(
    deserializer: D,
    what: &'static str,
) -> Result<T, D::Error> {
    struct Text<T>(PhantomData<T>, &'static str);
    impl<T: FromStr<Err = ChoiceError>> de::Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "the name of a {}", self.1)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Text(PhantomData, what))
}

/// A parameter's value in the form that can be read back.
#[must_use]
pub fn format_value(unit: Unit, value: u64) -> String {
    match unit {
        Unit::CountOr(name) if value == 0 => name.into(),
        Unit::Count | Unit::CountOr(_) => value.to_string(),
        Unit::Duration => Duration::new(Nanos(value)).to_string(),
        Unit::Bytes => Size(value).to_string(),
        Unit::Switch => if value == 0 { "no" } else { "yes" }.into(),
        Unit::Choice(names) => usize::try_from(value)
            .ok()
            .and_then(|at| names.get(at))
            .map_or_else(|| value.to_string(), |name| (*name).into()),
    }
}

/// The values that a parameter accepts.
#[must_use]
pub fn format_range(parameter: &Parameter) -> String {
    match parameter.unit {
        Unit::Choice(names) => names.join(", "),
        Unit::CountOr(name) => format!("{name}, or {} to {}", parameter.min.max(1), parameter.max),
        unit => format!("{} to {}", format_value(unit, parameter.min), format_value(unit, parameter.max)),
    }
}

/// The parameter of this name, and its file in Linux if the name is that of Linux: a number alone is then in the file's unit.
fn named<R: Choosable>(row: &R, name: &str) -> Option<(&'static Parameter, Option<LinuxFile>)> {
    let parameters = row.parameters().iter();
    let as_linux = parameters.clone().find(|parameter| parameter.linux.is_some_and(|file| file.name == name));
    match as_linux {
        Some(parameter) if parameter.name != name => Some((parameter, parameter.linux)),
        _ => parameters.clone().find(|parameter| is_same_name(parameter.name, name)).map(|found| (found, None)),
    }
}

fn parse_value<R: Choosable>(row: &R, parameter: &Parameter, text: &str) -> Result<u64, ChoiceError> {
    let error = |problem: String, expected: &str| ChoiceError {
        problem: format!("{}: {}: {problem}", row.name(), parameter.name),
        expected: expected.into(),
        hint: String::new(),
    };
    let unreadable = |bad: UnitError| error(bad.problem, bad.expected);
    match parameter.unit {
        Unit::CountOr(name) if text == name => Ok(0),
        Unit::CountOr(name) => text.parse().ok().filter(|&count| count > 0).ok_or_else(|| {
            let expected = format!("{name}, or a whole number above zero");
            error(format!("`{}` is neither {name} nor a number above zero", shown(text)), &expected)
        }),
        Unit::Count => {
            text.parse().map_err(|_| error(format!("`{}` is not a whole number", shown(text)), "a whole number"))
        }
        Unit::Duration => text.parse().map(|span: Duration| span.nanos().0).map_err(unreadable),
        Unit::Bytes => text.parse().map(|size: Size| size.0).map_err(unreadable),
        Unit::Switch => match text {
            "yes" | "on" | "true" | "1" => Ok(1),
            "no" | "off" | "false" | "0" => Ok(0),
            _ => Err(error(format!("`{}` is neither yes nor no", shown(text)), "yes or no")),
        },
        Unit::Choice(names) => match names.iter().position(|name| *name == text) {
            Some(at) => Ok(at as u64),
            None => Err(error(format!("`{}` is not a choice", shown(text)), &names.join(", "))),
        },
    }
}

fn refused<R: Choosable>(row: &R, parameter: &Parameter, value: u64, error: SettingError) -> ChoiceError {
    match error {
        SettingError::UnknownParameter => unknown_parameter(row, parameter.name),
        SettingError::OutOfRange { .. } => ChoiceError {
            problem: format!(
                "{}: {}: {} is out of range",
                row.name(),
                parameter.name,
                format_value(parameter.unit, value)
            ),
            expected: format_range(parameter),
            hint: String::new(),
        },
    }
}

fn unknown_row<R: Choosable>(name: &str) -> ChoiceError {
    let names: Vec<_> = R::ROWS.iter().map(R::name).collect();
    unknown(R::WHAT, name, &names, &format!("`ioweir doc {}` says what each of them does", R::TOPIC))
}

fn unknown_parameter<R: Choosable>(row: &R, name: &str) -> ChoiceError {
    let names: Vec<_> = row.parameters().iter().map(|parameter| parameter.name).collect();
    if names.is_empty() {
        return ChoiceError {
            problem: format!("{} {} has no parameter `{}`", R::WHAT, row.name(), shown(name)),
            expected: "no parameters".into(),
            hint: String::new(),
        };
    }
    let hint = format!("`ioweir doc {} {}` lists them", R::TOPIC, row.name());
    unknown(&format!("{} parameter", row.name()), name, &names, &hint)
}

/// The error for a name that is not in a table, with the nearest name that is.
#[must_use]
pub fn unknown(what: &str, name: &str, known: &[&str], otherwise: &str) -> ChoiceError {
    let hint = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => otherwise.to_string(),
    };
    ChoiceError {
        problem: format!("unknown {what} `{}`", shown(name)),
        expected: format!("one of {}", known.join(", ")),
        hint,
    }
}

/// The known name that is most similar to `name`, if one is similar enough.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    const SIMILAR: f64 = 0.75;
    let folded = name.to_lowercase().replace('_', "-");
    let similarity = |candidate: &&'a str| (strsim::jaro_winkler(&folded, candidate), *candidate);
    let best = known.iter().map(similarity).max_by(|left, right| left.0.total_cmp(&right.0))?;
    // A part of one name, such as `p99` of `read-p99`, can be far from it.
    let of_one = || {
        let mut holding = known.iter().filter(|candidate| folded.len() > 2 && candidate.contains(&folded));
        holding.next().copied().filter(|_| holding.next().is_none())
    };
    if best.0 >= SIMILAR { Some(best.1) } else { of_one() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SchedulerChoice;

    #[test]
    fn names_are_known_as_people_write_them() {
        for (written, read) in [
            ("BFQ", "bfq"),
            ("mqdeadline", "mq-deadline"),
            ("bid_hdd:Wait=4ms", "bid-hdd:wait=4ms"),
            ("cfq:slice_idle=4ms", "cfq:slice-idle=4ms"),
            ("sfq+MQ_deadline:Window=8", "sfq+mq-deadline:window=8"),
        ] {
            assert_eq!(written.parse::<SchedulerChoice>().map(|choice| choice.to_string()).as_deref(), Ok(read));
        }
        assert_eq!(
            "cfq:slice_idle=4ms:slice-idle=5ms".parse::<SchedulerChoice>().unwrap_err().expected,
            "each parameter once"
        );
        // No two names of a table are one as people write them.
        let names: Vec<&str> = POLICIES.iter().map(|row| row.name).collect();
        let tables = POLICIES.iter().map(|row| row.parameters.iter().map(|parameter| parameter.name).collect());
        for table in tables.chain([names]) {
            for (at, name) in table.iter().enumerate() {
                assert!(!table[..at].iter().any(|other| is_same_name(other, name)), "{name}");
            }
        }
    }

    #[test]
    fn linux_parameter_names_use_linux_units() {
        for (written, read) in [
            ("bfq:slice_idle=0", "bfq:slice-idle=0s"),
            ("bfq:slice_idle=4", "bfq:slice-idle=4ms"),
            ("bfq:slice_idle=4ms", "bfq:slice-idle=4ms"),
            ("mq-deadline:read_expire=250:fifo_batch=4", "mq-deadline:read-expire=250ms:fifo-batch=4"),
            ("kyber:read_lat_nsec=3000000", "kyber:read-latency=3ms"),
        ] {
            assert_eq!(written.parse::<SchedulerChoice>().map(|choice| choice.to_string()).as_deref(), Ok(read));
        }
        assert!("bfq:slice-idle=4".parse::<SchedulerChoice>().is_err(), "the name here needs the unit");
        assert!("bfq:slice_idle=99999999999999999".parse::<SchedulerChoice>().is_err());
    }

    #[test]
    fn what_was_meant_comes_before_a_long_list() {
        let error = "sptff".parse::<SchedulerChoice>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown scheduler `sptff`: did you mean `sptf`?\n  expected: one of noop, "),
            "{error}"
        );
    }

    #[test]
    fn a_choice_reads_back_what_it_prints() {
        for text in [
            "wfq",
            "reward:estimator=service",
            "mclock:clients=9:cost=sectors",
            "noop",
            "sptf",
            "bid-hdd",
            "bid-hdd:wait=4ms:history=3",
            "deadline:read-expire=250ms",
        ] {
            assert_eq!(text.parse::<SchedulerChoice>().unwrap().to_string(), text);
        }
        let default = "bid-hdd:wait=6ms".parse::<SchedulerChoice>().unwrap();
        assert_eq!(default.to_string(), "bid-hdd");
    }

    #[test]
    fn defaults_of_every_policy_read_back() {
        for row in POLICIES {
            let mut text = row.name.to_string();
            for parameter in row.parameters {
                text += &format!(":{}={}", parameter.name, format_value(parameter.unit, parameter.default));
            }
            assert_eq!(text.parse::<SchedulerChoice>().unwrap().to_string(), row.name);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<SchedulerChoice>().unwrap_err();
        assert_eq!(error("sptff").hint, "did you mean `sptf`?");
        assert_eq!(error("bid_hd").hint, "did you mean `bid-hdd`?");
        assert_eq!(error("hybrid").hint, "did you mean `bid-hybrid`?");
        assert_eq!(error("xyzzy").hint, "`ioweir doc policy` says what each of them does");
        assert_eq!(error("bid-hdd:waits=6ms").hint, "did you mean `wait`?");
        assert_eq!(error("noop:wait=6ms").problem, "scheduler noop has no parameter `wait`");
        assert_eq!(error("bid-hdd:wait=6").problem, "bid-hdd: wait: duration `6` has no unit");
        assert_eq!(error("wfq:cost=bytes").expected, "requests, sectors, device-time");
        assert_eq!(error("bid-hdd:wait").problem, "`wait` in scheduler `bid-hdd:wait` sets nothing");
        assert_eq!(error("bid-hdd:wait=1ms:wait=2ms").expected, "each parameter once");
        assert_eq!(error("bid-hdd:wait=9h").problem, "bid-hdd: wait: 9h is out of range");
    }
}
