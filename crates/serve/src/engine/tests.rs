//! Tests of each component of the engine by itself.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use ioweir_core::{Dispatch, Nanos, Operation, Priority, Reason, StreamId};
use rustix::event::epoll;

use super::accounts::{Accounts, Answered};
use super::admission::{Admission, Members, SubRequest, WaitCause};
use super::dispatch::{Completed, Dispatcher};
use super::sessions::{Client, Event, Query, Sessions};
use crate::backend::{Action, Backend, Done, FastTier, Io, Outcome};
use crate::buffer::{Buffer, Pool};
use crate::nbd::{Agreed, Contexts, Export, NbdError, Replies};
use crate::spec::{Device, Spec};
use crate::stream::Poller;

fn device(keys: &str) -> Device {
    let text = format!(
        "[[device]]\nname = \"d\"\nbackend = \"null\"\nsize = \"1MiB\"\n{keys}\n[[export]]\nname = \"a\"\ndevice = \"d\"\n"
    );
    Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}")).device.remove(0)
}

fn sub_request(connection: u32, action: Action, offset: u64, length: u32) -> SubRequest {
    let buffer = (action == Action::Write).then(|| Buffer::with_capacity(length as usize));
    let (request, arrived, tag, dispatched) = (connection, Nanos::ZERO, None, None);
    SubRequest {
        number: 0,
        request,
        connection,
        class: 0,
        action,
        scheduled: action.operation(),
        fua: false,
        offset,
        length,
        arrived,
        tag,
        dispatched,
        buffer,
    }
}

fn never_cut(_: &mut SubRequest, _: u64) -> SubRequest {
    panic!("it lies on one device")
}

struct Session {
    sessions: Sessions,
    client: UnixStream,
}

impl Session {
    fn new(keys: &str) -> Self {
        let export = Export {
            name: "a".into(),
            offset_bytes: 0,
            description: String::new(),
            size_bytes: 1 << 30,
            read_only: false,
            block_bytes_min: 1,
            block_bytes_preferred: 4096,
            trims: true,
        };
        let poller = Poller::new().expect("descriptors");
        let device = device(keys);
        let pool = Pool::new(device.request_bytes_max.0 as usize);
        let mut sessions = Sessions::new(Arc::new([export]), &device, pool, poller);
        let (ours, theirs) = UnixStream::pair().expect("descriptors");
        theirs.set_nonblocking(true).expect("a socket");
        ours.set_nonblocking(true).expect("a socket");
        let agreed = Agreed { export: 0, replies: Replies::Simple, contexts: Contexts::NONE };
        sessions.connect(Client {
            input: OwnedFd::from(theirs).into(),
            output: None,
            session: None,
            rings: None,
            agreed,
            class: StreamId(0),
            number: 1,
            peer: <_>::default(),
            identity: <_>::default(),
            leftover: Vec::new(),
            unsent: Vec::new(),
            permit: None,
        });
        Self { sessions, client: ours }
    }

