//! The sockets that clients connect to, created here or handed over by systemd.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, lchown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use ioweir_config::shown;
use rustix::fs::Access;
use rustix::io::Errno;

use crate::durable::folder_of;
use crate::spec::{Listen, Server, SocketMode};

/// The first descriptor that systemd hands over.
const FIRST_HANDED_OVER: i32 = 3;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// The most descriptors that are taken over.
pub(super) const HANDED_OVER_MAX: i32 = 64;

/// The mode of sockets that are given to a group, unless the spec has another.
const MODE_FOR_GROUP: SocketMode = SocketMode(0o660);

/// A socket that clients connect to.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: OwnedFd,
    /// The address as a text.
    name: String,
    /// The socket file, which is removed with the listener.
    path: Option<PathBuf>,
    /// The number of the export for virtual machines, which cannot choose; other clients choose theirs over NBD.
    pub(super) export: Option<usize>,
}

impl Listener {
    /// A socket of this name that another process has handed over.
    pub(crate) fn taken(socket: OwnedFd, name: &str) -> Self {
        Self { socket, name: name.into(), path: name.strip_prefix("unix:").map(PathBuf::from), export: None }
    }

    /// Leaves the socket file to the process that has the socket from now on.
    pub(super) fn leave_file(&mut self) {
        self.path = None;
    }

    /// Whether the spec's address is this listener's. A socket from a service manager belongs to no address of a spec.
    pub(crate) fn is_at(&self, listen: &Listen) -> bool {
        self.name == listen.to_string()
    }

    /// Whether its address is known, and not only its descriptor.
    pub(crate) fn has_address(&self) -> bool {
        self.name.starts_with("unix:") || self.name.starts_with("tcp:")
    }

    /// A listener for the virtual machines of an export.
    pub(crate) const fn of_export(self, number: usize) -> Self {
        // A value with a destructor cannot be destructured.
        let mut its = self;
        its.export = Some(number);
        its
    }

    /// Whether the clients that connect are virtual machines.
    pub(crate) const fn is_for_machines(&self) -> bool {
        self.export.is_some()
    }

    /// Another descriptor of the socket, which does not block.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        rustix::io::ioctl_fionbio(&self.socket, true)?;
        self.socket.try_clone()
    }

    /// Whether other machines can connect to it.
    pub fn is_open_to_others(&self) -> bool {
        let address = rustix::net::getsockname(&self.socket).ok();
        address.and_then(|address| SocketAddr::try_from(address).ok()).is_some_and(|its| !its.ip().is_loopback())
    }

    /// Whether it is a unix socket.
    pub(crate) const fn is_unix(&self) -> bool {
        self.path.is_some()
    }

    /// As [`Listener::bind`], but only the user that the server runs as can ever connect to a unix socket.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind_private(listen: &Listen) -> Result<Self, String> {
        let Listen::Unix(path) = listen else { return Self::bind(listen) };
        Self::bind_unix(path, |path| bind_closed(path, || Ok(())))
    }

    /// As [`Listener::bind`], but a unix socket gets the mode and group that the spec gives to those of clients, before
    /// anyone can connect to it.
    ///
    /// # Errors
    /// As [`Listener::bind`]; if the mode or group cannot be set, the key.
    pub fn bind_for_clients(listen: &Listen, server: &Server) -> Result<Self, String> {
        let Listen::Unix(path) = listen else { return Self::bind(listen) };
        let (group, mode) = match (group_of(server)?, server.socket_mode) {
            (None, None) => return Self::bind(listen),
            (group, mode) => (group, mode.unwrap_or(MODE_FOR_GROUP)),
        };
        let of_key = |key: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("server.{key} cannot be set: {error}"))
        };
        let settle = || {
            lchown(path, None, group).map_err(of_key("socket_group"))?;
            // Unlike at creation, the umask does not apply here.
            let mode = fs::Permissions::from_mode(mode.0);
            fs::set_permissions(path, mode).map_err(of_key("socket_mode"))
        };
        Self::bind_unix(path, |path| bind_closed(path, settle))
    }

    /// Whether [`Listener::bind`] would succeed now. Nothing is made.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub(crate) fn check(listen: &Listen) -> Result<(), String> {
        let could_bind = match listen {
            Listen::Unix(path) => check_unix(path),
            Listen::Tcp(address) => check_tcp(address),
        };
        could_bind.map_err(|error| refused(listen, &error))
    }

    /// Creates a socket. A unix socket on which no server listens is replaced; one on which a server listens is not.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn bind(listen: &Listen) -> Result<Self, String> {
        match listen {
            Listen::Unix(path) => Self::bind_unix(path, |path| UnixListener::bind(path).map(OwnedFd::from)),
            Listen::Tcp(address) => {
                let socket = TcpListener::bind(address).map_err(|error| refused(listen, &error))?;
                // With port 0 the system chooses a free port, which the name then has.
                let name = socket.local_addr().map_or_else(|_| listen.to_string(), |address| format!("tcp:{address}"));
                Ok(Self { socket: socket.into(), name, path: None, export: None })
            }
        }
    }

    fn bind_unix(path: &Path, bind: impl Fn(&Path) -> io::Result<OwnedFd>) -> Result<Self, String> {
        let listen = Listen::Unix(path.into());
        let bound = match bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_dead(path) => {
                fs::remove_file(path).and_then(|()| bind(path))
            }
            bound => bound,
        };
        let socket = bound.map_err(|error| refused(&listen, &error))?;
        Ok(Self { socket, name: listen.to_string(), path: Some(path.into()), export: None })
    }

    /// The sockets that systemd hands over, if any (`LISTEN_FDS`, for the process in `LISTEN_PID`). Call it once, at the
    /// start of the program.
    ///
    /// # Errors
    /// If the variables are malformed.
    #[allow(unsafe_code, reason = "descriptors are handed over as numbers")]
    pub fn handed_over() -> Result<Vec<Self>, String> {
        use std::os::fd::FromRawFd as _;
        let number =
            |name: &str| std::env::var(name).ok().map(|text| text.parse::<i32>().map_err(|_| name.to_string()));
        let (Some(count), Some(process)) = (number("LISTEN_FDS"), number("LISTEN_PID")) else { return Ok(Vec::new()) };
        let wrong = |name: String| format!("{name} is not a number");
        let (count, process) = (count.map_err(wrong)?, process.map_err(wrong)?);
        if u32::try_from(process) != Ok(std::process::id()) || count <= 0 {
            return Ok(Vec::new());
        }
        if count > HANDED_OVER_MAX {
            return Err(format!(
                "LISTEN_FDS says {count} sockets are handed over; at most {HANDED_OVER_MAX} are taken"
            ));
        }
        let numbers = FIRST_HANDED_OVER..FIRST_HANDED_OVER + count;
        numbers
            .map(|number| {
                // SAFETY: LISTEN_FDS states that these descriptors are open and are for this process; nothing else in it
                // uses them, and this function is called once.
                let socket = unsafe { OwnedFd::from_raw_fd(number) };
                let usable = rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC);
                usable.map_err(|error| format!("descriptor {number} of LISTEN_FDS cannot be used: {error}"))?;
                Ok(Self { socket, name: format!("descriptor {number}, handed over"), path: None, export: None })
            })
            .collect()
    }

    /// The address as a text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The file may have been removed already.
            let _ = fs::remove_file(path);
        }
    }
}

