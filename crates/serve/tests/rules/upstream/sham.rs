//! A sham upstream for tests, over a unix socket: the test sets its features, its answers and its death.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use ioweir_serve::backend::Media;
use ioweir_serve::nbd::protocol::{
    EXPORT_CAN_MULTI_CONN, EXPORT_HAS_FLAGS, EXPORT_SEND_FLUSH, EXPORT_SEND_FUA, EXPORT_SEND_TRIM,
    EXPORT_SEND_WRITE_ZEROES,
};

/// The size of its export.
pub(crate) const SIZE: u64 = 32 << 20;
/// All features.
pub(crate) const ALL: u16 = EXPORT_HAS_FLAGS
    | EXPORT_SEND_FLUSH
    | EXPORT_SEND_FUA
    | EXPORT_SEND_TRIM
    | EXPORT_SEND_WRITE_ZEROES
    | EXPORT_CAN_MULTI_CONN;

/// The behaviour of the sham server at present.
pub(crate) struct Manner {
    pub(crate) flags: u16,
    pub(crate) size: u64,
    pub(crate) block_min: u32,
    /// Commands that the server does not answer while they are listed here.
    pub(crate) held: Vec<u16>,
    /// How many more reads are answered; all if absent.
    pub(crate) reads_left: Option<u64>,
    /// Reads that were answered.
    pub(crate) reads: u64,
    /// Commands that are answered with this error.
    pub(crate) fails: Vec<(u16, u32)>,
    /// The next answers to reads are these bytes in place of an answer.
    pub(crate) nonsense: Option<Vec<u8>>,
    /// Everything that was asked: command, flags, offset, length.
    pub(crate) asked: Vec<(u16, u16, u64, u32)>,
    connections: Vec<UnixStream>,
    agreed: usize,
    is_there: bool,
}

impl Manner {
    /// Connections that have agreed on the export and are open.
    pub(crate) const fn live(&self) -> usize {
        self.agreed
    }
}

/// The upstream.
pub(crate) struct Sham {
    pub(crate) path: PathBuf,
    pub(crate) media: Media,
    shared: Arc<(Mutex<Manner>, Condvar)>,
}

impl Sham {
    pub(crate) fn new(folder: &Path) -> Self {
        Self::like(folder, ALL)
    }

    /// A server with these transmission flags.
    pub(crate) fn like(folder: &Path, flags: u16) -> Self {
        let manner = Manner {
            flags,
            size: SIZE,
            block_min: 1,
            held: Vec::new(),
            reads_left: None,
            reads: 0,
            fails: Vec::new(),
            nonsense: None,
            asked: Vec::new(),
            connections: Vec::new(),
            agreed: 0,
            is_there: false,
        };
        let shared = Arc::new((Mutex::new(manner), Condvar::new()));
        let sham = Self { path: folder.join("upstream"), media: Media::new(SIZE), shared };
        sham.revive();
        sham
    }

    /// The keys of a device on the sham's export.
    pub(crate) fn keys(&self, more: &str) -> String {
        format!("backend = \"nbd\"\naddress = \"unix:{}\"\nexport = \"a\"\n{more}\n", self.path.display())
    }

    pub(crate) fn manner(&self) -> MutexGuard<'_, Manner> {
        self.shared.0.lock().unwrap()
    }

    /// Changes the behaviour, and lets the server reconsider unanswered requests.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut self.manner());
        self.shared.1.notify_all();
    }

    /// Lets the server answer this many more reads, and waits until it has.
    pub(crate) fn answer(&self, reads: u64) {
        let mut manner = self.manner();
        let goal = manner.reads + reads;
        manner.reads_left = Some(reads);
        self.shared.1.notify_all();
        while manner.reads < goal {
            manner = self.shared.1.wait(manner).unwrap();
        }
    }

    /// The server dies with all its connections, and if it `loses`, with all data that is not durable.
    pub(crate) fn die(&self, loses: bool) {
        self.set(|manner| {
            manner.is_there = false;
            for connection in manner.connections.drain(..) {
                let _ = connection.shutdown(std::net::Shutdown::Both);
            }
        });
        let _ = std::fs::remove_file(&self.path);
        if loses {
            self.media.cut(|| false);
            self.media.restore();
        }
    }

    /// The connection of this number breaks.
    pub(crate) fn break_one(&self, number: usize) {
        self.set(|manner| {
            let _ = manner.connections.remove(number).shutdown(std::net::Shutdown::Both);
        });
    }

    /// The server listens again.
    pub(crate) fn revive(&self) {
        let listener = UnixListener::bind(&self.path).unwrap();
        self.set(|manner| manner.is_there = true);
        let (shared, media) = (Arc::clone(&self.shared), self.media.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(socket) = socket else { return };
                let mut manner = shared.0.lock().unwrap();
                if !manner.is_there {
                    return;
                }
                manner.connections.push(socket.try_clone().unwrap());
                drop(manner);
                let (shared, media) = (Arc::clone(&shared), media.clone());
                std::thread::spawn(move || {
                    // Errors of a connection end it, and need no report.
                    let mut has_agreed = false;
                    let _ = serve(socket, &shared, &media, &mut has_agreed);
                    if has_agreed {
                        shared.0.lock().unwrap().agreed -= 1;
                    }
                });
            }
        });
    }
}

