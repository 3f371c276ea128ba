//! The body of a request, in bounded memory whoever sends it.
//!
//! A body has its room until its request is answered, since the object in it is looked at so long. Where the room is
//! full, the request with the largest one is cut off: volumes are small, and must not wait for a client that sends
//! large bodies, or sends them slowly.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::review::FailedReview;

/// Above the API server's own limit of 3 MiB for an object.
const MOST: usize = 4 * 1024 * 1024;

/// Most bytes of all bodies in memory together. Decoding a body as JSON takes as much again.
const MOST_TOGETHER: usize = 16 * 1024 * 1024;

/// Room for bodies. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Bodies(Arc<Mutex<Room>>);

#[derive(Default)]
struct Room {
    taken: usize,
    begun: u64,
    /// In the order in which they began.
    bodies: BTreeMap<u64, Held>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    cut_off: CancellationToken,
}

/// Room of the body of one request, given back on drop.
pub(super) struct Place {
    room: Arc<Mutex<Room>>,
    number: u64,
    cut_off: CancellationToken,
}

impl Place {
    /// Does `work` about the body.
    ///
    /// # Errors
    /// Those of `work`, and that others got the room meanwhile.
    pub(super) async fn unless_cut_off<T>(
        &self,
        work: impl Future<Output = Result<T, FailedReview>>,
    ) -> Result<T, FailedReview> {
        let done = self.cut_off.run_until_cancelled(work).await;
        done.unwrap_or_else(|| Err(full()))
    }

    /// Reads all of `body`.
    ///
    /// # Errors
    /// It cannot be read, is too large, or others got the room meanwhile.
    pub(super) async fn read<B>(&self, body: B) -> Result<Vec<u8>, FailedReview>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        self.unless_cut_off(self.gather(body)).await
    }

    async fn gather<B>(&self, mut body: B) -> Result<Vec<u8>, FailedReview>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let mut bytes = Vec::new();
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
            if !self.take(data.len()) {
                return Err(full());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }

    /// Takes more room, which others lose where there is none. False if this one has lost its own.
    fn take(&self, bytes: usize) -> bool {
        let mut room = self.room.lock();
        while room.taken + bytes > MOST_TOGETHER {
            let others = room
                .bodies
                .iter()
                .filter(|(other, _)| **other != self.number);
            let largest = others.max_by_key(|(other, held)| (held.bytes, Reverse(**other)));
            let Some(largest) = largest.map(|(other, _)| *other) else {
                return false;
            };
            room.give_back(largest);
        }
        let Some(own) = room.bodies.get_mut(&self.number) else {
            return false;
        };
        own.bytes += bytes;
        room.taken += bytes;
        true
    }
}

impl Room {
    fn give_back(&mut self, number: u64) {
        if let Some(held) = self.bodies.remove(&number) {
            self.taken -= held.bytes;
            held.cut_off.cancel();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.lock().give_back(self.number);
    }
}

impl Bodies {
    /// Room for the body of one request.
    pub(super) fn place(&self) -> Place {
        let mut room = self.0.lock();
        room.begun += 1;
        let number = room.begun;
        let cut_off = room.bodies.entry(number).or_default().cut_off.clone();
        Place {
            room: Arc::clone(&self.0),
            number,
            cut_off,
        }
    }
}

fn full() -> FailedReview {
    let text = "too many admission requests at once".to_owned();
    FailedReview::new(StatusCode::SERVICE_UNAVAILABLE, text)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::{StreamExt, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use tokio::{
        task::JoinSet,
        time::{Duration, timeout},
    };

    use super::*;

    /// The length of a body whose request is answered at once.
    async fn read(bodies: &Bodies, bytes: usize) -> Result<usize, FailedReview> {
        let body = Full::new(Bytes::from(vec![b' '; bytes]));
        let place = bodies.place();
        place.read(body).await.map(|body| body.len())
    }

    /// Its request waits for the cloud.
    fn wait(bodies: &Bodies, bytes: usize, waiting: &mut JoinSet<Result<(), FailedReview>>) {
        let (body, bodies) = (Full::new(Bytes::from(vec![b' '; bytes])), bodies.clone());
        waiting.spawn(async move {
            let place = bodies.place();
            place.read(body).await?;
            place.unless_cut_off(pending()).await
        });
    }

    #[tokio::test]
    async fn memory_for_bodies_is_bounded_until_their_requests_are_answered() {
        let bodies = Bodies::default();
        let error = read(&bodies, MOST + 1).await.err().unwrap();
        assert_eq!(error.code, StatusCode::PAYLOAD_TOO_LARGE);
        let (mut small, mut large) = (JoinSet::new(), JoinSet::new());
        for _ in 0..20 {
            wait(&bodies, 1_000, &mut small);
        }
        for _ in 0..MOST_TOGETHER / MOST * 3 {
            wait(&bodies, MOST, &mut large);
            tokio::task::yield_now().await;
            assert!(bodies.0.lock().taken <= MOST_TOGETHER);
        }
        assert_eq!(read(&bodies, 1_000).await.ok(), Some(1_000));
        let cut_off = large.join_next().await.unwrap().unwrap();
        assert_eq!(cut_off.err().unwrap().code, StatusCode::SERVICE_UNAVAILABLE);
        assert!(small.try_join_next().is_none(), "a small one was cut off");
        small.shutdown().await;
        large.shutdown().await;
        assert_eq!(bodies.0.lock().taken, 0);
    }

    /// Clients that send all but the last byte of as much as there is room for.
    #[tokio::test(start_paused = true)]
    async fn slow_requests_give_way_to_those_that_arrive() {
        let bodies = Bodies::default();
        let mut slow = JoinSet::new();
        for _ in 0..=MOST_TOGETHER / (MOST - 1) {
            let first = Frame::data(Bytes::from(vec![b' '; MOST - 1]));
            let first = stream::iter([Ok::<_, std::convert::Infallible>(first)]);
            let body = StreamBody::new(Box::pin(first.chain(stream::pending())));
            let bodies = bodies.clone();
            slow.spawn(async move { bodies.place().read(body).await.map(|_| ()) });
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            assert_eq!(read(&bodies, MOST).await.ok(), Some(MOST));
        }
        let first = timeout(Duration::from_secs(10), slow.join_next()).await;
        let first = first.expect("none gave way").unwrap().unwrap();
        assert_eq!(first.err().unwrap().code, StatusCode::SERVICE_UNAVAILABLE);
        slow.shutdown().await;
        assert_eq!(bodies.0.lock().taken, 0);
    }
}
