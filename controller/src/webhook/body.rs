//! The body of a request, in bounded memory whoever sends it.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::handler::FailedReview;

/// Above the API server's own limit of 3 MiB for an object.
const MOST: usize = 4 * 1024 * 1024;

/// Of all bodies in memory.
const MOST_TOGETHER: usize = 64 * 1024 * 1024;

/// Room for bodies. Clones share it.
#[derive(Clone)]
pub(super) struct Bodies {
    room: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(MOST_TOGETHER)),
        }
    }
}

/// A body, and its room until it is dropped.
pub(super) struct ReadBody {
    pub(super) bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Bodies {
    /// Reads all of `body`.
    pub(super) async fn read<B>(&self, mut body: B) -> Result<ReadBody, FailedReview>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let mut bytes = Vec::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let text = format!("admission request HTTP body cannot be read: {error}");
                FailedReview::new(StatusCode::BAD_REQUEST, text)
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > MOST {
                let text = format!("admission request HTTP body is larger than {MOST} bytes");
                return Err(FailedReview::new(StatusCode::PAYLOAD_TOO_LARGE, text));
            }
            // Cannot be cut: it is at most MOST.
            let taken = Arc::clone(&self.room).try_acquire_many_owned(data.len() as u32);
            let taken = taken.map_err(|_full| {
                let text = "too many admission requests at once".to_owned();
                FailedReview::new(StatusCode::SERVICE_UNAVAILABLE, text)
            })?;
            match &mut room {
                Some(room) => room.merge(taken),
                None => room = Some(taken),
            }
            bytes.extend_from_slice(&data);
        }
        Ok(ReadBody { bytes, _room: room })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn read(bodies: &Bodies, bytes: usize) -> Result<ReadBody, FailedReview> {
        let body = Full::new(Bytes::from(vec![b' '; bytes]));
        bodies.read(body).await
    }

    #[tokio::test]
    async fn memory_for_bodies_is_bounded() {
        let bodies = Bodies::default();
        let error = read(&bodies, MOST + 1).await.err().unwrap();
        assert_eq!(error.code, StatusCode::PAYLOAD_TOO_LARGE);
        let mut held = Vec::new();
        for _ in 0..MOST_TOGETHER / MOST {
            held.push(read(&bodies, MOST).await.ok().unwrap());
        }
        let error = read(&bodies, 1).await.err().unwrap();
        assert_eq!(error.code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(held.pop().unwrap().bytes.len(), MOST);
        assert!(read(&bodies, MOST).await.is_ok());
    }
}