    fn send(&mut self, command: u16, cookie: u64, offset: u64, length: u32) {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(0_u16.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        self.client.write_all(&bytes).expect("room in the socket");
        self.sessions.serve_socket(0, epoll::EventFlags::IN);
    }

    fn arrived(&mut self) -> Vec<SubRequest> {
        let events = std::iter::from_fn(|| self.sessions.next_event());
        events
            .filter_map(|event| if let Event::Arrived(sub_request) = event { Some(sub_request) } else { None })
            .collect()
    }
}

#[test]
fn split_reads_are_answered_once_they_are_complete() {
    let mut session = Session::new("request_bytes_max = \"64KiB\"");
    session.send(0, 7, 60 << 10, 8 << 10);
    let mut pieces = session.arrived();
    let extents: Vec<_> = pieces.iter().map(|piece| (piece.offset, piece.length)).collect();
    assert_eq!(extents, [(60 << 10, 4 << 10), (64 << 10, 4 << 10)]);
    // The second one completes first.
    for (mut piece, byte) in pieces.drain(..).rev().zip([2, 1]) {
        assert_eq!(session.sessions.requests(), 1);
        let mut buffer = session.sessions.pool().take(piece.length as usize);
        buffer.bytes_mut().fill(byte);
        piece.buffer = Some(buffer);
        session.sessions.finish(piece, Ok(Outcome::Plain));
        session.sessions.send_all();
    }
    let mut reply = Vec::new();
    let _ = session.client.read_to_end(&mut reply);
    assert_eq!(reply[8..16], 7_u64.to_be_bytes());
    assert_eq!(reply[16..], [[1; 4 << 10], [2; 4 << 10]].concat());
    assert!(matches!(session.sessions.next_event(), Some(Event::Answered(Answered { result: Ok(8192), .. }))));
    assert_eq!((session.sessions.requests(), session.sessions.buffered_bytes()), (0, 0));
}

#[test]
fn clients_without_room_continue_when_data_has_left() {
    let mut session = Session::new("buffer_bytes_max = \"192MiB\"");
    for cookie in 0..4 {
        session.send(0, cookie, 0, 32 << 20);
    }
    let mut arrived = session.arrived();
    let before = arrived.len();
    assert!(session.sessions.requests() < 4, "half of the memory is for others");
    for piece in arrived.drain(..) {
        session.sessions.finish(piece, Err(NbdError::InputOutput));
    }
    session.sessions.resume_decoding();
    assert!(!session.arrived().is_empty() && before > 0);
}

#[test]
fn broken_clients_close_after_their_requests_are_withdrawn() {
    let mut session = Session::new("");
    session.send(0, 1, 0, 4096);
    let piece = session.arrived().remove(0);
    session.sessions.hang_up_all();
    assert!(matches!(session.sessions.next_event(), Some(Event::Gone(0))));
    session.sessions.send_all();
    assert_eq!(session.sessions.connections(), 1);
    session.sessions.finish(piece, Err(NbdError::ShuttingDown));
    session.sessions.send_all();
    assert_eq!((session.sessions.connections(), session.sessions.buffered_bytes()), (0, 0));
    assert!(session.sessions.next_event().is_none(), "an unanswered request is not counted");
}

#[test]
fn refused_requests_are_held_back_in_order() {
    let (mut admission, mut accounts) =
        (Admission::new(&device("queue_requests = 1"), FastTier::default(), vec![Priority::NONE]), Accounts::default());
    for connection in 0..3 {
        let sub_request = sub_request(connection, Action::Read, u64::from(connection) << 20, 4096);
        admission.arrive(Nanos(1), sub_request, &mut never_cut);
    }
    let state = admission.classes(Nanos(5), 1)[0];
    assert_eq!((state.queued, state.queued_bytes), (3, 3 * 4096));
    assert_eq!(state.oldest, Some((Nanos(5), WaitCause::Counted(Reason::DeviceFull))));
    let mut served = Vec::new();
    for now in (10..).step_by(10).map(Nanos).take(3) {
        let (dispatch, members) = admission.poll(now, &mut accounts).expect("one is queued");
        let Members::One(sub_request) = members else { panic!("nothing is merged") };
        accounts.completed(now, &sub_request, Nanos(3));
        served.push(sub_request.connection);
        assert!(admission.poll(now, &mut accounts).is_none());
        admission.complete(now, &dispatch);
        admission.retry(now, &mut never_cut);
    }
    assert_eq!(served, [0, 1, 2]);
    admission.driver().settle_all(Nanos(30));
    let counters = accounts.exchange(Box::default(), admission.driver());
    let counts = &counters.get(0).expect("a class without a client").counts;
    assert_eq!(counts.layer_nanos(), [0, 10 + 20 + 30, 0], "a worker has nothing longer than the device");
    let waits = counts.wait_nanos;
    assert_eq!(waits[Reason::QueueFull as usize], 2 * 9 + 10);
    assert_eq!(waits.iter().sum::<u64>(), 9 + 19 + 29);
}

#[test]
fn only_the_broken_clients_requests_are_withdrawn() {
    let mut admission = Admission::new(&device("queue_requests = 2"), FastTier::default(), vec![Priority::NONE]);
    for number in 0..6 {
        let sub_request = sub_request(number % 2, Action::Write, u64::from(number) << 20, 4096);
        admission.arrive(Nanos::ZERO, sub_request, &mut never_cut);
    }
    let withdrawn = admission.withdraw(Nanos::ZERO, 1);
    assert_eq!(withdrawn.iter().map(|sub_request| sub_request.offset >> 20).collect::<Vec<_>>(), [1, 3, 5]);
    let state = admission.classes(Nanos::ZERO, 1)[0];
    assert_eq!((state.queued, state.queued_bytes), (3, 3 * 4096));
}

/// A backend that completes operations as a test says.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<(VecDeque<Io>, Vec<Done>)>>);

impl Script {
    fn started(&self) -> usize {
        self.0.lock().expect("no test has panicked").0.len()
    }

