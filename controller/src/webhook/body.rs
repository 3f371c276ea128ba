//! The body of a request, in bounded memory whoever sends it.
//!
//! Where the room is full, the body that has been read for the longest is cut off: one of the API server is there
//! within milliseconds, and must not wait for a client that sends slowly.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::handler::FailedReview;

/// Above the API server's own limit of 3 MiB for an object.
const MOST: usize = 4 * 1024 * 1024;

/// Of all bodies in memory.
const MOST_TOGETHER: usize = 64 * 1024 * 1024;

/// Room for bodies. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Bodies(Arc<Mutex<Room>>);

#[derive(Default)]
struct Room {
    taken: usize,
    begun: u64,
    /// Bodies that are being read, in the order in which that began.
    reading: BTreeMap<u64, Reading>,
}

#[derive(Default)]
struct Reading {
    bytes: usize,
    cut_off: CancellationToken,
}

/// A body, and its room until it is dropped.
pub(super) struct ReadBody {
    pub(super) bytes: Vec<u8>,
    _place: Place,
}

/// Room of one body.
struct Place {
    room: Arc<Mutex<Room>>,
    number: u64,
    bytes: usize,
    cut_off: CancellationToken,
}

impl Place {
    /// Takes more room, if there is some, or can be made.
    fn take(&mut self, bytes: usize) -> bool {
        let mut room = self.room.lock();
        while room.taken + bytes > MOST_TOGETHER {
            let mut others = room
                .reading
                .iter()
                .filter(|(other, _)| **other != self.number);
            let Some(oldest) = others.next().map(|(other, _)| *other) else {
                return false;
            };
            if let Some(other) = room.reading.remove(&oldest) {
                room.taken -= other.bytes;
                other.cut_off.cancel();
            }
        }
        let Some(own) = room.reading.get_mut(&self.number) else {
            return false;
        };
        own.bytes += bytes;
        room.taken += bytes;
        drop(room);
        self.bytes += bytes;
        true
    }

    /// All of it was read: it is not cut off any more. False if it was.
    fn end(&self) -> bool {
        self.room.lock().reading.remove(&self.number).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut room = self.room.lock();
        let was_reading = room.reading.remove(&self.number).is_some();
        // Of one that was cut off others have the room.
        if was_reading || !self.cut_off.is_cancelled() {
            room.taken -= self.bytes;
        }
    }
}

impl Bodies {
    fn place(&self) -> Place {
        let mut room = self.0.lock();
        room.begun += 1;
        let number = room.begun;
        let cut_off = room.reading.entry(number).or_default().cut_off.clone();
        Place {
            room: Arc::clone(&self.0),
            number,
            bytes: 0,
            cut_off,
        }
    }

    /// Reads all of `body`.
    pub(super) async fn read<B>(&self, mut body: B) -> Result<ReadBody, FailedReview>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let full = || {
            let text = "too many admission requests at once".to_owned();
            FailedReview::new(StatusCode::SERVICE_UNAVAILABLE, text)
        };
        let mut bytes = Vec::new();
        let mut place = self.place();
        let cut_off = place.cut_off.clone();
        while let Some(frame) = cut_off
            .run_until_cancelled(body.frame())
            .await
            .ok_or_else(full)?
        {
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
            if !place.take(data.len()) {
                return Err(full());
            }
            bytes.extend_from_slice(&data);
        }
        if !place.end() {
            return Err(full());
        }
        Ok(ReadBody {
            bytes,
            _place: place,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use tokio::task::JoinSet;

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
        held.clear();
        assert_eq!(bodies.0.lock().taken, 0);
    }

    /// Clients that send all but the last byte of as much as there is room for.
    #[tokio::test]
    async fn slow_requests_give_way_to_those_that_arrive() {
        let bodies = Bodies::default();
        let mut slow = JoinSet::new();
        for _ in 0..=MOST_TOGETHER / (MOST - 1) {
            let first = Frame::data(Bytes::from(vec![b' '; MOST - 1]));
            let first = stream::iter([Ok::<_, std::convert::Infallible>(first)]);
            let body = StreamBody::new(Box::pin(first.chain(stream::pending())));
            let bodies = bodies.clone();
            slow.spawn(async move { bodies.read(body).await.map(|body| body.bytes.len()) });
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            assert_eq!(read(&bodies, MOST).await.ok().unwrap().bytes.len(), MOST);
        }
        let first = slow.join_next().await.unwrap().unwrap();
        assert_eq!(first.err().unwrap().code, StatusCode::SERVICE_UNAVAILABLE);
        slow.shutdown().await;
        assert_eq!(bodies.0.lock().taken, 0);
    }
}
