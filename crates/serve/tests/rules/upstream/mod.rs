//! Rules of upstreams, exports of other NBD servers as devices: what they may do, and what clients see of it.

mod codec;
mod governed;
mod peers;
mod rules;
mod sham;
mod shares;
mod watched;

pub(crate) use sham::Sham;
