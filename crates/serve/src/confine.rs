//! Confinement: once a server has its sockets, it gives up privileges that it does not need any more. It becomes another user, can open
//! only the files of its spec (Landlock), and can make only the system calls that it uses (seccomp), as far as the kernel supports that.
//!
//! All this applies to the process, is done before it has other threads, and cannot be undone. The log and the state say which kinds are in
//! effect.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ioweir_config::shown;
use landlock::{
    ABI, Access as _, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
};
use seccompiler::{SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};

use crate::durable::folder_of;
use crate::spec::{Backend, Device, Listen, Server, Spec};

/// The kinds of confinement that were asked for, one line each, with their state.
static STATUS: OnceLock<Vec<Confinement>> = OnceLock::new();

/// A kind of confinement, as the state shows it.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
pub struct Confinement {
    /// The kind: `user`, `files` or `calls`.
    pub what: String,
    /// Whether it is on.
    pub is_on: bool,
    /// An explanation of the state: what is confined, or why nothing is.
    pub words: String,
}

/// The confinement of this process.
#[must_use]
pub fn status() -> &'static [Confinement] {
    STATUS.get().map_or(&[], Vec::as_slice)
}

/// Gives up the privileges that the spec names, once the sockets exist.
///
/// # Errors
/// If the server cannot become the user; a kernel that cannot confine it is no error, and is reported.
pub(crate) fn confine(spec: &Spec) -> Result<&'static [Confinement], String> {
    let mut all = Vec::new();
    if let Some(user) = user_of(&spec.server)? {
        give_sockets(spec, &user)?;
        become_user(&user)?;
        let words = format!("runs as {} (uid {}, gid {})", shown(&user.name), user.uid, user.gid);
        all.push(Confinement { what: "user".into(), is_on: true, words });
    }
    if spec.server.confine {
        all.push(confine_files(spec));
        all.push(confine_calls());
    }
    // A second server in one process is confined as the first is.
    if all.is_empty() { Ok(status()) } else { Ok(STATUS.get_or_init(|| all)) }
}

/// A user of this machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct User {
    name: String,
    uid: u32,
    gid: u32,
    /// The groups that the user is a member of.
    groups: Vec<u32>,
}

/// The user that the server becomes.
///
/// # Errors
/// If there is no such user: the key, and what was expected.
pub(crate) fn user_of(server: &Server) -> Result<Option<User>, String> {
    let Some(name) = &server.user else { return Ok(None) };
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let user = find_user(name, &read("/etc/passwd"), &read("/etc/group"));
    let unknown = || {
        let expected = "a name in /etc/passwd, such as \"ioweir\", or a number";
        format!("server.user: there is no user `{}`\n  expected: {expected}", shown(name))
    };
    user.ok_or_else(unknown).map(Some)
}

fn find_user(name: &str, users: &str, groups: &str) -> Option<User> {
    let number = name.parse::<u32>().ok().filter(|number| *number != u32::MAX);
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let (its, uid, gid) = (fields.next()?, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        let is_meant = its == name || Some(uid) == number;
        (is_meant && !its.is_empty()).then(|| (its.to_string(), uid, gid))
    };
    let known = users.lines().find_map(of_line);
    // A user number without a name has the group of the same number.
    let (name, uid, gid) = known.or_else(|| number.map(|number| (number.to_string(), number, number)))?;
    let member_of = |line: &str| {
        let mut fields = line.split(':');
        let (number, members) = (fields.nth(2)?.parse::<u32>().ok()?, fields.next()?);
        members.split(',').any(|member| member == name).then_some(number)
    };
    let groups = groups.lines().filter_map(member_of).collect();
    Some(User { name, uid, gid, groups })
}

/// Makes the user the owner of the sockets of clients, as if it had made them.
fn give_sockets(spec: &Spec, user: &User) -> Result<(), String> {
    for place in spec.sockets_of_clients() {
        let Listen::Unix(path) = place else { continue };
        match lchown(path, Some(user.uid), None) {
            // A socket that systemd or the command line has given need not exist as a file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            given => given
                .map_err(|error| format!("server.user: {place} cannot be given to {}: {error}", shown(&user.name)))?,
        }
    }
    Ok(())
}

/// Becomes a user, for good.
#[allow(unsafe_code, reason = "the C library changes the user of all threads, which the kernel by itself does not")]
fn become_user(user: &User) -> Result<(), String> {
    let User { uid, gid, groups, .. } = user;
    let now = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if now == (*uid, *gid) {
        return Ok(());
    }
    let done = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the pointer refers to `groups.len()` numbers.
    let became = done(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })
        // SAFETY: it takes numbers alone.
        .and_then(|()| done(unsafe { libc::setresgid(*gid, *gid, *gid) }))
        // SAFETY: it takes numbers alone.
        .and_then(|()| done(unsafe { libc::setresuid(*uid, *uid, *uid) }));
    let name = shown(&user.name);
    became.map_err(|error| format!("server.user: cannot become {name}: {error}\n  expected: a server started as root"))
}

