//! How is a running server asked, and told?

pub mod client;
