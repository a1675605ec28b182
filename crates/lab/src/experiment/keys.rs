//! Which keys does an experiment file have? The table that `ioweir doc simulate` and its reference page are made from.

/// A key of an experiment file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table it stands in; empty for the file itself.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value where none is given; `required`, or empty where its absence means something of its own.
    pub default: &'static str,
    /// What it says.
    pub help: &'static str,
}

const fn key(table: &'static str, name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { table, name, default, help }
}

/// Every key, table by table.
pub const KEYS: &[Key] = &[
    key("", "title", "\"\"", "what the experiment is about"),
    key("", "duration", "required", "how long it lasts, in simulated time: \"60s\""),
    key("", "warm_up", "\"0s\"", "left out of all figures but those over time; whole intervals"),
    key("", "interval", "\"1s\"", "the width of the steps of what is shown over time; a part of the duration"),
    key("", "schedulers", "required", "schedulers as --scheduler takes them; the experiment is run under each"),
    key("", "seeds", "[0]", "seeds; the experiment is run with each, and figures are means with 95 % intervals"),
    key("", "depth", "32", "requests that the device holds at once"),
    key(
        "",
        "queue_requests",
        "",
        "requests that the queue holds; what the backlogs add up to, and some thousands, where absent; 128 beside the \
         backlogs where an elevator serves a trace",
    ),
    key(
        "",
        "capacity",
        "",
        "what the device is said to do, \"4k/s\": reservations beyond it are refused; all are accepted where absent",
    ),
    key(
        "",
        "device",
        "required",
        "the name of a preset or of a device file, or a device as in such a file: [device.tiered]",
    ),
    key(
        "",
        "sweep",
        "",
        "values in place of a key's, each in a run of its own: \"class.b.hit_ratio\" = [0.2, 0.5]; every combination of several",
    ),
    key("class", "name", "required", "what the class is called"),
    key(
        "class",
        "clients",
        "1",
        "clients in it, each with the share and the backlog that are given; rate and trace are of all together",
    ),
    key("class", "weight", "1", "a client's part of what nobody has reserved"),
    key("class", "reservation", "", "a client is served at least so often while it asks for it: \"500/s\""),
    key("class", "limit", "", "a client is served at most so often"),
    key("class", "burst", "1", "how much may come at once above the limit after a pause"),
    key(
        "class",
        "limit_bytes_per_second",
        "",
        "so many bytes of a client's data are served a second at most, beside the limit: \"10MiB\"",
    ),
    key(
        "class",
        "burst_bytes",
        "",
        "how many bytes may come at once above that limit after a pause; one request where absent",
    ),
    key("class", "latency", "", "the latency that is asked for, where the scheduler knows of such"),
    key("class", "group", "", "the [[group]] that the clients share with others"),
    key("class", "refuse_at_limit", "false", "whether requests above the limit are refused; otherwise they wait"),
    key("class", "backlog", "", "closed loop: each client keeps so many requests outstanding"),
    key("class", "rate", "", "open loop: so many requests arrive, done or not: \"2k/s\""),
    key("class", "arrivals", "\"poisson\"", "how an open loop's arrivals are spaced: poisson or constant"),
    key(
        "class",
        "trace",
        "",
        "the requests of this trace, at its times. An elevator sees its streams and merges, as `ioweir compare` does; a \
         scheduler that knows shares sees the clients of the class, over which the streams are spread, and does not merge",
    ),
    key("class", "read_ratio", "1.0", "share of reads; the others are writes"),
    key("class", "size", "\"4KiB\"", "length of a request"),
    key("class", "sequential", "0.0", "share of requests that go on where the client's last one ended"),
    key(
        "class",
        "region",
        "",
        "where the requests lie: { from = \"0B\", to = \"10GiB\" }; the whole device where absent",
    ),
    key("class", "hit_ratio", "", "share of requests that hit the fast tier, on a tiered array that draws it"),
    key("class", "from", "\"0s\"", "when the clients come"),
    key("class", "to", "", "when they leave; they stay where absent"),
    key("class.phase", "at", "required", "from when on this phase's keys take the place of the class's"),
    key("class.phase", "active", "", "whether the clients send anything"),
    key("class.phase", "backlog", "", "as in the class"),
    key("class.phase", "rate", "", "as in the class"),
    key("class.phase", "read_ratio", "", "as in the class"),
    key("class.phase", "hit_ratio", "", "as in the class"),
    key("class.phase", "weight", "", "as in the class"),
    key("class.phase", "reservation", "", "as in the class"),
    key("class.phase", "limit", "", "as in the class"),
    key("class.phase", "limit_bytes_per_second", "", "as in the class"),
    key("class.phase", "burst_bytes", "", "as in the class"),
    key("class.phase", "latency", "", "as in the class"),
    key("group", "name", "required", "what classes call the group"),
    key("group", "weight", "1", "its part of what nobody has reserved"),
    key("group", "reservation", "", "it is served at least so often"),
    key("group", "limit", "", "it is served at most so often"),
    key("group", "burst", "1", "how much may come at once above the limit"),
    key(
        "group",
        "limit_bytes_per_second",
        "",
        "so many bytes of its data are served a second at most, beside the limit",
    ),
    key("group", "burst_bytes", "", "how many bytes may come at once above that limit; one request where absent"),
    key("expect", "class", "", "whose figure; that of the whole run where absent"),
    key("expect", "metric", "required", "which figure: `ioweir doc metric` lists them"),
    key("expect", "ratio_to", "", "divided by the same figure of this class"),
    key("expect", "scheduler", "", "only for this scheduler; for each where absent"),
    key(
        "expect",
        "at_least",
        "",
        "the least that is allowed: a number, or a latency with its unit; exit code 3 where it is less",
    ),
    key("expect", "at_most", "", "the most that is allowed"),
];

impl Key {
    /// Table and name as they are found in the file.
    #[must_use]
    pub fn path(&self) -> String {
        if self.table.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.table, self.name) }
    }
}
