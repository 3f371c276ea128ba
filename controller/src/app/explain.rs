//! Answers of the leader to `explain`: the last decisions about an object.

use std::sync::Arc;

use http::StatusCode;
use outrigger_core::{node::NodeView, service::ServiceView};

use crate::server::answer::{self, Answer};
use outrigger_kube::{
    leader::{self, Handle, Leadership},
    store::Store,
};
use outrigger_runtime::history::{self, Explanation, History};

/// Answers requests to `/explain/`.
pub(super) struct Explainer {
    pub(super) history: History,
    pub(super) nodes: Arc<Store<NodeView>>,
    pub(super) services: Arc<Store<ServiceView>>,
    /// Absent without an election: this process leads.
    pub(super) lock: Option<Handle>,
}

impl Explainer {
    /// The answer for `path`: `nodes/NAME` or `services/NAMESPACE/NAME`.
    pub(super) fn answer(&self, path: &str) -> Answer {
        if let Err(text) = self.leads() {
            return answer::error(StatusCode::SERVICE_UNAVAILABLE, &text);
        }
        if !self.history.is_on() {
            let text = "no decisions are remembered: --history-memory is 0";
            return answer::error(StatusCode::NOT_IMPLEMENTED, text);
        }
        let Some((object, exists)) = self.find(path) else {
            let text = "an object is nodes/NAME or services/NAMESPACE/NAME";
            return answer::error(StatusCode::BAD_REQUEST, text);
        };
        let decisions = self.history.explain(&object);
        if decisions.is_empty() && !exists {
            let text =
                format!("{object} is unknown: it does not exist, and nothing was decided about it");
            return answer::error(StatusCode::NOT_FOUND, &text);
        }
        let explanation = Explanation {
            object,
            exists,
            leader: leader::host(),
            decisions,
        };
        // Texts and times: nothing that JSON cannot hold.
        let body = serde_json::to_string(&explanation).unwrap_or_default();
        answer::body(StatusCode::OK, answer::JSON, body)
    }

    /// Checks that this replica leads; a standby has decided nothing.
    fn leads(&self) -> Result<(), String> {
        let Some(lock) = &self.lock else {
            return Ok(());
        };
        match &*lock.leadership().borrow() {
            Leadership::Leading(_) => Ok(()),
            Leadership::Standby {
                holder: Some(holder),
            } => Err(format!("this replica does not lead; {holder} does")),
            Leadership::Standby { holder: None } | Leadership::Lost { .. } => {
                Err("this replica does not lead, and no other one is known to".to_owned())
            }
        }
    }

    /// The object at `path`, and whether there is one.
    fn find(&self, path: &str) -> Option<(String, bool)> {
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_of_name);
        let (kind, name) = path.split_once('/')?;
        match (kind, name.split_once('/')) {
            ("nodes", None) if is_name(name) => {
                let exists = self.nodes.get(name).is_some();
                Some((history::node(name), exists))
            }
            ("services", Some((namespace, of_service)))
                if is_name(namespace) && is_name(of_service) =>
            {
                let exists = self.services.get(name).is_some();
                Some((history::service(namespace, of_service), exists))
            }
            _ => None,
        }
    }
}

/// Returns true for a letter of the name of an object, none of which JSON or a path would escape.
const fn is_of_name(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'.')
}