    fn finish_first(&self) {
        let mut script = self.0.lock().expect("no test has panicked");
        let Io { id, buffers, .. } = script.0.pop_front().expect("one was started");
        script.1.push(Done::new(id, buffers, Ok(Outcome::Plain)));
    }
}

impl Backend for Script {
    fn start(&mut self, _now: Nanos, io: Io) {
        self.0.lock().expect("no test has panicked").0.push_back(io);
    }

    fn collect(&mut self, _now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        done.append(&mut self.0.lock().expect("no test has panicked").1);
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        1 << 30
    }

    fn describe(&self) -> String {
        "script".into()
    }
}

fn dispatch(operation: Operation, sector: u64, sectors: u32) -> Dispatch {
    let request =
        ioweir_core::Request { operation, flags: ioweir_core::Flags::NONE, stream: StreamId(0), sector, sectors };
    Dispatch::alone(&request)
}

#[test]
fn only_reads_overlap_within_the_backend() {
    let script = Script::default();
    let (mut dispatcher, mut pool) = (Dispatcher::new(Box::new(script.clone())), Pool::new(1 << 20));
    let mut begin = |dispatcher: &mut Dispatcher, operation, action, offset: u64| {
        let members = Members::One(sub_request(0, action, offset, 512));
        dispatcher.begin(Nanos::ZERO, dispatch(operation, offset / 512, 1), members, &mut pool);
    };
    begin(&mut dispatcher, Operation::Read, Action::Read, 0);
    begin(&mut dispatcher, Operation::Read, Action::Read, 0);
    assert_eq!(script.started(), 2);
    // Requests at byte 3584 lie in the same block of 4 KiB as the reads and are deferred; the write at 4096 begins at once.
    begin(&mut dispatcher, Operation::Write, Action::Write, 3584);
    begin(&mut dispatcher, Operation::Read, Action::Read, 3584);
    begin(&mut dispatcher, Operation::Write, Action::Write, 4096);
    assert_eq!((script.started(), dispatcher.in_flight()), (3, 5));
    let mut pool = Pool::new(1 << 20);
    for expected in [2, 2, 1, 1] {
        script.finish_first();
        assert!(dispatcher.collect(Nanos::ZERO).expect("it works"));
        dispatcher.begin_deferred(Nanos::ZERO, &mut pool);
        assert_eq!(script.started(), expected);
    }
}

#[test]
fn merged_requests_with_gaps_are_several_operations() {
    let script = Script::default();
    let (mut dispatcher, mut pool) = (Dispatcher::new(Box::new(script.clone())), Pool::new(1 << 20));
    let members = [(1024, 512), (0, 512), (512, 100)];
    let members = members.map(|(offset, length)| sub_request(0, Action::Write, offset, length)).into();
    dispatcher.begin(Nanos::ZERO, dispatch(Operation::Write, 0, 3), Members::Many(members), &mut pool);
    dispatcher.query(Nanos::ZERO, Query { service: 9, offset: 0, length: 1 });
    assert!(dispatcher.submit().expect("it works") && script.started() == 3);
    let mut completed = Vec::new();
    while script.started() > 0 {
        script.finish_first();
        dispatcher.collect(Nanos::ZERO).expect("it works");
        completed.extend(std::iter::from_fn(|| dispatcher.next_completed()).map(|completed| match completed {
            Completed::SubRequest(sub_request, Ok(Outcome::Plain), _) if sub_request.buffer.is_some() => "part",
            Completed::Dispatch(_) => "dispatch",
            Completed::Query(9, Ok(_)) => "query",
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(completed, ["part", "part", "part", "dispatch", "query"]);
}
