//! Plain HTTP on the HTTPS port: `http://` instead of `https://` in a probe, mostly.

use std::io;

use tokio::{io::AsyncWriteExt, net::TcpStream};

/// As Go's `net/http`.
const ANSWER: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Beginnings of requests that Go recognises.
const METHODS: [&[u8]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];

/// Waits for the first byte. A connection that begins with an HTTP request gets an answer that says
/// so, and `None`; any other is given back as it was.
pub(super) async fn refuse(mut stream: TcpStream) -> io::Result<Option<TcpStream>> {
    let mut first = [0; 5];
    let length = stream.peek(&mut first).await?;
    let begins = |method: &&[u8]| length > 0 && method.starts_with(&first[..length]);
    if !METHODS.iter().any(begins) {
        return Ok(Some(stream));
    }
    // A connection that is closed with bytes unread is reset, and the answer is lost.
    let mut request = [0; 4096];
    let _ = stream.try_read(&mut request)?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await?;
    Ok(None)
}
