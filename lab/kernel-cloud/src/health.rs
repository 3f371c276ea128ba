//! Which targets answer `/healthz`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Time limit of one answer.
const LIMIT: Duration = Duration::from_secs(1);

/// The first bytes of the answer of a healthy target.
const OK: [&[u8]; 2] = [b"HTTP/1.1 200", b"HTTP/1.0 200"];

/// Those of these endpoints that answer `GET /healthz` with 200 within a second. They are asked together.
///
/// # Cancellation
///
/// Dropped, it asks no more.
pub(crate) async fn healthy(
    endpoints: impl IntoIterator<Item = (IpAddr, u16)>,
) -> BTreeSet<(IpAddr, u16)> {
    let mut probes = JoinSet::new();
    for (address, port) in endpoints {
        probes.spawn(async move {
            let answered = timeout(LIMIT, is_healthy(SocketAddr::new(address, port))).await;
            matches!(answered, Ok(Ok(true))).then_some((address, port))
        });
    }
    let mut healthy = BTreeSet::new();
    while let Some(probed) = probes.join_next().await {
        healthy.extend(probed.ok().flatten());
    }
    healthy
}

async fn is_healthy(endpoint: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(endpoint).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut status = [0; OK[0].len()];
    stream.read_exact(&mut status).await?;
    Ok(OK.contains(&&status[..]))
}