impl Drop for Sham {
    fn drop(&mut self) {
        self.die(false);
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    bytes.extend([option.to_be_bytes(), kind.to_be_bytes(), (data.len() as u32).to_be_bytes()].concat());
    bytes.extend(data);
    bytes
}

/// Agrees with a client on the export.
fn agree(socket: &mut UnixStream, shared: &Mutex<Manner>) -> std::io::Result<()> {
    socket.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    let mut flags = [0; 4];
    socket.read_exact(&mut flags)?;
    loop {
        let mut head = [0; 16];
        socket.read_exact(&mut head)?;
        let (option, length) = (number(&head[8..12]) as u32, number(&head[12..]) as usize);
        let mut data = vec![0; length];
        socket.read_exact(&mut data)?;
        if option != 7 {
            socket.write_all(&reply(option, 0x8000_0001, b""))?;
            continue;
        }
        let manner = shared.lock().unwrap();
        let (size, flags, min) = (manner.size, manner.flags, manner.block_min);
        drop(manner);
        socket.write_all(&reply(7, 3, &[&[0, 0][..], &size.to_be_bytes(), &flags.to_be_bytes()].concat()))?;
        let blocks = [min, min.max(4096), 1 << 20].map(u32::to_be_bytes).concat();
        socket.write_all(&reply(7, 3, &[&[0, 3][..], &blocks].concat()))?;
        socket.write_all(&reply(7, 1, b""))?;
        shared.lock().unwrap().agreed += 1;
        return Ok(());
    }
}

/// Serves one connection, with simple replies, in order.
fn serve(
    mut socket: UnixStream,
    shared: &(Mutex<Manner>, Condvar),
    media: &Media,
    has_agreed: &mut bool,
) -> std::io::Result<()> {
    agree(&mut socket, &shared.0)?;
    *has_agreed = true;
    loop {
        let mut head = [0; 28];
        socket.read_exact(&mut head)?;
        let (flags, command) = (number(&head[4..6]) as u16, number(&head[6..8]) as u16);
        let (offset, length) = (number(&head[16..24]), number(&head[24..]) as u32);
        let mut data = vec![0; length as usize];
        if command == 1 {
            socket.read_exact(&mut data)?;
        }
        if command == 2 {
            return Ok(());
        }
        let mut manner = shared.0.lock().unwrap();
        manner.asked.push((command, flags, offset, length));
        let waits = |manner: &Manner| manner.held.contains(&command) || command == 0 && manner.reads_left == Some(0);
        while waits(&manner) && manner.is_there {
            manner = shared.1.wait_timeout(manner, Duration::from_secs(60)).unwrap().0;
        }
        if !manner.is_there {
            return Ok(());
        }
        if command == 0 {
            manner.reads_left = manner.reads_left.map(|left| left - 1);
        }
        let error = manner.fails.iter().find(|(its, _)| *its == command).map_or(0, |(_, error)| *error);
        let nonsense = if command == 0 { manner.nonsense.take() } else { None };
        drop(manner);
        if let Some(nonsense) = nonsense {
            socket.write_all(&nonsense)?;
            continue;
        }
        let mut answer = [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &head[8..16]].concat();
        if error == 0 {
            match command {
                0 => {
                    media.read(offset, &mut data)?;
                    answer.extend(&data);
                }
                1 => media.write(offset, &data)?,
                3 => media.flush()?,
                4 | 6 => media.write(offset, &vec![0; length as usize])?,
                _ => {}
            }
            if flags & 1 != 0 {
                media.flush()?;
            }
        }
        socket.write_all(&answer)?;
        if command == 0 {
            shared.0.lock().unwrap().reads += 1;
            shared.1.notify_all();
        }
    }
}
