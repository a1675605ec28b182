//! The table of the keys of a share: the part of a device that a client, a tenant, a class or a group may have.
//!
//! A new key is a row here, and a field of [`Share`] in the core, which implements it. The row gives the key its place in
//! files and assignments, its documentation, its number in reports, its metric, and its column in tables.

use ioweir_core::Nanos;
use ioweir_core::tenant::Share;

use crate::{ByteRate, Duration, Rate, Size};

/// Defines the keys of a share, one in each row: help, key, type, the field of [`Share`] that it sets and how, and, after the arrow, the
/// number in reports. Of that number, a row gives the name with its unit, the type, how it is read from the share, and the title and unit
/// of its column.
macro_rules! shares {
    ($(
        $(#[doc = $help:literal])+
        $key:ident: $type:ty = $field:ident($to_core:expr)
            => $number:ident: $number_type:ty = $of_core:expr, $title:literal, $unit:literal;
    )+) => {
        crate::keys! {
            /// The keys of a share, as they are given in every file: for `[[export]]`, `[[tenant]]` and `[[group]]` of a
            /// server, for `[[class]]`, `[[group]]` and `[[class.phase]]` of an experiment, and in assignments of
            /// `ioweir ctl`.
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct ShareKeys {
                $(
                    $(#[doc = $help])+
                    $key: Option<$type> = absent,
                )+
                /// the group that it belongs to; of classes, exports and tenants only
                group: Option<String> = absent,
            }
        }

        impl ShareKeys {
            /// Replaces the values of a share by the given keys. The caller sets the group, whose number in the core it
            /// knows.
            pub fn set(&self, share: &mut Share) {
                $(share.$field = self.$key.map_or(share.$field, $to_core);)+
            }

            /// The keys' values as numbers; missing keys must have been filled in.
            #[must_use]
            pub fn numbers(&self) -> ShareNumbers {
                let share = self.share(Share::DEFAULT.weight);
                $(
                    let $number: fn(&Share) -> $number_type = $of_core;
                )+
                ShareNumbers { $($number: $number(&share),)+ }
            }
        }

        /// A share as numbers, for reports: names include the unit. Zero means no reservation or no limit.
        #[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct ShareNumbers {
            $(
                $(#[doc = $help])+
                pub $number: $number_type,
            )+
        }

        /// The numbers of a share, in the order of the keys.
        pub const SHARE_NUMBERS: &[ShareNumber] = &[$(ShareNumber {
            name: stringify!($number),
            title: $title,
            unit: $unit,
            of: |numbers| numbers.$number.real(),
            is_given: |keys| keys.$key.is_some(),
        },)+];
    };
}

shares! {
    /// part of the device against the weights of others, 1 to 10000; in a group, part of what the group gets. Where
    /// absent, 100 in a server and 1 in an experiment
    weight: u32 = weight(|weight| weight) => weight: u32 = |share| share.weight, "weight", "";
    /// served at least this often while it asks for it: "500/s" (`mclock`, `reward`, `pclock`)
    reservation: Rate = reservation_per_second(|rate| rate.0)
        => reservation_per_second: u64 = |share| share.reservation_per_second, "reservation", "/s";
    /// served at most this often: "500/s"; "0/s" is no limit
    limit: Rate = limit_per_second(|rate| rate.0)
        => limit_per_second: u64 = |share| share.limit_per_second, "limit", "/s";
    /// how much may come at once above the limit after a pause; 0, the default, is a tenth of a second's worth of the
    /// limit, with which a class reaches its limit beside others; with 1 every pause is lost. For the curve of `pclock`
    /// the default is 1
    burst: u64 = burst(|burst| burst) => burst: u64 = |share| share.burst, "burst", "";
    /// at most this many bytes are read and written per second, beside the limit: "10MiB/s"
    limit_bytes: ByteRate = limit_bytes_per_second(|rate| rate.0)
        => limit_bytes_per_second: u64 = |share| share.limit_bytes_per_second, "limit", "B/s";
    /// how many bytes may go at once above that limit after a pause; 0, the default, is a tenth of a second's worth. A
    /// request goes however large it is, and the next waits for all of it
    burst_bytes: Size = burst_bytes(|size| size.0) => burst_bytes: u64 = |share| share.burst_bytes, "burst", "B";
    /// `io-max`: at most this many bytes are read per second: "10MiB/s"
    rbps: ByteRate = read_bytes_per_second(|rate| rate.0)
        => read_bytes_per_second: u64 = |share| share.read_bytes_per_second, "rbps", "B/s";
    /// `io-max`: at most this many bytes are written per second
    wbps: ByteRate = write_bytes_per_second(|rate| rate.0)
        => write_bytes_per_second: u64 = |share| share.write_bytes_per_second, "wbps", "B/s";
    /// `io-max`: at most this many requests read per second: "500/s"
    riops: Rate = reads_per_second(|rate| rate.0)
        => reads_per_second: u64 = |share| share.reads_per_second, "riops", "/s";
    /// `io-max`: at most this many requests other than reads go per second
    wiops: Rate = writes_per_second(|rate| rate.0)
        => writes_per_second: u64 = |share| share.writes_per_second, "wiops", "/s";
    /// the latency to keep, if the scheduler keeps one; of `io-latency` it is the kernel's `target`
    latency: Duration = latency(Duration::nanos)
        => latency_seconds: Option<f64> = |share| (share.latency != Nanos::NEVER).then(|| share.latency.as_seconds()),
           "latency", "s";
}

impl ShareKeys {
    /// The share that these keys describe, with this weight if they give none.
    #[must_use]
    pub fn share(&self, weight: u32) -> Share {
        let mut share = Share::weighted(weight);
        self.set(&mut share);
        share
    }

    /// Fills in the key that every class has.
    pub fn fill_in(&mut self, weight: u32) {
        self.weight.get_or_insert(weight);
    }
}

/// A number of a share, for metrics and tables.
#[derive(Clone, Copy, Debug)]
pub struct ShareNumber {
    /// The name of the number's field in [`ShareNumbers`].
    pub name: &'static str,
    /// The title of the number's column.
    pub title: &'static str,
    /// The unit that belongs to `title`, not to `name`; empty for a plain number.
    pub unit: &'static str,
    /// The number; `None` if the share has none.
    pub of: fn(&ShareNumbers) -> Option<f64>,
    /// Whether the number's key is given.
    pub is_given: fn(&ShareKeys) -> bool,
}

impl ShareNumber {
    /// Whether the number differs from that of a share that was not configured.
    #[must_use]
    pub fn is_set(&self, numbers: &ShareNumbers) -> bool {
        (self.of)(numbers) != (self.of)(&ShareKeys::default().numbers())
    }
}

/// A number in the form that tables show.
trait Real {
    fn real(self) -> Option<f64>;
}

impl Real for u32 {
    fn real(self) -> Option<f64> {
        Some(self.into())
    }
}

impl Real for u64 {
    fn real(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl Real for Option<f64> {
    fn real(self) -> Option<f64> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeySet as _;

    #[test]
    fn every_share_key_has_a_number() {
        let text = "weight = 2\nreservation = \"3/s\"\nlimit = \"4/s\"\nburst = 5\nlimit_bytes = \"6B/s\"\nburst_bytes = \"7B\"\n\
                    rbps = \"9B/s\"\nwbps = \"10B/s\"\nriops = \"11/s\"\nwiops = \"12/s\"\nlatency = \"8s\"\n";
        let keys: ShareKeys = toml::from_str(text).unwrap();
        assert_eq!(keys.given().len() + 1, ShareKeys::keys().len(), "the group is the only key that is not here");
        let numbers = ShareNumbers {
            weight: 2,
            reservation_per_second: 3,
            limit_per_second: 4,
            burst: 5,
            limit_bytes_per_second: 6,
            burst_bytes: 7,
            read_bytes_per_second: 9,
            write_bytes_per_second: 10,
            reads_per_second: 11,
            writes_per_second: 12,
            latency_seconds: Some(8.0),
        };
        assert_eq!(keys.numbers(), numbers);
        for number in SHARE_NUMBERS {
            assert!((number.is_given)(&keys) && number.is_set(&numbers), "{}", number.name);
            assert!(!(number.is_given)(&ShareKeys::default()) && !number.is_set(&ShareKeys::default().numbers()));
        }
    }
}
