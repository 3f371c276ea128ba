//! Objects that are created, and how long each waits until it is ready.
//!
//! The measurements of nodes and of Services, and the demo, create through it: the time of an object runs from the answer
//! to its creation until a watch shows it ready.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};

use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use crate::{Error, Result, follow::follow, nodes::Load};

/// The conditions of a creation.
pub(crate) struct Creation<'a, K> {
    /// Where the objects are followed.
    pub(crate) api: Api<K>,
    /// Selects them.
    pub(crate) selector: &'a str,
    /// Names them in errors.
    pub(crate) kind: &'a str,
    /// True if an object has what it waits for.
    pub(crate) is_ready: fn(&K) -> bool,
    /// How fast they are created.
    pub(crate) load: Load,
    /// Time limit of all of it.
    pub(crate) timeout: Duration,
}

/// The result of a creation.
#[derive(Debug)]
pub struct Created<K> {
    /// Each object when it was seen ready, by name, with its time from the answer to its creation.
    pub objects: Vec<(K, Duration)>,
    /// From the first request to the answer to the last.
    pub created: Duration,
    /// From the first request until the last object was seen ready.
    pub ready: Duration,
}

impl<K> Created<K> {
    /// The longest time that this part of the objects, 0 to 1, waited at most.
    pub fn percentile(&self, part: f64) -> Duration {
        let mut times: Vec<_> = self.objects.iter().map(|(_, waited)| *waited).collect();
        times.sort_unstable();
        let rank = (part * times.len() as f64).ceil() as usize;
        times.get(rank.max(1) - 1).copied().unwrap_or_default()
    }
}

enum Event<K> {
    Created(String),
    Seen(Box<K>),
}

/// The state of one object.
struct Progress<K> {
    created: Option<Instant>,
    ready: Option<(K, Duration)>,
}

impl<K> Creation<'_, K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    /// Does `create` for each item, of the object's name and the object, and waits until all are ready.
    ///
    /// `progress` is called with the number of those that are. Ends at the first error, or with
    /// [`Error::Unready`] after the timeout; objects that were created stay.
    pub(crate) async fn run<T, W: Future<Output = Result<()>>>(
        self,
        items: Vec<(String, T)>,
        create: impl Fn(T) -> W,
        mut progress: impl FnMut(usize),
    ) -> Result<Created<K>> {
        let started = Instant::now();
        let (sender, mut events) = mpsc::unbounded_channel();
        let unseen = || Progress {
            created: None,
            ready: None,
        };
        let names = items.iter().map(|(name, _)| (name.clone(), unseen()));
        let mut objects: BTreeMap<String, Progress<K>> = names.collect();
        let on_object = |object| {
            let _ = sender.send(Event::Seen(Box::new(object)));
        };
        let create = |(name, item)| {
            let created = create(item);
            let sender = &sender;
            async move {
                created.await?;
                let _ = sender.send(Event::Created(name));
                Ok(())
            }
        };
        let mut following = pin!(follow(&self.api, self.selector, self.kind, on_object));
        let mut creating = pin!(self.load.run(items, |_| {}, create));
        let (mut created, mut ready, mut last) = (None, 0, started);
        let all = async {
            while created.is_none() || ready < objects.len() {
                tokio::select! {
                    Err(error) = &mut following => return Err(error),
                    elapsed = &mut creating, if created.is_none() => created = Some(elapsed?),
                    Some(event) = events.recv() => {
                        let now = Instant::now();
                        if observe(&mut objects, event, now, self.is_ready) {
                            (ready, last) = (ready + 1, now);
                            progress(ready);
                        }
                    }
                }
            }
            Ok(())
        };
        let in_time = timeout_at(started + self.timeout, all).await;
        let objects = objects.into_iter();
        let Ok(done) = in_time else {
            let late = objects.filter(|(_, object)| object.ready.is_none());
            return Err(Error::Unready {
                late: late.map(|(name, _)| name).collect(),
                timeout: self.timeout,
            });
        };
        done?;
        Ok(Created {
            created: created.unwrap_or_default(),
            ready: last - started,
            objects: objects.filter_map(|(_, object)| object.ready).collect(),
        })
    }
}

/// Returns whether an object became ready.
fn observe<K: Resource<DynamicType = ()>>(
    objects: &mut BTreeMap<String, Progress<K>>,
    event: Event<K>,
    now: Instant,
    is_ready: fn(&K) -> bool,
) -> bool {
    let (name, object) = match event {
        Event::Created(name) => (name, None),
        Event::Seen(object) => (object.name_any(), Some(object)),
    };
    let Some(progress) = objects.get_mut(&name) else {
        return false;
    };
    // The watch may be faster than the answer to the creation.
    let created = *progress.created.get_or_insert(now);
    let Some(object) = object.filter(|object| progress.ready.is_none() && is_ready(object)) else {
        return false;
    };
    progress.ready = Some((*object, now - created));
    true
}
