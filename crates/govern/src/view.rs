//! The HTTP server that shows a governor on this machine: a page, its status as JSON, metrics, and whether it is well.
//!
//! The loop publishes texts; the thread that answers looks at nothing else.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::Html;
use axum::routing::get;
use ioweir_block::thread::OwnedThread;
use ioweir_core::Nanos;
use tokio::sync::oneshot;

use super::status::Status;
use ioweir_serve::front::Listener;
use ioweir_serve::spec::Listen;
use ioweir_serve::watch::http::Socket;
use ioweir_serve::watch::metrics::CONTENT_TYPE;

/// How often the shown texts are renewed.
const RENEW: Nanos = Nanos::from_seconds(5);
/// A browser loads the page again after as many seconds.
const REFRESH: &str = "10";

/// The texts that are shown.
#[derive(Clone, Debug, Default)]
struct Shown {
    page: String,
    state: String,
    metrics: String,
    troubles: String,
}

/// A thread that answers. It ends when this is dropped.
#[derive(Debug)]
pub struct View {
    shown: Arc<Mutex<Shown>>,
    at: Option<Nanos>,
    name: String,
    /// Dropped first, which ends the thread.
    _end: oneshot::Sender<()>,
    _thread: OwnedThread,
}

fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    // Texts are replaced whole.
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

impl View {
    /// Listens at a place, which other machines cannot reach.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn start(place: &Listen) -> Result<Self, String> {
        let listener = Listener::bind_private(place)?;
        if listener.is_open_to_others() {
            return Err(format!("{place}: other machines could connect\n  expected: unix:PATH, or tcp:127.0.0.1:PORT"));
        }
        let name = listener.name().to_owned();
        let failed = |error: io::Error| format!("{place}: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let entered = runtime.enter();
        let socket = Socket::new(&listener).map_err(failed)?;
        drop(entered);
        let shown = Arc::new(Mutex::new(Shown::default()));
        let routes = routes(&shown);
        let (end, ended) = oneshot::channel::<()>();
        let work = move || {
            // Dropping the listener at the end removes its file.
            let _listener = listener;
            runtime.block_on(async {
                tokio::spawn(socket.serve(routes));
                // Dropping the sender ends the wait, too.
                let _ = ended.await;
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        };
        let thread = OwnedThread::start("ioweir-view", work).map_err(failed)?;
        Ok(Self { shown, at: None, name, _end: end, _thread: thread })
    }

    /// The address where the page is, as a text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shows the texts that `make` gives, unless the shown ones are fresh.
    pub fn show(&mut self, steady: Nanos, make: impl FnOnce() -> (Status, String)) {
        if self.at.is_some_and(|at| steady.since(at) < RENEW) {
            return;
        }
        self.at = Some(steady);
        let (status, page) = make();
        // JSON can write all of a status: strings, numbers, lists and tables.
        let state = serde_json::to_string(&status).unwrap_or_default();
        *lock(&self.shown) = Shown { page, state, metrics: status.metrics(), troubles: status.troubles() };
    }
}

fn routes(shown: &Arc<Mutex<Shown>>) -> Router {
    let [page, state, metrics, health] = std::array::from_fn(|_| Arc::clone(shown));
    let typed = |kind: &'static str, text: String| ([(header::CONTENT_TYPE, kind)], text);
    Router::new()
        .route(
            "/",
            get(|| async move { ([(HeaderName::from_static("refresh"), REFRESH)], Html(lock(&page).page.clone())) }),
        )
        .route("/state", get(move || async move { typed("application/json", lock(&state).state.clone()) }))
        .route("/metrics", get(move || async move { typed(CONTENT_TYPE, lock(&metrics).metrics.clone()) }))
        .route(
            "/health",
            get(|| async move {
                match lock(&health).troubles.clone() {
                    none if none.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
                    troubles => (StatusCode::SERVICE_UNAVAILABLE, troubles),
                }
            }),
        )
}
