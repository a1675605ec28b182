//! What does an experiment file say?

use serde::{Deserialize, Deserializer, Serialize, de};

use super::amount::{PerSecond, Time};
use super::expect::Expectation;
use ioweir_config::Ratio;
use ioweir_device::{Bytes, DeviceSpec, Extent};

/// An experiment: a device, classes of clients that send it requests, schedulers that share it out among them. The same
/// value gives the same bytes. It is what `ioweir simulate FILE` reads, and what `ioweir show FILE` prints back with every
/// default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is about.
    #[serde(default)]
    pub title: String,
    /// How long it lasts, in simulated time.
    pub duration: Time,
    /// What is left out of all figures but those second by second.
    #[serde(default)]
    pub warm_up: Time,
    /// The width of the steps of what is shown over time.
    #[serde(default = "second")]
    pub interval: Time,
    /// Schedulers in the form `name[:parameter=value...]`; the experiment is run under each.
    pub schedulers: Vec<String>,
    /// Seeds of everything random; the experiment is run with each.
    #[serde(default = "seed")]
    pub seeds: Vec<u64>,
    /// Requests that the device holds at once.
    #[serde(default = "depth")]
    pub depth: u32,
    /// Requests that the queue holds; whoever finds it full is held back. What the closed classes can have outstanding and
    /// some thousands more where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_requests: Option<u32>,
    /// What the device is said to do, for the admission of reservations; where absent, all are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<PerSecond>,
    /// The device: the name of a preset or of a device file, or a device as in such a file.
    pub device: DeviceChoice,
    /// Groups of clients that have a share together.
    #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSpec>,
    /// Classes of clients that are alike.
    #[serde(rename = "class")]
    pub classes: Vec<ClassSpec>,
    /// What is to come out.
    #[serde(default, rename = "expect", skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
    /// Values that take the place of a key's, each in a run of its own: `"class.b.hit_ratio" = [0.2, 0.5]`. With several keys,
    /// every combination is run.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub sweep: toml::Table,
}

/// The device by name, or written out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // One in an experiment.
pub enum DeviceChoice {
    /// A preset or a file.
    Named(String),
    /// The device itself.
    Inline(DeviceSpec),
}

impl<'de> Deserialize<'de> for DeviceChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = DeviceChoice;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("the name of a device, or a table such as [device.tiered]")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<DeviceChoice, E> {
                Ok(DeviceChoice::Named(name.into()))
            }

            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<DeviceChoice, M::Error> {
                DeviceSpec::deserialize(MapEnum(map)).map(DeviceChoice::Inline)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A table of one key, read as an enum: the key is the variant.
struct MapEnum<M>(M);

impl<'de, M: de::MapAccess<'de>> Deserializer<'de> for MapEnum<M> {
    type Error = M::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, M::Error> {
        visitor.visit_enum(de::value::MapAccessDeserializer::new(self.0))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A group of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// What classes call it.
    pub name: String,
    /// Its part of what nobody has reserved.
    #[serde(default = "one")]
    pub weight: u32,
    /// Served at least so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<PerSecond>,
    /// Served at most so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PerSecond>,
    /// How much may come at once above the limit.
    #[serde(default = "one_long")]
    pub burst: u64,
    /// At most so many bytes of data are served a second, beside the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_second: Option<Bytes>,
    /// How many bytes may come at once above that limit; one request may where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<Bytes>,
}

/// Clients that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// What it is called.
    pub name: String,
    /// How many clients; each has the share that is given here, and what else is given each, but for `rate` and `trace`, which
    /// are of the class together.
    #[serde(default = "one")]
    pub clients: u32,

    /// A client's part of what nobody has reserved.
    #[serde(default = "one")]
    pub weight: u32,
    /// A client is served at least so often while it asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<PerSecond>,
    /// A client is served at most so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PerSecond>,
    /// How much may come at once above the limit after a pause.
    #[serde(default = "one_long")]
    pub burst: u64,
    /// At most so many bytes of a client's data are served a second, beside the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_second: Option<Bytes>,
    /// How many bytes may come at once above that limit after a pause; one request may where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<Bytes>,
    /// The latency that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Time>,
    /// The group that the clients belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether requests above the limit are refused; otherwise they wait. A closed loop asks again when the scheduler says.
    #[serde(default)]
    pub refuse_at_limit: bool,

    /// Closed loop: each client keeps so many requests outstanding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// Open loop: so many requests arrive, whether or not earlier ones are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<PerSecond>,
    /// At which distances the requests of an open loop arrive.
    #[serde(default)]
    pub arrivals: Spacing,
    /// The requests of this trace, at its times. Its streams are spread over the clients; an elevator sees the streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The share of reads; the rest are writes.
    #[serde(default = "all")]
    pub read_ratio: Ratio,
    /// Length of a request.
    #[serde(default = "four_kibibytes")]
    pub size: Bytes,
    /// The share of requests that go on where the client's last one ended; the others lie anywhere in the region.
    #[serde(default)]
    pub sequential: Ratio,
    /// Where the requests lie; the whole device where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Extent>,
    /// The share of requests that the fast tier serves, on a tiered array that draws it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<Ratio>,

    /// When the clients come.
    #[serde(default)]
    pub from: Time,
    /// When they leave: from then on they send nothing. They stay to the end where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Time>,
    /// What changes, and when.
    #[serde(default, rename = "phase", skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSpec>,
}

/// From some time on, the keys that are given take the place of the class's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// From when on.
    pub at: Time,
    /// Whether the clients send anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// As in the class, which must have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// As in the class, which must have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<PerSecond>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ratio: Option<Ratio>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<Ratio>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<PerSecond>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PerSecond>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_second: Option<Bytes>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<Bytes>,
    /// As in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Time>,
}

/// How the arrivals of an open loop are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Independent of one another: distances are exponentially distributed.
    #[default]
    Poisson,
    /// Always the same.
    Constant,
}

fn second() -> Time {
    Time(ioweir_core::Nanos::from_seconds(1))
}

fn seed() -> Vec<u64> {
    vec![0]
}

fn depth() -> u32 {
    32
}

fn one() -> u32 {
    1
}

fn one_long() -> u64 {
    1
}

fn all() -> Ratio {
    Ratio::ONE
}

fn four_kibibytes() -> Bytes {
    Bytes(4096)
}
