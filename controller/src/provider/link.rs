//! A session, the connection under it, and what was found missing on it.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use tracing::warn;

use super::{
    Session, Shared,
    call::{Limits, Unary},
    details::Checked,
};

/// A session and the connection that it was made on.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    pub(super) channel: Checked,
    pub(super) limits: Limits,
    /// Methods that the provider answered with UNIMPLEMENTED.
    unserved: Mutex<HashSet<&'static str>>,
}

impl Link {
    pub(super) fn new(session: Arc<Session>, channel: Checked, receive: usize) -> Self {
        Self {
            limits: Limits {
                send: session.max_send_bytes,
                receive,
            },
            session,
            channel,
            unserved: Mutex::default(),
        }
    }

    /// Whether a method was found missing, which it then is until the next handshake.
    pub(super) fn lacks(&self, rpc: &'static str) -> bool {
        self.unserved.lock().contains(rpc)
    }

    /// Remembers that a method is missing, and reports it once.
    pub(super) fn note_missing<R: Unary>(&self) {
        if self.unserved.lock().insert(R::NAME) {
            warn!(
                rpc = R::NAME,
                provider = &*self.session.name,
                "the provider declares a capability but answers UNIMPLEMENTED to a method of it: {}; \
                 serve the method, or do not declare the capability",
                R::WITHOUT
            );
        }
    }
}

impl Shared {
    /// Publishes `link`'s session without node sets, since `SyncNodeSet` is not served on it. `false` if
    /// that was done before.
    pub(super) fn give_up_node_sets(&self, link: &Link) -> bool {
        let mut session = Session::clone(&link.session);
        if !std::mem::take(&mut session.node_sets) {
            return false;
        }
        let session = Arc::new(session);
        let without = Link {
            session: Arc::clone(&session),
            channel: link.channel.clone(),
            limits: link.limits,
            unserved: Mutex::new(link.unserved.lock().clone()),
        };
        // A newer handshake may have found another process.
        let is_mine = |now: &Option<Arc<Link>>| {
            now.as_ref()
                .is_some_and(|now| std::ptr::eq(Arc::as_ptr(now), link))
        };
        let replaced = self.link.send_if_modified(|now| {
            let is_mine = is_mine(now);
            if is_mine {
                *now = Some(Arc::new(without));
            }
            is_mine
        });
        if replaced {
            self.session.send_replace(Some(session));
        }
        true
    }
}
