//! One HTTP/2 connection to a Unix socket.

use std::{
    io,
    net::Shutdown,
    os::{fd::AsFd as _, unix},
    path::Path,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// The authority of the controller's connections.
pub(crate) const AUTHORITY: &str = "localhost";

/// The socket below a connection.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: unix::net::UnixStream,
}

impl Wire {
    pub(crate) fn cut(&self) {
        // A connection that has ended already needs no cut.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Connects once: a channel whose connection was lost fails, and does not make another one.
pub(crate) async fn dial(socket: &Path, authority: &str) -> Result<(Channel, Wire), String> {
    let at = socket.display();
    let refused = |error: io::Error| format!("cannot connect to {at}: {error}");
    let stream = UnixStream::connect(socket).await.map_err(refused)?;
    let socket = stream.as_fd().try_clone_to_owned().map_err(refused)?;
    let mut stream = Some(TokioIo::new(stream));
    let once = service_fn(move |_: Uri| {
        let stream = stream.take();
        std::future::ready(stream.ok_or_else(|| io::Error::other("the connection was lost")))
    });
    let uri: Uri = format!("http://{authority}")
        .parse()
        .map_err(|error| format!("{authority:?} is no authority: {error}"))?;
    let channel = Endpoint::from(uri)
        .connect_with_connector(once)
        .await
        .map_err(|error| format!("{at} does not speak gRPC: {}", with_sources(&error)))?;
    let wire = Wire {
        socket: socket.into(),
    };
    Ok((channel, wire))
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
mod tests {
    use std::time::Duration;

    use tokio::{io::AsyncReadExt as _, net::UnixListener, time::timeout};

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_cut_is_the_end_of_the_connection_though_its_channel_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("provider.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let dialed = dial(&path, AUTHORITY);
        let (dialed, accepted) = tokio::join!(dialed, listener.accept());
        let ((channel, wire), (mut provider, _)) = (dialed.unwrap(), accepted.unwrap());
        let mut preface = [0; 3];
        provider.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI");
        wire.cut();
        let mut rest = Vec::new();
        let ended = timeout(SOON, provider.read_to_end(&mut rest)).await;
        assert!(ended.is_ok_and(|read| read.is_ok()));
        drop(channel);
    }
}