/// The paths of the spec, each with whether the server writes there.
fn paths_of(spec: &Spec) -> BTreeMap<PathBuf, bool> {
    let mut paths = BTreeMap::new();
    let mut add = |path: &Path, writes: bool| {
        let its = paths.entry(path.to_path_buf()).or_insert(false);
        *its |= writes;
    };
    let server = &spec.server;
    let files = server.tls.iter().flat_map(|tls| [Some(&tls.certificate), Some(&tls.key), tls.clients.as_ref()]);
    files.flatten().for_each(|file| add(folder_of(file), false));
    add(folder_of(Path::new(&spec.file)), false);
    for place in spec.sockets_of_clients().chain(&server.control).chain(&server.watch) {
        if let Listen::Unix(path) = place {
            add(folder_of(path), true);
        }
    }
    for (_, device) in spec.present_devices() {
        for path in device.paths() {
            // For a device, only the device itself; for a file its folder, which holds files that belong to it, and copies of it.
            let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
            add(if is_device { &path } else { folder_of(&path) }, true);
        }
        if let Some(folder) = device.snapshots.as_ref().and_then(|snapshots| snapshots.folder.as_ref()) {
            add(folder_of(folder), true);
        }
        let upstreams = device.backend.upstreams();
        upstreams.into_iter().flat_map(|upstream| upstream.paths()).for_each(|path| add(folder_of(&path), false));
        models_of(device).into_iter().for_each(|model| add(folder_of(&model), false));
    }
    if let Some(fleet) = &spec.fleet {
        // Certificates and passwords are read before the confinement; names of hosts are looked up at any time.
        for path in ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"] {
            add(Path::new(path), false);
        }
        let files = [&fleet.authorities, &fleet.certificate, &fleet.key, &fleet.password_file];
        files.into_iter().flatten().for_each(|file| add(folder_of(file), false));
    }
    for state in spec.service.values().filter_map(|service| service.state.as_ref()) {
        add(folder_of(state), true);
    }
    for path in ["/etc/group", "/etc/passwd", "/dev/null", "/sys", "/proc"] {
        add(Path::new(path), false);
    }
    paths
}

/// Model files of emulated devices.
fn models_of(device: &Device) -> Vec<PathBuf> {
    let of = |leaf: &Backend| if let Backend::Emulated { model, .. } = leaf { Some(model.into()) } else { None };
    device.backend.leaves().into_iter().filter_map(of).collect()
}

fn confine_files(spec: &Spec) -> Confinement {
    let what = "files".to_string();
    let (is_on, words) = match restrict_files(spec) {
        Ok(RulesetStatus::FullyEnforced) => (true, "no files but those of the spec and the folders they are in".into()),
        Ok(RulesetStatus::PartiallyEnforced) => {
            (true, "no files but those of the spec and the folders they are in, as far as this kernel can tell".into())
        }
        Ok(RulesetStatus::NotEnforced) => (false, "this kernel has no Landlock: every file of the user".into()),
        Err(problem) => (false, format!("Landlock cannot be used: {problem}: every file of the user")),
    };
    Confinement { what, is_on, words }
}

fn restrict_files(spec: &Spec) -> Result<RulesetStatus, landlock::RulesetError> {
    let abi = ABI::V5;
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(abi))?.create()?;
    for (path, writes) in paths_of(spec) {
        // A file that does not exist now can be opened later only if its folder exists, which has a rule of its own.
        let Ok(place) = PathFd::new(&path) else { continue };
        let all =
            if writes { AccessFs::from_all(abi) & !AccessFs::Execute } else { AccessFs::ReadFile | AccessFs::ReadDir };
        let access = if path.is_dir() { all } else { all & AccessFs::from_file(abi) };
        rules = rules.add_rule(PathBeneath::new(place, access))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// System calls that a server never makes: for programs, other processes, mounts, modules, the clock, other users, and ways around the rest
/// of the confinement.
const FORBIDDEN: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

fn confine_calls() -> Confinement {
    let what = "calls".to_string();
    let (is_on, words) = match restrict_calls() {
        Ok(()) => (true, format!("{} calls of the kernel are refused", FORBIDDEN.len())),
        Err(problem) => (false, format!("seccomp cannot be used: {problem}: every call of the kernel")),
    };
    Confinement { what, is_on, words }
}

fn restrict_calls() -> Result<(), String> {
    let rules = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(|error| error.to_string())?;
    let program: seccompiler::BpfProgram =
        filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
    apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_or_number() {
        let users = "root:x:0:0::/root:/bin/sh\nioweir:x:990:980::/:/bin/false\nbroken\n";
        let groups = "disk:x:6:ioweir,other\nioweir:x:980:\nkvm:x:7:other\nstorage:x:8:root,ioweir\n";
        let of = |name: &str| find_user(name, users, groups);
        let ioweir = || User { name: "ioweir".into(), uid: 990, gid: 980, groups: vec![6, 8] };
        assert_eq!((of("ioweir"), of("990")), (Some(ioweir()), Some(ioweir())));
        assert_eq!(of("54321"), Some(User { name: "54321".into(), uid: 54_321, gid: 54_321, groups: vec![] }));
        assert_eq!((of("nobody here"), of(""), of("4294967295"), of("-1")), (None, None, None, None));
    }
}
