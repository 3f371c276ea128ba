//! A session, the connection under it, and what was found missing on it.

use std::{collections::HashSet, sync::Arc};

use outrigger_api::code_name;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tracing::warn;

use super::{
    Error, Session, Shared,
    call::{Limits, Unary},
    details::Checked,
    transport::Connection,
};

/// A session and the connection that it was made on.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    pub(super) channel: Checked,
    pub(super) limits: Limits,
    /// Cancelled when this process ends the connection under the calls on it.
    aborted: CancellationToken,
    /// Methods that the provider answered with UNIMPLEMENTED.
    unserved: Mutex<HashSet<&'static str>>,
}

impl Link {
    pub(super) fn new(session: Arc<Session>, connection: &Connection, receive: usize) -> Self {
        Self {
            limits: Limits {
                send: session.max_send_bytes,
                receive,
            },
            session,
            channel: connection.channel(),
            aborted: connection.aborted(),
            unserved: Mutex::default(),
        }
    }

    /// Whether the provider may still be at work on a call that ended with `error`. Not where its process
    /// closed the connection: then it is gone.
    pub(super) fn may_go_on(&self, error: &Error) -> bool {
        match error {
            Error::Cancelled { .. } | Error::Timeout { .. } => true,
            Error::ConnectionLost { .. } => self.aborted.is_cancelled(),
            // So a server ends a call whose deadline has passed, whatever its handler does.
            Error::Unexplained { code, .. } => [Code::Cancelled, Code::DeadlineExceeded]
                .map(code_name)
                .contains(code),
            _ => false,
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
            aborted: link.aborted.clone(),
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
