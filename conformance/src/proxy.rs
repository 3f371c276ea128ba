//! Stands between the suite and the provider, and breaks the connection on purpose.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use outrigger_provider_sdk::Endpoint;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::Notify,
    task::JoinSet,
    time::sleep,
};

mod frames;

use frames::{Frame, Frames};

/// A defect of the connection. It concerns calls that begin after it was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None.
    #[default]
    None,
    /// The provider serves the next call to its end; its reply is dropped and the connection cut.
    DropReply,
    /// The connection is cut this long after the next request has begun.
    Cut(Duration),
    /// All bytes from the provider arrive this much later.
    Delay(Duration),
}

/// A running proxy. Dropped, it closes all its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    folder: TempDir,
    fault: Arc<Mutex<Fault>>,
    dropped: Arc<Notify>,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// Listens on a socket of its own, in front of the provider's.
    pub(crate) fn start(provider: &Endpoint) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let listener = UnixListener::bind(folder.path().join("proxy.sock"))?;
        let (fault, dropped) = (Arc::default(), Arc::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(
            listener,
            provider.path().to_owned(),
            Arc::clone(&fault),
            Arc::clone(&dropped),
        ));
        Ok(Self {
            folder,
            fault,
            dropped,
            _serving: serving,
        })
    }

    /// Where the suite connects.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("proxy.sock")
    }

    /// Sets the defect of this and all further calls.
    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }

    /// Waits until a reply was dropped.
    pub(crate) async fn dropped(&self) {
        self.dropped.notified().await;
    }
}

async fn serve(
    listener: UnixListener,
    provider: PathBuf,
    fault: Arc<Mutex<Fault>>,
    dropped: Arc<Notify>,
) {
    let mut connections = JoinSet::new();
    while let Ok((suite, _)) = listener.accept().await {
        let (provider, fault, dropped) =
            (provider.clone(), Arc::clone(&fault), Arc::clone(&dropped));
        connections.spawn(async move {
            // Its end, for whatever reason, is the end of both streams: the fault, or an end of one.
            let _ = connection(suite, &provider, &fault, &dropped).await;
        });
    }
}

async fn connection(
    suite: UnixStream,
    provider: &Path,
    fault: &Mutex<Fault>,
    dropped: &Notify,
) -> io::Result<()> {
    let provider = UnixStream::connect(provider).await?;
    let (from_suite, to_suite) = suite.into_split();
    let (from_provider, to_provider) = provider.into_split();
    tokio::select! {
        ended = requests(from_suite, to_provider, fault) => ended,
        ended = replies(from_provider, to_suite, fault, dropped) => ended,
    }
}

async fn requests(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    fault: &Mutex<Fault>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    let mut frames = Frames::of_client();
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&bytes[..read]).await?;
        let begun = frames.read(&bytes[..read]).any(Frame::is_headers);
        let now = *fault.lock();
        if let Fault::Cut(after) = now
            && begun
        {
            sleep(after).await;
            return Ok(());
        }
    }
}

async fn replies(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    fault: &Mutex<Fault>,
    dropped: &Notify,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    let mut frames = Frames::of_server();
    let mut withheld = false;
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let now = *fault.lock();
        let mut ended = false;
        for frame in frames.read(&bytes[..read]) {
            withheld |= now == Fault::DropReply && frame.is_headers();
            ended |= withheld && frame.ends_stream();
        }
        if ended {
            dropped.notify_one();
            return Ok(());
        }
        if let Fault::Delay(by) = now {
            sleep(by).await;
        }
        if !withheld {
            to.write_all(&bytes[..read]).await?;
        }
    }
}

#[cfg(test)]
mod tests;
