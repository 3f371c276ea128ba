//! An elector of a test.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::super::*;
use crate::cluster::SameCluster;
use crate::fixture::durations;
use crate::fixture::lease::Store;

/// An elector on the store, and what it said.
pub(super) struct Replica {
    pub(super) handle: Handle,
    pub(super) elector: Option<Elector>,
    pub(super) tasks: JoinSet<()>,
    pub(super) may: watch::Sender<bool>,
    pub(super) events: Arc<Mutex<Vec<String>>>,
    pub(super) metrics: LeaderMetrics,
    pub(super) sight: Sight,
}

impl Replica {
    /// Not running yet.
    pub(super) fn new(store: &Store, identity: &str) -> Self {
        let sight = Sight::of(SameCluster::new(store.api(), Some("uid-1".into())));
        let config = LeaderConfig {
            namespace: "kube-system".into(),
            name: "ccm".into(),
            identity: Arc::new(identity.into()),
            durations: durations(),
            sight: sight.clone(),
        };
        let (may, contends) = watch::channel(true);
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&events);
        let on_event: OnEvent = Arc::new(move |_, event| log.lock().push(event.message.into()));
        let metrics = LeaderMetrics::default();
        let (elector, handle) =
            Elector::new(store.api(), config, metrics.clone(), contends, on_event);
        Self {
            handle,
            elector: Some(elector),
            tasks: JoinSet::new(),
            may,
            events,
            metrics,
            sight,
        }
    }

    pub(super) fn start(store: &Store, identity: &str) -> Self {
        let mut this = Self::new(store, identity);
        this.tasks.spawn(this.elector.take().unwrap().run());
        this
    }

    pub(super) async fn leading(&self) -> LeaseTerm {
        let mut leadership = self.handle.leadership();
        let leads = leadership.wait_for(|now| now.leading().is_some());
        let now = timeout(Duration::from_mins(2), leads)
            .await
            .expect("leads in time")
            .unwrap();
        now.leading().unwrap().clone()
    }

    pub(super) fn leads(&self) -> bool {
        self.handle
            .leadership()
            .borrow()
            .leading()
            .is_some_and(LeaseTerm::is_valid_now)
    }

    /// Waits for the end of the elector. Returns why it lost the lease, if it did.
    pub(super) async fn ended(&mut self) -> Option<Lost> {
        let ended = timeout(Duration::from_mins(1), self.tasks.join_next());
        ended.await.expect("ends in time").unwrap().unwrap();
        self.lost()
    }

    pub(super) fn lost(&self) -> Option<Lost> {
        match &*self.handle.leadership().borrow() {
            Leadership::Lost { reason } => Some(reason.clone()),
            _ => None,
        }
    }

    pub(super) fn events(&self) -> Vec<String> {
        self.events.lock().clone()
    }
}
