//! One HTTP/2 connection to a Unix socket.

use std::{
    io,
    net::Shutdown,
    os::{fd::AsFd as _, unix},
    path::Path,
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::UnixStream,
    task::JoinSet,
    time::sleep,
};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// How a connection is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) authority: &'a str,
    /// Bytes of one answer that the provider may send before they are read; none: as tonic has it.
    pub(crate) window: Option<u32>,
    /// All bytes of the provider arrive this much later.
    pub(crate) late: Duration,
}

impl Default for Manner<'_> {
    /// The manner of the controller.
    fn default() -> Self {
        Self {
            authority: "localhost",
            window: None,
            late: Duration::ZERO,
        }
    }
}

/// The socket below a connection.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: unix::net::UnixStream,
    _relay: JoinSet<()>,
}

impl Wire {
    pub(crate) fn cut(&self) {
        // A connection that has ended already needs no cut.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Connects once: a channel whose connection was lost fails, and does not make another one.
pub(crate) async fn dial(socket: &Path, manner: Manner<'_>) -> Result<(Channel, Wire), String> {
    let at = socket.display();
    let refused = |error: io::Error| format!("cannot connect to {at}: {error}");
    let stream = UnixStream::connect(socket).await.map_err(refused)?;
    let socket = stream.as_fd().try_clone_to_owned().map_err(refused)?;
    let mut relay = JoinSet::new();
    let stream = if manner.late.is_zero() {
        stream
    } else {
        let (suite, end) = UnixStream::pair().map_err(refused)?;
        relay.spawn(delayed(stream, end, manner.late));
        suite
    };
    let mut stream = Some(TokioIo::new(stream));
    let once = service_fn(move |_: Uri| {
        let stream = stream.take();
        std::future::ready(stream.ok_or_else(|| io::Error::other("the connection was lost")))
    });
    let authority = manner.authority;
    let uri: Uri = format!("http://{authority}")
        .parse()
        .map_err(|error| format!("{authority:?} is no authority: {error}"))?;
    let channel = Endpoint::from(uri)
        .initial_stream_window_size(manner.window)
        .connect_with_connector(once)
        .await
        .map_err(|error| format!("{at} does not speak gRPC: {}", with_sources(&error)))?;
    let wire = Wire {
        socket: socket.into(),
        _relay: relay,
    };
    Ok((channel, wire))
}

/// Passes bytes on until one side ends, those of the provider later.
async fn delayed(provider: UnixStream, suite: UnixStream, by: Duration) {
    let (mut from_provider, mut to_provider) = provider.into_split();
    let (mut from_suite, mut to_suite) = suite.into_split();
    let replies = async {
        let mut bytes = vec![0; 64 << 10];
        loop {
            let read = from_provider.read(&mut bytes).await?;
            sleep(by).await;
            to_suite.write_all(&bytes[..read]).await?;
            if read == 0 {
                return io::Result::Ok(());
            }
        }
    };
    tokio::select! {
        _ended = copy(&mut from_suite, &mut to_provider) => {}
        _ended = replies => {}
    }
}

/// An error with all that lies behind it: tonic's own texts say "transport error" and no more.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        text = format!("{text}: {next}");
        source = next.source();
    }
    text
}

#[cfg(test)]
mod tests;
