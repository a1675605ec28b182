//! The papers that come with the program.

use super::SourceFile;

/// A paper as data: its files, each with its name in the repository.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name on the command line.
    pub name: &'static str,
    /// The runs.
    pub(super) experiment: SourceFile<'static>,
    pub(super) claims: SourceFile<'static>,
    /// The content of the page.
    pub(super) page: SourceFile<'static>,
    /// The method and the differences.
    pub(super) readme: &'static str,
    /// Files that runs use.
    pub(super) files: &'static [SourceFile<'static>],
}

// The files lie in folders of the repository that the crate has links to, so that a package of it has them too.
macro_rules! embedded {
    ($($part:tt)*) => {
        SourceFile { file: concat!($($part)*), text: include_str!(concat!("../assets/", $($part)*)) }
    };
}

macro_rules! paper {
    ($name:literal, [$($file:literal),*]) => {
        Paper {
            name: $name,
            experiment: embedded!("papers/", $name, "/experiment.toml"),
            claims: embedded!("papers/", $name, "/claims.toml"),
            page: embedded!("papers/", $name, "/page.toml"),
            readme: include_str!(concat!("../assets/papers/", $name, "/README.md")),
            files: &[$(embedded!($file)),*],
        }
    };
}

/// Every paper, in the order in which they are run.
pub const PAPERS: [Paper; 4] = [
    paper!("bid", []),
    paper!("wafl", ["papers/wafl/servers.toml", "papers/wafl/parts.toml"]),
    paper!("reward", ["examples/figure-2.toml", "experiments/reward/real-io/results.json"]),
    paper!(
        "background",
        [
            "experiments/background/results/delete-interference.json",
            "experiments/background/results/forecast-peers.json"
        ]
    ),
];
