//! Watch events of the Lease: a released lease is taken immediately, a stolen one is noticed immediately.

use std::time::Duration;

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{LeaderConfig, object::LeaseObject};
use crate::{
    api::{Api, Begin},
    decode::{Item, ObjectEvent},
    error::ApiError,
};

/// A watch that is open longer was cut off without our knowing.
const LONGEST: Duration = Duration::from_mins(5);

/// A watch that lived so long was healthy: the next one is started without a pause.
const HEALTHY: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) enum LeaseObservation {
    /// All changes follow from now on, starting with the current state.
    Opened,
    /// The Lease as it is now, or was a moment ago.
    Lease(Box<LeaseObject>),
    /// The Lease was deleted with this resourceVersion.
    Deleted(String),
    /// No changes follow until [`LeaseObservation::Opened`].
    Broken(Option<ApiError>),
}

pub(super) type Watching = BoxStream<'static, LeaseObservation>;

/// Watches without end; a failure is followed by a pause.
pub(super) fn watch(api: Api, config: &LeaderConfig) -> Watching {
    let watch = Watch {
        api,
        config: config.clone(),
        state: State::Closed {
            open_at: Instant::now(),
        },
    };
    stream::unfold(watch, |mut watch| async move {
        let observation = watch.next().await;
        Some((observation, watch))
    })
    .boxed()
}

struct Watch {
    api: Api,
    config: LeaderConfig,
    state: State,
}

enum State {
    Closed {
        open_at: Instant,
    },
    Open {
        since: Instant,
        events: BoxStream<'static, Result<ObjectEvent<LeaseObject>, ApiError>>,
    },
}

impl Watch {
    async fn next(&mut self) -> LeaseObservation {
        match &mut self.state {
            State::Closed { open_at } => {
                sleep_until(*open_at).await;
                let began = Instant::now();
                let LeaderConfig {
                    name, durations, ..
                } = &self.config;
                let (path, limit) = (self.config.collection(), durations.request_timeout());
                // No version: the first event shows the Lease as it is.
                let all = Begin::After("");
                let opened = self
                    .api
                    .watch(&path, Some(("metadata.name", name)), all, limit)
                    .await;
                match opened {
                    Ok(events) => {
                        self.state = State::Open {
                            since: began,
                            events: events.boxed(),
                        };
                        LeaseObservation::Opened
                    }
                    Err(error) => self.broken(began, Some(error)),
                }
            }
            State::Open { since, events } => {
                let since = *since;
                match next_observation(events, since + LONGEST).await {
                    Ok(observation) => observation,
                    Err(error) => self.broken(since, error),
                }
            }
        }
    }

    fn broken(&mut self, since: Instant, error: Option<ApiError>) -> LeaseObservation {
        let pause = if since.elapsed() >= HEALTHY {
            Duration::ZERO
        } else {
            self.config.durations.retry(fastrand::f64())
        };
        self.state = State::Closed {
            open_at: Instant::now() + pause,
        };
        LeaseObservation::Broken(error)
    }
}

/// The next event that matters, or why there is none (absent: the watch has ended as planned).
async fn next_observation(
    events: &mut (impl Stream<Item = Result<ObjectEvent<LeaseObject>, ApiError>> + Unpin),
    until: Instant,
) -> Result<LeaseObservation, Option<ApiError>> {
    loop {
        match timeout_at(until, events.next()).await {
            Ok(Some(event)) => match event.map_err(Some)? {
                ObjectEvent::Applied(Item::Decoded(lease)) => {
                    return Ok(LeaseObservation::Lease(Box::new(lease)));
                }
                ObjectEvent::Applied(Item::Undecodable(lease)) => {
                    return Err(Some(ApiError::Decode(lease.cause)));
                }
                ObjectEvent::Deleted(Item::Decoded(lease)) => {
                    return Ok(LeaseObservation::Deleted(lease.metadata.resource_version));
                }
                ObjectEvent::Deleted(Item::Undecodable(lease)) => {
                    return Ok(LeaseObservation::Deleted(lease.resource_version));
                }
                ObjectEvent::Bookmark(_) | ObjectEvent::InitialEnd(_) => {}
            },
            Ok(None) | Err(_) => return Err(None),
        }
    }
}
