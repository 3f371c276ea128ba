//! One HTTP/2 connection to a Unix socket.

use std::path::Path;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// How a connection is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) authority: &'a str,
    /// Bytes of one answer that the provider may send before they are read; none: as tonic has it.
    pub(crate) window: Option<u32>,
}

impl Default for Manner<'_> {
    /// As the controller does.
    fn default() -> Self {
        Self {
            authority: "localhost",
            window: None,
        }
    }
}

/// Connects once: a channel whose connection was lost fails, and does not make another one.
pub(crate) async fn dial(socket: &Path, manner: Manner<'_>) -> Result<Channel, String> {
    let Manner { authority, window } = manner;
    let at = socket.display();
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|error| format!("cannot connect to {at}: {error}"))?;
    let mut stream = Some(TokioIo::new(stream));
    let once = service_fn(move |_: Uri| {
        let stream = stream.take();
        std::future::ready(stream.ok_or_else(|| std::io::Error::other("the connection was lost")))
    });
    let uri: Uri = format!("http://{authority}")
        .parse()
        .map_err(|error| format!("{authority:?} is no authority: {error}"))?;
    Endpoint::from(uri)
        .initial_stream_window_size(window)
        .connect_with_connector(once)
        .await
        .map_err(|error| format!("{at} does not speak gRPC: {}", with_sources(&error)))
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
