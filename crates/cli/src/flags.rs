//! Flags that set the keys of a verb's file, made from the rows of the keys.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use clap_complete::engine::ArgValueCandidates;
use ioweir_config::{Flag, FlagForm, Key, KeySet};

use crate::arguments::candidates_of;

/// The flags of a file's keys that the user gave, with their values.
#[derive(Debug)]
pub(crate) struct KeyFlags<T> {
    pub(crate) given: Vec<(Key, Vec<String>)>,
    file: PhantomData<T>,
}

fn keys_with_flags<T: KeySet>() -> impl Iterator<Item = (Key, Flag)> {
    T::keys().into_iter().filter_map(|key| Some((key, key.flag?)))
}

impl<T: KeySet> Args for KeyFlags<T> {
    fn augment_args(command: Command) -> Command {
        keys_with_flags::<T>().fold(command, |command, (key, flag)| {
            let arg = Arg::new(flag.name)
                .long(flag.name)
                .help_heading(flag.heading)
                .help(help(&key))
                .conflicts_with_all(flag.excludes);
            let arg = match flag.form {
                FlagForm::Switch(_) => arg.action(ArgAction::SetTrue),
                FlagForm::Word(word) => arg.value_name(flag.value).value_parser([word]),
                _ => arg.value_name(flag.value).add(ArgValueCandidates::new(candidates_of(flag.name))),
            };
            let shorthand = flag.shorthand.map(|short| {
                Arg::new(short.name)
                    .long(short.name)
                    .value_name(short.value)
                    .help_heading(flag.heading)
                    .help(short.help)
                    .conflicts_with(flag.name)
            });
            let arg = match flag.form {
                FlagForm::Number => arg.allow_negative_numbers(true),
                FlagForm::Numbers | FlagForm::Shares => {
                    arg.allow_negative_numbers(true).value_delimiter(',').action(ArgAction::Append)
                }
                FlagForm::Texts => arg.value_delimiter(',').action(ArgAction::Append),
                FlagForm::Repeated => arg.action(ArgAction::Append),
                FlagForm::Signed => arg.allow_hyphen_values(true),
                FlagForm::Text | FlagForm::Switch(_) | FlagForm::Word(_) => arg,
            };
            command.arg(arg).args(shorthand)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The key's help as a sentence, with its default.
fn help(key: &Key) -> String {
    let mut line = key.help_line();
    if let Some(first) = line.get(..1).map(str::to_uppercase) {
        line.replace_range(..1, &first);
    }
    let default = (key.default)().unwrap_or_default();
    let default = match default.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        Some(list) => list.replace(", ", ",").replace('"', ""),
        None => default.replace('"', ""),
    };
    if default.is_empty() || ["true", "false"].contains(&default.as_str()) {
        return line;
    }
    format!("{line} [default: {default}]")
}

impl<T: KeySet> FromArgMatches for KeyFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |flag: &Flag| match flag.form {
            FlagForm::Switch(_) => matches.get_flag(flag.name).then(Vec::new),
            _ => matches.get_many::<String>(flag.name).map(|texts| texts.cloned().collect()).or_else(|| {
                let short = flag.shorthand?;
                Some(vec![format!("{}{}", short.prefix, matches.get_one::<String>(short.name)?)])
            }),
        };
        let given = keys_with_flags::<T>().filter_map(|(key, flag)| Some((key, texts(&flag)?))).collect();
        Ok(Self { given, file: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T> KeyFlags<T> {
    /// Whether a key is set by its flag.
    #[cfg(feature = "advise")]
    pub(crate) fn gives(&self, key: &str) -> bool {
        self.given.iter().any(|(given, _)| given.name == key)
    }
}
