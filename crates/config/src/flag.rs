//! Flags of the command line that set keys of a file.
//!
//! A flag is declared in the row of its key, so that the key's help and default are the flag's, and the command that a report prints is
//! made from the values of the keys.

use serde::Serialize;
use serde::de::{DeserializeOwned, value};
use toml::Value;

use crate::{Complaint, Key, KeySet, from_table, to_table};

/// The flag that sets a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The long name, without its dashes.
    pub name: &'static str,
    /// The value in help, such as `NAME|FILE,...`; empty for a switch.
    pub value: &'static str,
    /// The heading of its paragraph of help.
    pub heading: &'static str,
    /// How the value becomes that of the key.
    pub form: FlagForm,
    /// Whether a command shows the flag although the key has its default.
    pub is_always_shown: bool,
    /// The names of flags that cannot be given beside it.
    pub excludes: &'static [&'static str],
    /// A second flag for some of the values.
    pub shorthand: Option<Shorthand>,
}

/// A flag that gives a key the text after it, behind a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shorthand {
    /// The long name, without its dashes.
    pub name: &'static str,
    /// The value in help.
    pub value: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The text that is put before the flag's, to make the key's value.
    pub prefix: &'static str,
}

/// How a flag's text becomes the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagForm {
    /// As text.
    Text,
    /// As text that may begin with a dash, such as `-5`.
    Signed,
    /// As texts, separated by commas.
    Texts,
    /// As texts, the flag once for each.
    Repeated,
    /// As a number, or as text where the key takes both.
    Number,
    /// As numbers, separated by commas.
    Numbers,
    /// As numbers with decimals, separated by commas.
    Shares,
    /// The switch sets the key to this.
    Switch(bool),
    /// The key is true if the flag has this value, which is the only one.
    Word(&'static str),
}

impl Flag {
    /// A flag that takes a value; its heading follows with [`Flag::under`].
    #[must_use]
    pub const fn new(name: &'static str, value: &'static str, form: FlagForm) -> Self {
        Self { name, value, heading: "", form, is_always_shown: false, excludes: &[], shorthand: None }
    }

    /// A flag that sets a key to true or false.
    #[must_use]
    pub const fn switch(name: &'static str, value: bool) -> Self {
        Self::new(name, "", FlagForm::Switch(value))
    }

    /// Puts the flag under a heading.
    #[must_use]
    pub const fn under(self, heading: &'static str) -> Self {
        Self { heading, ..self }
    }

    /// Has commands show the flag always.
    #[must_use]
    pub const fn always_shown(self) -> Self {
        Self { is_always_shown: true, ..self }
    }

    /// Refuses the flag beside others.
    #[must_use]
    pub const fn excluding(self, excludes: &'static [&'static str]) -> Self {
        Self { excludes, ..self }
    }

    /// Adds a second flag for some of the values.
    #[must_use]
    pub const fn also(self, shorthand: Shorthand) -> Self {
        Self { shorthand: Some(shorthand), ..self }
    }

    /// The value of the key for the texts after the flag.
    fn value_of(&self, texts: &[String]) -> Value {
        let number = |text: &String| text.parse().map_or_else(|_| Value::from(text.as_str()), Value::Integer);
        let share = |text: &String| text.parse().map_or_else(|_| Value::from(text.as_str()), Value::Float);
        let text = |text: &String| Value::from(text.as_str());
        let last = || texts.last().cloned().unwrap_or_default();
        match self.form {
            FlagForm::Text | FlagForm::Signed => text(&last()),
            FlagForm::Number => number(&last()),
            FlagForm::Texts | FlagForm::Repeated => Value::Array(texts.iter().map(text).collect()),
            FlagForm::Numbers => Value::Array(texts.iter().map(number).collect()),
            FlagForm::Shares => Value::Array(texts.iter().map(share).collect()),
            FlagForm::Switch(value) => Value::Boolean(value),
            FlagForm::Word(_) => Value::Boolean(true),
        }
    }

    /// The texts after the flag that gives a key this value, `None` for a switch; empty if the flag cannot or need not be given.
    fn texts_of(&self, value: &Value) -> Vec<Option<String>> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match (self.form, value) {
            (FlagForm::Switch(wanted), value) if value.as_bool() == Some(wanted) => vec![None],
            (FlagForm::Word(word), value) if value.as_bool() == Some(true) => vec![Some(word.to_owned())],
            (FlagForm::Switch(_) | FlagForm::Word(_), _) => Vec::new(),
            (FlagForm::Repeated, Value::Array(values)) => values.iter().map(|value| Some(text(value))).collect(),
            (_, Value::Array(values)) => vec![Some(values.iter().map(text).collect::<Vec<_>>().join(","))],
            (_, value) => vec![Some(text(value))],
        }
    }
}