fn refused(listen: &Listen, error: &io::Error) -> String {
    format!("{listen}: cannot listen: {error}")
}

/// Checks that a unix socket could be created, or could replace one whose server has ended.
fn check_unix(path: &Path) -> io::Result<()> {
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    if fs::symlink_metadata(path).is_ok() && !is_dead(path) {
        return Err(Errno::ADDRINUSE.into());
    }
    if !fs::metadata(folder_of(path))?.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok(rustix::fs::access(folder_of(path), Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Checks that an address is free, with a socket that has it for a moment and does not listen.
fn check_tcp(address: &SocketAddr) -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt::set_socket_reuseaddr};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None)?;
    set_socket_reuseaddr(&socket, true)?;
    Ok(bind(&socket, address)?)
}

/// Creates a socket that no other user can connect to: it gets its mode before it is bound. `settle` may change its file
/// before anyone can connect.
fn bind_closed(path: &Path, settle: impl FnOnce() -> io::Result<()>) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    if let Err(error) = settle().and_then(|()| Ok(listen(&socket, BACKLOG)?)) {
        // The error that is reported is the first one.
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(socket)
}

/// The number of the group that the sockets of clients get.
///
/// # Errors
/// If there is no such group: the key, and what was expected.
pub(crate) fn group_of(server: &Server) -> Result<Option<u32>, String> {
    let Some(name) = &server.socket_group else { return Ok(None) };
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let number = number_in(&groups, name).ok_or_else(|| {
        let expected = "the name of a group in /etc/group, such as \"disk\", or a number";
        format!("server.socket_group: there is no group `{}`\n  expected: {expected}", shown(name))
    })?;
    Ok(Some(number))
}

/// The number of a group, given by its name in the text of group(5) or by the number itself.
fn number_in(groups: &str, name: &str) -> Option<u32> {
    let mut fields = groups.lines().map(|line| line.split(':'));
    let named = fields.find_map(|mut fields| if fields.next() == Some(name) { fields.nth(1) } else { None });
    // To the system, the largest number means no group.
    named.unwrap_or(name).parse().ok().filter(|number| *number < u32::MAX)
}

/// Whether a path is the socket of a server that has ended; nothing else may be removed.
fn is_dead(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_accept_clients_once_their_file_is_final() {
        let path = std::env::temp_dir().join(format!("ioweir-settled-{}", std::process::id()));
        let socket = bind_closed(&path, || {
            let refused = UnixStream::connect(&path).map_err(|error| error.kind()).map(drop);
            assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
            assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o077, 0, "nor would another user be let in");
            Ok(())
        });
        drop((socket.unwrap_or_else(|error| panic!("{error}")), UnixStream::connect(&path)));
        fs::remove_file(&path).unwrap_or_else(|error| panic!("{error}"));
        let failed = bind_closed(&path, || Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(failed.map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
        assert!(!path.exists(), "no socket is left that nobody listens at");
    }

    #[test]
    fn a_group_is_a_name_or_a_number() {
        let groups = "root:x:0:\ndisk:x:6:a,b\n12:x:7:\nodd\nworse:x\nworst:x:y:\n";
        let names = ["root", "disk", "12", "13", "dis", "odd", "worse", "worst", "", "x", "4294967295", "-1"];
        let numbers = names.map(|name| number_in(groups, name));
        let expected = [Some(0), Some(6), Some(7), Some(13)];
        assert_eq!((&numbers[..4], &numbers[4..]), (&expected[..], &[None; 8][..]));
    }
}
