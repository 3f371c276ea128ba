//! Bytes to and from the provider.

use std::{fmt, io, pin::Pin};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
};

use super::Endpoint;

/// A connected stream of bytes.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// A stream on its way.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// Makes connections to the provider: an [`Endpoint`], or in tests one end of a pipe.
pub trait Connect: fmt::Display + Send + Sync + 'static {
    /// Makes one. The text of `Display` says where to, for people.
    fn connect(&self) -> Connecting;
}

impl Connect for Endpoint {
    fn connect(&self) -> Connecting {
        let path = self.path().to_owned();
        Box::pin(async move {
            let stream = UnixStream::connect(path).await?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}
