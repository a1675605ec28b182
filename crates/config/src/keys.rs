//! Keys of files, declared once: [`keys!`](crate::keys!) generates a struct, its serde code and its documentation from one
//! list.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess};
use serde::ser::SerializeMap;

use crate::Flag;
use crate::choice::unknown;

/// A key of a file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in a file.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The default, as written in a file; `None` if the key is required, empty if leaving it out has a meaning of its own.
    pub default: fn() -> Option<String>,
    /// The flag of the command line that sets the key, if it has one.
    pub flag: Option<Flag>,
}

impl Key {
    /// The help text in one line.
    #[must_use]
    pub fn help_line(&self) -> String {
        one_line(self.help)
    }
}

/// A text in one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A table of a file, or a set of keys in several tables. Implemented by [`keys!`](crate::keys!).
pub trait KeySet: Sized {
    /// The keys that have been read so far.
    type Draft: Default;

    /// The keys, in the order of the file, except those that stand for a further table.
    fn keys() -> Vec<Key>;
    /// The keys that are given.
    fn given(&self) -> Vec<&'static str>;
    /// Reads the value of a key, if it is one of these.
    ///
    /// # Errors
    /// Errors of the value.
    fn read<'de, M: MapAccess<'de>>(draft: &mut Self::Draft, name: &str, map: &mut M) -> Result<bool, M::Error>;
    /// Fills in the keys that were not given.
    ///
    /// # Errors
    /// If a required key is missing.
    fn finish<E: de::Error>(draft: Self::Draft) -> Result<Self, E>;
    /// Writes every key that is not absent.
    ///
    /// # Errors
    /// Errors of the format.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// A value that a file may omit.
pub trait MayBeAbsent {
    /// Whether the value is absent.
    fn is_absent(&self) -> bool;
}

impl<T> MayBeAbsent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> MayBeAbsent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T> MayBeAbsent for std::collections::BTreeMap<String, T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl MayBeAbsent for toml::Table {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// A default as it would be written in a file.
#[must_use]
pub fn default_text(value: impl serde::Serialize) -> Option<String> {
    toml::Value::try_from(value).ok().map(|value| value.to_string())
}

/// Reads a table; an unknown key is an error at that key.
///
/// # Errors
/// Errors of the table.
#[doc(hidden)]
pub fn read_table<'de, T: KeySet, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Table<T>(PhantomData<T>);
    impl<'de, T: KeySet> de::Visitor<'de> for Table<T> {
        type Value = T;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a table")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<T, M::Error> {
            let keys = T::keys();
            let mut draft = T::Draft::default();
            while let Some(name) = map.next_key_seed(Name(&keys))? {
                T::read(&mut draft, &name, &mut map)?;
            }
            T::finish(draft)
        }
    }
    deserializer.deserialize_map(Table(PhantomData))
}

/// A name that must be one of these keys.
struct Name<'a>(&'a [Key]);

impl<'de> de::DeserializeSeed<'de> for Name<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let name = String::deserialize(deserializer)?;
        if self.0.iter().any(|key| key.name == name) {
            return Ok(name);
        }
        let names: Vec<_> = self.0.iter().map(|key| key.name).collect();
        Err(de::Error::custom(unknown("field", &name, &names, "")))
    }
}

