//! The watch over HTTP: the live page, the state and the metrics, read-only and for this machine only.
//!
//! A foreign page in a local browser could reach this server through a host name that resolves to this machine (DNS
//! rebinding), so requests under any name but the machine's own are refused.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener as AxumListener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::{Shared, metrics};
use crate::front::Listener;

/// The live page.
const PAGE: &str = include_str!("page.html");
/// The most connections. One more closes the one that was answered longest ago, so that a client which never finishes its request keeps no
/// other out.
const CONNECTIONS_MAX: usize = 32;
/// A connection that is silent for this long is closed.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The headers of every answer: no caching, no framing by other pages, no resources from elsewhere.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'"),
];

/// The socket that answers HTTP.
pub enum Socket {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over a unix socket.
    Unix(UnixListener),
}

impl Socket {
    /// Called within the runtime.
    pub fn new(listener: &Listener) -> io::Result<Self> {
        let socket = listener.duplicate()?;
        if listener.is_unix() {
            UnixListener::from_std(socket.into()).map(Self::Unix)
        } else {
            TcpListener::from_std(socket.into()).map(Self::Tcp)
        }
    }

    /// Answers by these routes, to this machine only.
    pub async fn serve(self, routes: Router) {
        let router = routes.layer(from_fn(guard));
        // This future ends with the runtime.
        let _ = axum::serve(Bounded { socket: self, origin: Instant::now(), connected: Vec::new() }, router).await;
    }
}

/// The routes of the server's watch.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/state", get(state))
        .route("/metrics", get(text))
        .route("/health", get(health))
        .with_state(shared)
}

async fn state(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    axum::Json(shared.state().await)
}

async fn text(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], shared.metrics().await)
}

/// The route for load balancers and probes: 200 and `ok`, or 503 and the problems.
async fn health(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    match shared.troubles().await {
        none if none.is_empty() => (StatusCode::OK, "ok\n".to_string()),
        troubles => (StatusCode::SERVICE_UNAVAILABLE, troubles),
    }
}

/// Refuses requests that do not name this machine by one of its own names, once.
async fn guard(request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    // A target with an authority names a host, too.
    let is_own_target = request.uri().authority().is_none_or(|authority| is_own(authority.as_str()));
    if !host.is_some_and(is_own) || hosts.next().is_some() || !is_own_target {
        let text = "only requests for localhost or a loopback address are answered\n";
        return (StatusCode::FORBIDDEN, HEADERS, text).into_response();
    }
    (HEADERS, next.run(request).await).into_response()
}

/// Whether a host, with or without a port, names the local machine on every machine.
fn is_own(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if let Some(address) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// Accepts connections, and closes others when there are too many.
struct Bounded {
    socket: Socket,
    origin: Instant,
    connected: Vec<Connected>,
}

/// A connection that may be closed. It ends by itself when this end of the channel is dropped.
struct Connected {
    end: oneshot::Sender<()>,
    /// The time of the last answer on the connection, in milliseconds since the origin.
    answered: Arc<AtomicU64>,
}

impl Bounded {
    fn admit(&mut self, stream: Stream) -> Connection {
        self.connected.retain(|other| !other.end.is_closed());
        if self.connected.len() >= CONNECTIONS_MAX {
            let answered = |other: &Connected| other.answered.load(Ordering::Relaxed);
            let longest = self.connected.iter().enumerate().min_by_key(|(_, other)| answered(other));
            if let Some((at, _)) = longest {
                // Dropping the sender closes the connection.
                self.connected.remove(at);
            }
        }
        let (end, ended) = oneshot::channel();
        let answered = Arc::new(AtomicU64::new(self.origin.elapsed().as_millis() as u64));
        self.connected.push(Connected { end, answered: Arc::clone(&answered) });
        let silence = Box::pin(tokio::time::sleep(SILENCE_MAX));
        Connection { stream, silence, ended, answered, origin: self.origin }
    }
}

impl AxumListener for Bounded {
    type Io = Connection;
    type Addr = ();

    async fn accept(&mut self) -> (Connection, ()) {
        loop {
            let stream = match &self.socket {
                Socket::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
                Socket::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
            };
            match stream {
                Ok(stream) => return (self.admit(stream), ()),
                // The client has left, or descriptors are short for a while.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that is closed when it is silent for too long.
struct Connection {
    stream: Stream,
    silence: Pin<Box<Sleep>>,
    /// Resolves when the sender is dropped.
    ended: oneshot::Receiver<()>,
    answered: Arc<AtomicU64>,
    origin: Instant,
}

impl Connection {
    /// The result of an attempt to read or write: the bytes moved, or continued silence.
    fn judge<T>(&mut self, context: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
            return moved;
        }
        let is_over = self.silence.as_mut().poll(context).is_ready();
        let is_unwanted = Pin::new(&mut self.ended).poll(context).is_ready();
        if is_over || is_unwanted { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let moved = match &mut this.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, into),
        };
        this.judge(context, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let moved = match &mut this.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        if moved.is_ready() {
            this.answered.store(this.origin.elapsed().as_millis() as u64, Ordering::Relaxed);
        }
        this.judge(context, moved)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for host in ["localhost", "LOCALHOST:9", "127.0.0.1", "127.8.9.1:10800", "[::1]", "[::1]:80"] {
            assert!(is_own(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "example.com:80",
            "10.0.0.1",
            "[fe80::1]",
            "127.0.0.1.x",
            "::1",
            "1",
        ] {
            assert!(!is_own(host), "{host}");
        }
    }
}
