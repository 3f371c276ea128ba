//! A way to the API server on which connections go dead: no end, no reset, and nothing comes or goes any more, as when a
//! machine in between loses its power.
//!
//! ```text
//!  client ──TLS──► DeadWay ──TLS──► kube-apiserver
//!                    ▲
//!                    │ go_dead(): the open ones from now on; new ones work
//!                  test
//! ```
//!
//! It passes bytes on and reads none of them, so that clients speak as they do with the API server. The kernel goes on
//! acknowledging the bytes of a client: only a protocol above TCP can notice.

use std::{net::SocketAddr, path::PathBuf};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::{ControlPlane, Error, Result};

/// A running way. Ends, with all connections, when dropped.
#[derive(Debug)]
pub struct DeadWay {
    kubeconfig: PathBuf,
    /// How often the connections that were open have died.
    deaths: watch::Sender<u64>,
    _server: JoinSet<()>,
}

impl DeadWay {
    /// Starts a way for this user, see [`ControlPlane::kubeconfig`].
    pub async fn start(plane: &ControlPlane, user: &str, group: Option<&str>) -> Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(Error::io("listen on loopback"))?;
        let address = listener.local_addr();
        let address = address.map_err(Error::io("read the address of a listener"))?;
        let (deaths, died) = watch::channel(0);
        let mut server = JoinSet::new();
        server.spawn(accept(listener, plane.address(), died));
        Ok(Self {
            kubeconfig: plane.kubeconfig_at(address, user, group)?,
            deaths,
            _server: server,
        })
    }

    /// A kubeconfig whose server is this way. The file goes when the control plane goes.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// From now on nothing comes or goes on the connections that are open, and they stay open. New ones work.
    pub fn go_dead(&self) {
        self.deaths.send_modify(|deaths| *deaths += 1);
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, died: watch::Receiver<u64>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                let mut died = died.clone();
                died.mark_unchanged();
                connections.spawn(pass(client, server, died));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn pass(client: TcpStream, server: SocketAddr, died: watch::Receiver<u64>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::join!(
        copy(from_client, to_server, died.clone()),
        copy(from_server, to_client, died),
    );
}

/// Passes bytes on until one side ends, or the connection dies; then takes them and keeps them.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut died: watch::Receiver<u64>,
) {
    let mut bytes = vec![0; 16 * 1024];
    let mut is_dead = false;
    loop {
        let read = tokio::select! {
            biased;
            changed = died.changed(), if !is_dead => {
                if changed.is_err() {
                    return;
                }
                is_dead = true;
                continue;
            }
            read = from.read(&mut bytes) => read,
        };
        let Ok(count @ 1..) = read else {
            // Nothing passes a dead connection, not even its end.
            if is_dead {
                std::future::pending::<()>().await;
            }
            let _ = to.shutdown().await;
            return;
        };
        if !is_dead && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
