//! The thread that speaks HTTP, and what the first rank's loop holds of it.

use super::{
    Keys,
    connection::{self, Phase},
    routes::{self, Shared},
};
use crate::{Limits, Served, engine::Desk, metrics::Metrics};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, mpsc},
    thread::JoinHandle,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};
use train::Stop;

/// Threads that read bodies: a long prompt takes a while to become tokens.
const READERS: usize = 2;

/// The server as the first rank holds it. Dropping it ends the thread, after a moment for what is on its way to clients.
pub struct Front {
    address: SocketAddr,
    // Dropped first, so that nobody waits for tokens while the thread ends.
    pub(crate) desk: Desk,
    _thread: Thread,
}

impl Front {
    /// Serves at this listener until `stop` is asked, and then until the requests have ended, or the grace.
    ///
    /// # Errors
    /// If the system grants no thread or refuses the listener.
    pub fn open(
        listener: TcpListener,
        served: Served,
        keys: Keys,
        (limits, stop): (Limits, Arc<Stop>),
    ) -> io::Result<Front> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (phase, phases) = watch::channel(Phase::Open);
        let (jobs, taken) = mpsc::channel();
        let metrics = Arc::new(Metrics::default());
        let shared = Shared::new(
            (served, keys, limits.clone()),
            (jobs, metrics.clone(), phases.clone()),
        );
        let phase = Arc::new(phase);
        let grace = (stop, limits.grace);
        let closing = phase.clone();
        let close = move || {
            closing.send_replace(Phase::Closing);
        };
        let desk = Desk::new(taken, metrics.clone(), grace, close);
        let serve = move || speak(runtime, listener, shared, (limits, metrics), phases);
        let thread = std::thread::Builder::new()
            .name("http".into())
            .spawn(serve)?;
        Ok(Front {
            address,
            desk,
            _thread: Thread {
                phase,
                thread: Some(thread),
            },
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Front({})", self.address)
    }
}

// Ends with the phase.
struct Thread {
    phase: Arc<watch::Sender<Phase>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Over);
        // A thread that has panicked has reported it.
        self.thread.take().map(JoinHandle::join);
    }
}

fn speak(
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    shared: Shared,
    (limits, metrics): (Limits, Arc<Metrics>),
    phases: watch::Receiver<Phase>,
) {
    let router = routes::router(shared);
    runtime.block_on(connection::serve(
        listener,
        router,
        (&limits, &metrics),
        phases,
    ));
    // Nobody waits for a prompt that is still being read.
    runtime.shutdown_background();
}
