//! Watch events of the Lease: a released lease is taken at once, a stolen one is noticed at once.

use std::time::Duration;

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use kube::core::WatchEvent;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{LeaderConfig, object::LeaseObject};
use crate::kube::{api::Api, decode::Item, error::Error};

/// How long the API server lets one watch last.
const WATCH_SECONDS: u32 = 290;

/// A watch that is open longer was cut off without our knowing.
const LONGEST: Duration = Duration::from_mins(5);

/// A watch that lived so long was healthy: the next one is started without a pause.
const HEALTHY: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) enum Seen {
    /// All changes follow from now on, starting with the current state.
    Opened,
    /// The Lease as it is now, or was a moment ago.
    Lease(Box<LeaseObject>),
    /// The Lease was deleted with this resourceVersion.
    Deleted(String),
    /// No changes follow until [`Seen::Opened`].
    Broken(Option<Error>),
}

pub(super) type Watching = BoxStream<'static, Seen>;

/// Watches without end; a failure is followed by a pause.
pub(super) fn watch(api: Api, config: &LeaderConfig) -> Watching {
    let watch = Watch {
        api,
        path: config.collection(),
        name: config.name.clone(),
        config: config.clone(),
        state: State::Closed {
            open_at: Instant::now(),
        },
    };
    stream::unfold(watch, |mut watch| async move {
        let seen = watch.next().await;
        Some((seen, watch))
    })
    .boxed()
}

struct Watch {
    api: Api,
    path: String,
    name: String,
    config: LeaderConfig,
    state: State,
}

enum State {
    Closed {
        open_at: Instant,
    },
    Open {
        since: Instant,
        events: BoxStream<'static, Result<WatchEvent<Item<LeaseObject>>, Error>>,
    },
}

impl Watch {
    async fn next(&mut self) -> Seen {
        match &mut self.state {
            State::Closed { open_at } => {
                sleep_until(*open_at).await;
                let began = Instant::now();
                let limit = self.config.terms.request_timeout();
                // No version: the first event shows what is.
                let opening = self
                    .api
                    .watch_named(&self.path, &self.name, "", WATCH_SECONDS);
                match timeout(limit, opening).await {
                    Ok(Ok(events)) => {
                        self.state = State::Open {
                            since: began,
                            events: events.boxed(),
                        };
                        Seen::Opened
                    }
                    Ok(Err(error)) => self.broken(began, Some(error)),
                    Err(_) => self.broken(began, Some(Error::Timeout(limit))),
                }
            }
            State::Open { since, events } => {
                let since = *since;
                match told(events, since + LONGEST).await {
                    Ok(seen) => seen,
                    Err(error) => self.broken(since, error),
                }
            }
        }
    }

    fn broken(&mut self, since: Instant, error: Option<Error>) -> Seen {
        let pause = if since.elapsed() >= HEALTHY {
            Duration::ZERO
        } else {
            self.config.terms.retry(fastrand::f64())
        };
        self.state = State::Closed {
            open_at: Instant::now() + pause,
        };
        Seen::Broken(error)
    }
}

/// The next event that matters, or why there is none (absent: the watch has ended as planned).
async fn told(
    events: &mut (impl Stream<Item = Result<WatchEvent<Item<LeaseObject>>, Error>> + Unpin),
    until: Instant,
) -> Result<Seen, Option<Error>> {
    loop {
        match timeout_at(until, events.next()).await {
            Ok(Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)))) => {
                return match lease {
                    Item::Decoded(lease) => Ok(Seen::Lease(Box::new(lease))),
                    Item::Undecodable(lease) => Err(Some(Error::Decode(lease.cause))),
                };
            }
            Ok(Some(Ok(WatchEvent::Deleted(lease)))) => {
                return Ok(Seen::Deleted(match lease {
                    Item::Decoded(lease) => lease.metadata.resource_version,
                    Item::Undecodable(lease) => lease.resource_version,
                }));
            }
            Ok(Some(Ok(WatchEvent::Bookmark(_)))) => {}
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                return Err(Some(Error::from_status(&status)));
            }
            Ok(Some(Err(error))) => return Err(Some(error)),
            Ok(None) | Err(_) => return Err(None),
        }
    }
}
