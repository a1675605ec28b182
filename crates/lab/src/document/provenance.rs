//! The provenance of a document: the program, the command, the inputs and every parameter.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The program that runs, and the command that it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Program version.
    pub version: String,
    /// The commit that the program was built from.
    pub commit: String,
    /// The command that runs this again.
    pub command: String,
}

/// A trace or a series that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceMeta {
    /// The name used in the results.
    pub name: String,
    /// The format in which it was read.
    pub format: String,
    /// Files and their SHA-256.
    pub files: Vec<(String, String)>,
}

impl TraceMeta {
    /// One SHA-256 for the trace: that of its only file, or a hash of the hashes of several in their order.
    #[must_use]
    pub fn sha256(&self) -> String {
        match &self.files[..] {
            [(_, only)] => only.clone(),
            several => {
                let hashes = several.iter().map(|(_, hash)| hash.as_str());
                hexadecimal(&Sha256::digest(hashes.collect::<String>()))
            }
        }
    }
}

/// The inputs and versions from which a document can be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// Program version.
    pub version: String,
    /// The commit that the program was built from, with `-dirty` if the tree was changed; "unknown" outside a checkout.
    pub commit: String,
    /// The command that runs this again.
    pub command: String,
    /// SHA-256 of the parameters.
    pub spec_sha256: String,
    /// The inputs that were read.
    pub inputs: Vec<TraceMeta>,
    /// All parameters: the name of each part, and its parameters as TOML or in words.
    pub specs: Vec<(String, String)>,
}

impl Provenance {
    /// The provenance of a run of `origin` with these inputs and parameters; the hash covers all `specs`, one after another.
    #[must_use]
    pub fn new(origin: &Origin, inputs: Vec<TraceMeta>, specs: Vec<(String, String)>) -> Self {
        let mut hash = Sha256::new();
        for (_, spec) in &specs {
            hash.update(spec);
        }
        let Origin { version, commit, command } = origin.clone();
        Self { version, commit, command, spec_sha256: hexadecimal(&hash.finalize()), inputs, specs }
    }
}

/// A word of a command, as a shell takes it back.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