/// Every key of a table in which none is required, at its default.
///
/// # Panics
/// If a key is required, which is a defect of the program.
#[must_use]
pub fn defaults<T: KeySet>() -> T {
    let given: Result<T, value::Error> = T::finish(<_>::default());
    given.unwrap_or_else(|_| unreachable!("no key is required"))
}

/// The flags that give a file's keys their values: names with dashes, and the value where the flag takes one. Keys with their default are
/// left out, unless the flag is always shown.
///
/// # Panics
/// As [`defaults`].
#[must_use]
pub fn flags_of<T: KeySet + Serialize>(file: &T) -> Vec<(String, Option<String>)> {
    let table = to_table(file).unwrap_or_default();
    let default = to_table(&defaults::<T>()).unwrap_or_default();
    let mut flags = Vec::new();
    for Key { name, flag, .. } in T::keys() {
        let (Some(flag), Some(value)) = (flag, table.get(name)) else { continue };
        if flag.is_always_shown || default.get(name) != Some(value) {
            flags.extend(flag.texts_of(value).into_iter().map(|text| (format!("--{}", flag.name), text)));
        }
    }
    flags
}

/// Sets keys by the texts after their flags.
///
/// # Errors
/// The message of the first value that cannot be.
pub fn with_flags<T>(file: T, given: &[(Key, Vec<String>)]) -> Result<T, String>
where
    T: KeySet + Serialize + DeserializeOwned,
{
    given.iter().try_fold(file, |file, (key, texts)| {
        let Some(flag) = key.flag else { return Ok(file) };
        let mut table = to_table(&file)?;
        table.insert(key.name.into(), flag.value_of(texts));
        from_table(&table).map_err(|error| {
            let complaint = Complaint::of_toml(&error, &[]);
            let hint = if complaint.advice().is_empty() { "" } else { "\n\nhint: " };
            format!("--{}: {}{hint}{}", flag.name, complaint.problem(), complaint.advice())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::keys! {
        #[derive(Debug, PartialEq)]
        struct Job {
            /// traces
            traces: Vec<String> = (Vec::new()) => Flag::new("trace", "FILE,...", FlagForm::Texts),
            /// depth
            depth: u32 = (1) => Flag::new("depth", "N", FlagForm::Number).always_shown(),
            /// merge
            merge: bool = (true) => Flag::switch("no-merge", false),
            /// by stream
            by_stream: bool = (false) => Flag::new("by", "WHAT", FlagForm::Word("stream")),
            /// name
            name: Option<String> = absent => Flag::new("name", "NAME", FlagForm::Text),
            /// columns
            columns: Vec<String> = (Vec::new()) => Flag::new("column", "NAME", FlagForm::Repeated),
            /// shares
            shares: Vec<f64> = (Vec::new()) => Flag::new("share", "SHARE,...", FlagForm::Shares),
        }
    }

    /// The job after these flags and texts.
    fn set(given: &[(&str, &[&str])]) -> Result<Job, String> {
        let key =
            |flag: &str| Job::keys().into_iter().find(|key| key.flag.is_some_and(|own| own.name == flag)).unwrap();
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let given: Vec<(Key, Vec<String>)> = given.iter().map(|(flag, own)| (key(flag), texts(own))).collect();
        with_flags(defaults(), &given)
    }

    #[test]
    fn flags_set_keys_and_come_back() {
        let job = set(&[
            ("trace", &["a", "7"]),
            ("depth", &["4"]),
            ("no-merge", &[]),
            ("by", &["stream"]),
            ("name", &["7"]),
            ("column", &["a,b", "c"]),
            ("share", &["0.5", "1"]),
        ]);
        let job = job.expect("a job");
        assert_eq!((job.traces, job.depth, job.merge), (vec!["a".into(), "7".into()], 4, false));
        assert_eq!((job.columns, job.shares), (vec!["a,b".into(), "c".into()], vec![0.5, 1.0]));
        let (two, columns) = (vec!["a".into(), "b".into()], vec!["a,b".into(), "c".into()]);
        let job = Job { traces: two, depth: 1, merge: false, by_stream: true, name: None, columns, shares: vec![0.5] };
        let given = [
            ("--trace", Some("a,b")),
            ("--depth", Some("1")),
            ("--no-merge", None),
            ("--by", Some("stream")),
            ("--column", Some("a,b")),
            ("--column", Some("c")),
            ("--share", Some("0.5")),
        ];
        let owned = given.map(|(flag, text)| (flag.to_owned(), text.map(str::to_owned)));
        assert_eq!(flags_of(&job), owned);
        assert_eq!(flags_of(&defaults::<Job>()), [("--depth".to_owned(), Some("1".to_owned()))]);
    }

    #[test]
    fn an_error_names_the_flag() {
        let error = set(&[("depth", &["x"])]).expect_err("no number");
        assert_eq!(error, "--depth: invalid type: string \"x\", expected a whole number without quotes");
    }
}
