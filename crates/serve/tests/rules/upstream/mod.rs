//! Exports of other NBD servers as devices: what an upstream may do, and what clients see of it.

mod codec;
mod governed;
mod peers;
mod rules;
mod sham;
mod shares;
mod watched;
