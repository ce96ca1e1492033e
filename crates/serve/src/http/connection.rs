//! Connections: as many as are granted, and none that a client holds without reading or writing.

use crate::{Limits, metrics::Metrics, protocol::Refusal};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use std::{
    io::{Error, ErrorKind, IoSlice},
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, Sleep, sleep, sleep_until},
};

/// Whether the server takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It does.
    Open,
    /// Those that it has may end.
    Closing,
    /// The last token was generated.
    Over,
}

/// The time in which the last answers have to reach their clients.
const LAST: Duration = Duration::from_secs(2);
/// The time after which the system is asked again for a connection that it had no room for.
const RETRY: Duration = Duration::from_millis(50);
/// Serves connections until the phase is over.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    (limits, metrics): (&Limits, &Arc<Metrics>),
    mut phase: watch::Receiver<Phase>,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase > Phase::Open) => break,
        };
        let Ok((stream, _)) = accepted else {
            sleep(RETRY).await;
            continue;
        };
        if metrics.connections.load(Relaxed) >= limits.connections {
            metrics.answered(503);
            // What does not fit into the empty buffer of a new connection is not worth waiting for.
            let _ = stream.try_write(full().as_bytes());
            continue;
        }
        // Tokens are small and leave one by one.
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(Patient::new(stream, limits.client));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.client)
            .serve_connection(io, TowerToHyperService::new(router.clone()));
        let (connection, counted) = (graceful.watch(connection), Counted::new(metrics));
        tokio::spawn(async move {
            // A connection that breaks concerns its client alone.
            let _ = connection.await;
            drop(counted);
        });
    }
    drop(listener);
    let last = async {
        // Without a sender, nobody generates tokens any more.
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
        sleep(LAST).await;
    };
    tokio::select! {
        () = graceful.shutdown() => {}
        () = last => {}
    }
}

// The answer to a connection too many.
fn full() -> String {
    let refusal = Refusal::new(503, "the server has as many connections as it may");
    let body = refusal.code("too_many_connections").json().to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// One connection among those that are open.
struct Counted(Arc<Metrics>);

impl Counted {
    fn new(metrics: &Arc<Metrics>) -> Counted {
        metrics.connections.fetch_add(1, Relaxed);
        Counted(metrics.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// A connection that fails once its client has not read for a while.
struct Patient {
    stream: TcpStream,
    limit: Duration,
    // When a write that waits fails.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, limit: Duration) -> Patient {
        Patient {
            stream,
            limit,
            timer: None,
        }
    }

    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<Result<T, Error>>,
    ) -> Poll<Result<T, Error>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            self.timer = None;
            return Poll::Ready(written);
        }
        let end = Instant::now() + self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Error>> {
        self.within(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        self.within(context, |stream, context| {
            stream.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[test]
    fn a_client_that_does_not_read_is_left() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let error = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            // Nobody reads what is sent to it.
            let _client = std::net::TcpStream::connect(address).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = Patient::new(stream, Duration::from_millis(50));
            let bytes = vec![0; 1 << 20];
            loop {
                let write =
                    |context: &mut Context<'_>| Pin::new(&mut stream).poll_write(context, &bytes);
                if let Err(error) = poll_fn(write).await {
                    return error;
                }
            }
        });
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