/// A struct for a table of a file. One list gives the struct, its serde code, and its documentation ([`KeySet::keys`]).
///
/// Each key has its help as a doc comment, its type, and after `=` its value if it is left out: `required`, `absent` (for an
/// `Option` or a list), or a default in parentheses. `as "name"` gives the name in the file if it is not the field's. `=> flag`
/// after the default is the [`Flag`] of the command line that sets the key. `..field: Set` includes the keys of another set.
///
/// ```
/// ioweir_config::keys! {
///     /// A job.
///     #[derive(Clone, Debug, PartialEq)]
///     pub struct Job {
///         /// what the job is called
///         name: String = required,
///         /// requests that it keeps in flight
///         depth: u32 = (1),
///         /// requests that it sends per second
///         rate: Option<ioweir_config::Rate> = absent,
///         /// how long it runs; to the end of the run if absent
///         duration: Option<ioweir_config::Duration> = absent,
///     }
/// }
/// let job: Job = toml::from_str("name = \"a\"\nrate = \"500/s\"").unwrap();
/// assert_eq!((job.depth, job.rate), (1, Some(ioweir_config::Rate(500))));
/// assert_eq!(toml::to_string(&job).unwrap(), "name = \"a\"\ndepth = 1\nrate = \"500/s\"\n");
/// ```
#[macro_export]
macro_rules! keys {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident $(as $key:literal)?: $type:ty = $default:tt $(=> $flag:expr)?,
            )*
            $(..$set:ident: $set_type:ty,)?
        }
        $(with { $($(#[doc = $extra_doc:literal])+ $extra:ident: $extra_type:ty,)+ })?
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $help])+ $vis $field: $type,)*
            $(
                /// Further keys of the table.
                $vis $set: $set_type,
            )?
            $($($(#[doc = $extra_doc])+ $vis $extra: $extra_type,)+)?
        }

        const _: () = {
            use $crate::serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

            #[derive(Default)]
            #[allow(missing_docs, unreachable_pub, missing_debug_implementations)]
            pub struct Draft {
                $($field: Option<$type>,)*
                $($set: <$set_type as $crate::KeySet>::Draft,)?
            }

            impl $crate::KeySet for $name {
                type Draft = Draft;

                fn keys() -> Vec<$crate::Key> {
                    #[allow(unused_mut)]
                    let mut keys = vec![$($crate::Key {
                        name: $crate::key_name!($field $($key)?),
                        help: concat!($($help),+).trim_ascii(),
                        default: || $crate::key_default!($type, $default),
                        flag: $crate::key_flag!($($flag)?),
                    },)*];
                    $(keys.extend(<$set_type as $crate::KeySet>::keys());)?
                    keys
                }

                #[allow(clippy::vec_init_then_push)]
                fn given(&self) -> Vec<&'static str> {
                    #[allow(unused_mut)]
                    let mut given = Vec::new();
                    $($crate::key_given!(given, &self.$field, $crate::key_name!($field $($key)?), $default);)*
                    $(given.extend($crate::KeySet::given(&self.$set));)?
                    given
                }

                fn read<'de, M: de::MapAccess<'de>>(
                    draft: &mut Draft,
                    name: &str,
                    map: &mut M,
                ) -> Result<bool, M::Error> {
                    $(
                        if name == $crate::key_name!($field $($key)?) {
                            if draft.$field.is_some() {
                                return Err(de::Error::duplicate_field($crate::key_name!($field $($key)?)));
                            }
                            draft.$field = Some(map.next_value()?);
                            return Ok(true);
                        }
                    )*
                    $(
                        if <$set_type as $crate::KeySet>::read(&mut draft.$set, name, map)? {
                            return Ok(true);
                        }
                    )?
                    Ok(false)
                }

                fn finish<E: de::Error>(draft: Draft) -> Result<Self, E> {
                    Ok(Self {
                        $($field: match draft.$field {
                            Some(value) => value,
                            None => $crate::key_absent!($crate::key_name!($field $($key)?), $default),
                        },)*
                        $($set: $crate::KeySet::finish(draft.$set)?,)?
                        $($($extra: Default::default(),)+)?
                    })
                }

                fn write<M: ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                    $($crate::key_written!(map, $crate::key_name!($field $($key)?), &self.$field, $default);)*
                    $($crate::KeySet::write(&self.$set, map)?;)?
                    Ok(())
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::read_table(deserializer)
                }
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    use ser::SerializeMap as _;
                    let mut map = serializer.serialize_map(None)?;
                    $crate::KeySet::write(self, &mut map)?;
                    map.end()
                }
            }
        };
    };
}

/// The name of a key in a file.
#[doc(hidden)]
#[macro_export]
macro_rules! key_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// The flag of a key.
#[doc(hidden)]
#[macro_export]
macro_rules! key_flag {
    () => {
        None
    };
    ($flag:expr) => {
        Some($flag)
    };
}

/// The default of a key, as documentation shows it.
#[doc(hidden)]
#[macro_export]
macro_rules! key_default {
    ($type:ty, required) => {
        None
    };
    ($type:ty, absent) => {
        Some(String::new())
    };
    ($type:ty, ($value:expr)) => {{
        let value: $type = $value;
        $crate::default_text(value)
    }};
}

/// The value of a key that is left out.
#[doc(hidden)]
#[macro_export]
macro_rules! key_absent {
    ($name:expr, required) => {
        return Err(E::missing_field($name))
    };
    ($name:expr, absent) => {
        Default::default()
    };
    ($name:expr, ($value:expr)) => {
        $value
    };
}

/// Writes a key unless it is absent.
#[doc(hidden)]
#[macro_export]
macro_rules! key_written {
    ($map:ident, $name:expr, $value:expr, absent) => {
        if !$crate::MayBeAbsent::is_absent($value) {
            $map.serialize_entry($name, $value)?;
        }
    };
    ($map:ident, $name:expr, $value:expr, $default:tt) => {
        $map.serialize_entry($name, $value)?;
    };
}

/// Adds a key to the list of given keys, unless it is absent.
#[doc(hidden)]
#[macro_export]
macro_rules! key_given {
    ($given:ident, $value:expr, $name:expr, absent) => {
        if !$crate::MayBeAbsent::is_absent($value) {
            $given.push($name);
        }
    };
    ($given:ident, $value:expr, $name:expr, $default:tt) => {
        $given.push($name);
    };
}
