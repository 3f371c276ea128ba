//! Which targets answer.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::options::Check;

/// Time limit of one answer.
const LIMIT: Duration = Duration::from_secs(1);

/// The address of a target, and how it is asked.
pub(crate) type Endpoint = (IpAddr, Check);

/// The endpoints that answer within a second: with a connection, or `GET` with a status below 400.
/// They are asked together.
///
/// # Cancellation
///
/// Dropped, it asks no more.
pub(crate) async fn healthy(endpoints: impl IntoIterator<Item = Endpoint>) -> BTreeSet<Endpoint> {
    let mut probes = JoinSet::new();
    for endpoint in endpoints {
        probes.spawn(async move {
            let answered = timeout(LIMIT, is_healthy(&endpoint)).await;
            matches!(answered, Ok(Ok(true))).then_some(endpoint)
        });
    }
    let mut healthy = BTreeSet::new();
    while let Some(probed) = probes.join_next().await {
        healthy.extend(probed.ok().flatten());
    }
    healthy
}

async fn is_healthy((address, check): &Endpoint) -> std::io::Result<bool> {
    let endpoint = SocketAddr::new(*address, check.port);
    let mut stream = TcpStream::connect(endpoint).await?;
    let Some(path) = &check.path else {
        return Ok(true);
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut status = *b"HTTP/1.1 2";
    stream.read_exact(&mut status).await?;
    let [.., class] = status;
    Ok(status.starts_with(b"HTTP/1.") && (class == b'2' || class == b'3'))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_target_is_healthy_with_a_connection_or_a_status_below_400_of_its_path() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 512];
                let length = stream.read(&mut request).unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let status = request.split(['/', ' ']).nth(2).unwrap_or_default();
                let _ = write!(stream, "HTTP/1.1 {status} Text\r\n\r\n");
            }
        });
        let check = |path: Option<&str>| Check {
            port: endpoint.port(),
            path: path.map(str::to_owned),
        };
        let paths = [None, Some("/204"), Some("/302"), Some("/404"), Some("/503")];
        let endpoints = paths.map(|path| (endpoint.ip(), check(path)));
        let healthy = healthy(endpoints).await.into_iter();
        let healthy: Vec<_> = healthy.map(|(_, check)| check.path).collect();
        let expected = [None, Some("/204"), Some("/302")];
        assert_eq!(healthy, expected.map(|path| path.map(str::to_owned)));
    }
}
