//! A layer in front of a gRPC server at a Unix socket that keeps the answers of some calls.
//!
//! ```text
//!  controller ──► CallWay ──► provider
//! ```
//!
//! It passes HTTP/2 on and reads only the paths of calls.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http2::SendRequest,
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    task::JoinSet,
};

use crate::{Error, Result};

/// A running way. Ends, with all connections, when dropped.
#[derive(Debug)]
pub(crate) struct CallWay {
    held: watch::Receiver<bool>,
    _server: JoinSet<()>,
}

/// Says of each call, by its path, whether its answer is kept.
type Holds = dyn Fn(&str) -> bool + Send + Sync;

impl CallWay {
    /// Listens at `socket`. The server at `provider` carries out a call for which `holds` is true, and its caller waits for
    /// the answer as long as it likes.
    pub(crate) fn start(
        socket: &Path,
        provider: &Path,
        holds: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = UnixListener::bind(socket);
        let listener = listener.map_err(Error::io(format!("listen at {}", socket.display())))?;
        let (holding, held) = watch::channel(false);
        let mut server = JoinSet::new();
        server.spawn(accept(
            listener,
            provider.to_owned(),
            Arc::new(holds),
            holding,
        ));
        Ok(Self {
            held,
            _server: server,
        })
    }

    /// Returns once an answer is kept: what the call does is done.
    pub(crate) async fn held(&self) {
        let held = self.held.clone().wait_for(|held| *held).await.is_ok();
        if !held {
            // The way is gone, and keeps nothing.
            std::future::pending::<()>().await;
        }
    }
}

async fn accept(
    listener: UnixListener,
    provider: PathBuf,
    holds: Arc<Holds>,
    holding: watch::Sender<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let way = connection(stream, provider.clone(), Arc::clone(&holds), holding.clone());
                connections.spawn(way);
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// An error is a side that went away: the other one learns it from the end of its connection.
async fn connection(
    caller: UnixStream,
    provider: PathBuf,
    holds: Arc<Holds>,
    holding: watch::Sender<bool>,
) {
    let Ok(stream) = UnixStream::connect(provider).await else {
        return;
    };
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let Ok((provider, transport)) = handshake else {
        return;
    };
    let service = service_fn(|call: Request<Incoming>| {
        let (provider, holding) = (provider.clone(), holding.clone());
        let is_held = holds(call.uri().path());
        pass(call, provider, is_held, holding)
    });
    let serve = http2::Builder::new(TokioExecutor::new());
    let serve = serve.serve_connection(TokioIo::new(caller), service);
    tokio::select! {
        _ = serve => {}
        _ = transport => {}
    }
}

async fn pass(
    call: Request<Incoming>,
    mut provider: SendRequest<Incoming>,
    is_held: bool,
    holding: watch::Sender<bool>,
) -> io::Result<Response<UnsyncBoxBody<Bytes, hyper::Error>>> {
    let answer = provider.send_request(call).await;
    let answer = answer.map_err(io::Error::other)?;
    if !is_held {
        return Ok(answer.map(BodyExt::boxed_unsync));
    }
    let _ = answer.into_body().collect().await;
    holding.send_replace(true);
    std::future::pending().await
}
