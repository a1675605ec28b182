//! Backends of the server: those of `ioweir-block`, opened as a spec says, and upstreams.

mod open;
pub(crate) mod upstream;

pub use ioweir_block::backend::*;

pub use open::{Found, Shape, check, open, shared_workers};
pub(crate) use open::{check_free, outlives_its_backend};
pub use upstream::Upstream;
