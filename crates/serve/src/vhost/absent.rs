//! Stands for disks of virtual machines in a build without them: none of these values ever exists.

use std::convert::Infallible;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::engine::Handle;
use crate::nbd::{Export, NbdError, Request};

/// The rings of a client.
#[derive(Debug)]
pub enum Rings {}

/// An order of a monitor to the engine.
#[derive(Debug)]
pub enum Order {}

/// The session's task after an order.
#[allow(dead_code, reason = "nothing follows, and the session knows what could")]
pub(crate) enum Effect {
    None,
    Look,
    Started(usize),
    Stopped(OwnedFd),
    Ended(Option<String>),
}

pub(crate) type Describe = Box<dyn Fn() -> Option<Export> + Send>;

pub(crate) fn begin(
    _socket: OwnedFd,
    _client: (u64, Handle),
    _describe: Describe,
    _introduce: impl FnOnce(Rings),
) -> io::Result<()> {
    Err(io::Error::other("this build is without vhost"))
}

impl Rings {
    pub(crate) fn carry_out(&mut self, _order: Order) -> Effect {
        match *self {}
    }

    pub(crate) fn next_stopped(&mut self) -> Option<Effect> {
        match *self {}
    }

    pub(crate) fn kick(&self, _number: usize) -> Option<BorrowedFd<'_>> {
        match *self {}
    }

    pub(crate) fn kicks(&self) -> std::iter::Empty<BorrowedFd<'_>> {
        match *self {}
    }

    pub(crate) fn has_more(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_answers(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn is_sated(&self, _turn: u64) -> bool {
        match *self {}
    }

    pub(crate) fn next(&mut self, _turn: u64) -> Result<Option<Request>, Infallible> {
        match *self {}
    }

    pub(crate) fn pull(&self, _cookie: u64, _at: u64, _bytes: &mut [u8]) -> Result<(), Infallible> {
        match *self {}
    }

    pub(crate) fn put(&self, _cookie: u64, _at: u64, _bytes: &[u8]) -> Result<(), Infallible> {
        match *self {}
    }

    pub(crate) fn finish(&mut self, _cookie: u64, _error: Option<NbdError>) -> Result<(), Infallible> {
        match *self {}
    }

    pub(crate) fn signal(&mut self) -> Result<(), Infallible> {
        match *self {}
    }
}
