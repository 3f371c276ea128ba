//! The API server with one Service, and what a replica's store makes of its answers and events.

use std::sync::Arc;

use outrigger_core::service::{
    ServiceView,
    patch_plan::{FinalizerChange, StatusPatch},
};

use crate::hashed::Hashed;

/// A Service as it is at one resourceVersion.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(super) struct Versioned {
    pub(super) version: u16,
    pub(super) service: Hashed<ServiceView>,
}

/// A change of the Service: its state from a resourceVersion on, or none once it is gone.
#[derive(Clone, Debug, Hash)]
pub(super) struct Event {
    pub(super) version: u16,
    pub(super) service: Option<Hashed<ServiceView>>,
}

/// The Service's last changes, the present one at the end; earlier ones stay until every store has them.
#[derive(Clone, Debug, Hash)]
pub(super) struct Server {
    pub(super) events: Vec<Event>,
}

/// A store with the watch that fills it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Store {
    pub(super) held: Option<Versioned>,
    /// The next event of the watch, by its place in [`Server::events`].
    pub(super) next: usize,
}

/// A write on its way: [`outrigger_core::service::patch_plan::StatusPatch`], planned on one version.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) patch: Hashed<StatusPatch>,
    pub(super) planned_on: Versioned,
}

/// How the API server answers a write.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) enum Answer {
    /// 200, with the version.
    Written(u16),
    /// 404.
    Gone,
    /// 409.
    Conflict,
    /// 422.
    Refused,
}

impl Server {
    pub(super) fn with(service: ServiceView) -> Self {
        let service = Some(Hashed::new(service));
        Self {
            events: vec![Event {
                version: 1,
                service,
            }],
        }
    }

    /// The last version, and the Service as it is, if it is there.
    pub(super) fn now(&self) -> (u16, Option<&Hashed<ServiceView>>) {
        self.events
            .last()
            .map_or((0, None), |event| (event.version, event.service.as_ref()))
    }

    pub(super) fn live(&self) -> Option<Versioned> {
        let (version, service) = self.now();
        service.map(|service| Versioned {
            version,
            service: service.clone(),
        })
    }

    /// Stores the Service as it is now, or that it is gone.
    pub(super) fn put(&mut self, service: Option<ServiceView>) {
        let version = self.now().0 + 1;
        let service = service.map(Hashed::new);
        self.events.push(Event { version, service });
    }

    /// Carries out a write, if its preconditions hold (`kubernetes::services`): the UID, and of an exact one the version.
    pub(super) fn write(&mut self, write: &Write) -> Answer {
        let Some(Versioned { version, service }) = self.live() else {
            return Answer::Gone;
        };
        let patch = &*write.patch;
        let adds = patch.finalizer == Some(FinalizerChange::Add) && !service.has_finalizer();
        if *patch.uid != *service.uid {
            Answer::Refused
        } else if patch.is_exact() && write.planned_on.version != version {
            Answer::Conflict
        } else if adds && service.deleted.is_some() {
            Answer::Refused
        } else {
            let written = patch.applied_to(&service, "");
            let is_gone = written.deleted.is_some() && written.finalizers.is_empty();
            if is_gone {
                self.put(None);
                // The answer has the version from before the deletion.
                return Answer::Written(version);
            }
            if written == **service.arc() {
                return Answer::Written(version);
            }
            self.put(Some(written));
            Answer::Written(version + 1)
        }
    }
}

/// The events that the handlers of a store get.
pub(super) enum Change {
    Added(Hashed<ServiceView>),
    Updated(Hashed<ServiceView>, Hashed<ServiceView>),
    Deleted(Hashed<ServiceView>),
}

impl Store {
    /// After a full list.
    pub(super) fn listed(server: &Server) -> Self {
        Self {
            held: server.live(),
            next: server.events.len(),
        }
    }

    /// `kubernetes::store::Store::get`, for the Service of this UID.
    pub(super) fn live(&self, uid: &str) -> Option<Versioned> {
        self.held.clone().filter(|held| *held.service.uid == *uid)
    }

    /// The next event of the watch arrives (`Store::apply`, `Store::delete`).
    pub(super) fn watched(&mut self, server: &Server) -> Vec<Change> {
        let Some(Event { version, service }) = server.events.get(self.next) else {
            return Vec::new();
        };
        self.next += 1;
        match service {
            Some(service) => self.applied(Versioned {
                version: *version,
                service: service.clone(),
            }),
            None => self.removed(),
        }
    }

    fn removed(&mut self) -> Vec<Change> {
        let gone = self.held.take();
        gone.map(|gone| Change::Deleted(gone.service))
            .into_iter()
            .collect()
    }

    fn applied(&mut self, new: Versioned) -> Vec<Change> {
        if self
            .held
            .as_ref()
            .is_some_and(|held| new.version < held.version)
        {
            return Vec::new();
        }
        let now = new.service.clone();
        match self.held.replace(new) {
            Some(old) if old.service.uid != now.uid => {
                vec![Change::Deleted(old.service), Change::Added(now)]
            }
            Some(old) if old.service == now => Vec::new(),
            Some(old) => vec![Change::Updated(old.service, now)],
            None => vec![Change::Added(now)],
        }
    }

    /// A full list is complete (`Store::finish_list`); a stale one may lack the Service.
    pub(super) fn relisted(&mut self, server: &Server, shows: bool) -> Vec<Change> {
        self.next = server.events.len();
        match server.live().filter(|_| shows) {
            Some(live) => self.applied(live),
            None => self.removed(),
        }
    }

    /// `Store::refresh`: the Service was read beside the watch.
    pub(super) fn refreshed(&mut self, live: &Versioned) -> Option<Change> {
        let held = self.held.as_ref()?;
        if held.service.uid != live.service.uid || live.version < held.version {
            return None;
        }
        let old = self.held.replace(live.clone())?.service;
        (old != live.service).then(|| Change::Updated(old, live.service.clone()))
    }

    /// `Store::written`: our own write is over what is held, without the events that come before it.
    pub(super) fn written(&mut self, write: &Write, version: u16) {
        let uid = &write.patch.uid;
        let Some(held) = self.held.as_mut().filter(|held| held.service.uid == *uid) else {
            return;
        };
        if version >= held.version {
            let view = write.patch.applied_to(held.service.arc(), "");
            *held = Versioned {
                version,
                service: Hashed::new(view),
            };
        }
    }
}

impl Write {
    pub(super) fn of(patch: StatusPatch, planned_on: &Versioned) -> Self {
        Self {
            patch: Hashed::new(patch),
            planned_on: planned_on.clone(),
        }
    }
}

impl Versioned {
    pub(super) fn view(&self) -> &Arc<ServiceView> {
        self.service.arc()
    }
}
