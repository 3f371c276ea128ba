//! Says whether it is certain as which cluster the cloud is changed.
//!
//! Providers tag what they make with a UID of the cluster: `--cluster-uid`, else that of the namespace `kube-system`. A
//! provider without the UID, or with another one than before, would count its own load balancers among those of another
//! cluster: it would make a second one for each Service and never delete the first. The administrator of the cluster writes
//! its Lease, and may be a neighbour of those whose load balancers are in the same account: a UID that the Lease remembers
//! forbids changes and never allows them.
//!
//! The binary judges once it has read both UIDs, and again when a term begins; the provider client refuses each call that
//! changes the cloud while [`ClusterUid::allows_changes`] is false. `sweep`, which deletes what a cluster that is gone has
//! left, asks [`is_of_another_cluster`] first.
//!
//! ```
//! use outrigger_core::cluster_uid::ClusterUid;
//!
//! let first_start = ClusterUid::judge(Some("uid-1"), None);
//! assert!(first_start.allows_changes(false));
//! let restored_from_a_copy = ClusterUid::judge(Some("uid-2"), Some("uid-1"));
//! assert!(!restored_from_a_copy.allows_changes(true));
//! ```

use std::fmt;

/// The cluster's UID, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterUid {
    /// The operator or the API server has named it.
    Known(Box<str>),
    /// It cannot be read.
    Unknown {
        /// UID on the Lease: load balancers may carry it.
        remembered: Option<Box<str>>,
    },
    /// It is another one than the Lease remembers.
    Contradicted {
        /// UID of the operator or the API server.
        own: Box<str>,
        /// UID on the Lease.
        remembered: Box<str>,
    },
}

impl ClusterUid {
    /// One of each, by [`Self::as_str`], for metrics.
    pub const STATES: [&str; 3] = ["known", "unknown", "contradicted"];

    /// Compares the UID that is known with the one on the Lease. An empty UID is none.
    pub fn judge(own: Option<&str>, remembered: Option<&str>) -> Self {
        let some = |uid: Option<&str>| uid.filter(|uid| !uid.is_empty()).map(Box::from);
        match (some(own), some(remembered)) {
            (Some(own), Some(remembered)) if own != remembered => {
                Self::Contradicted { own, remembered }
            }
            (Some(own), _) => Self::Known(own),
            (None, remembered) => Self::Unknown { remembered },
        }
    }

    /// UID sent to providers; empty if not known.
    pub fn as_sent(&self) -> &str {
        match self {
            Self::Known(uid) | Self::Contradicted { own: uid, .. } => uid,
            Self::Unknown { .. } => "",
        }
    }

    /// Returns true if the cloud may be changed; with `allow_untagged` also without a UID, unless there was one.
    pub const fn allows_changes(&self, allow_untagged: bool) -> bool {
        match self {
            Self::Known(_) => true,
            Self::Unknown { remembered } => allow_untagged && remembered.is_none(),
            Self::Contradicted { .. } => false,
        }
    }

    /// The value of the metric's label `state`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Known(_) => Self::STATES[0],
            Self::Unknown { .. } => Self::STATES[1],
            Self::Contradicted { .. } => Self::STATES[2],
        }
    }
}

/// Writes the state and the remedy, for people.
impl fmt::Display for ClusterUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(uid) => write!(f, "the cluster's UID is {uid}"),
            Self::Unknown { remembered: None } => f.write_str(
                "the cluster's UID is not known, and without it the provider cannot tell this \
                 cluster's load balancers from another's: grant `get` on the namespace kube-system, or \
                 set --cluster-uid or --allow-untagged-cloud",
            ),
            Self::Unknown {
                remembered: Some(uid),
            } => write!(
                f,
                "the cluster's UID is not known, and its load balancers carry {uid} by the Lease, which is no proof: \
                 grant `get` on the namespace kube-system, or set --cluster-uid"
            ),
            Self::Contradicted { own, remembered } => write!(
                f,
                "the cluster's UID is {own}, but the Lease remembers {remembered}: \
                 the load balancers in the cloud carry the remembered one; if this is another cluster by \
                 intention, remove the annotation outrigger.dev/cluster-uid from the Lease"
            ),
        }
    }
}

/// Checks by the word of an API server that what carries `uid` in the cloud is not its cluster's: that is neither the UID
/// of its namespace `kube-system`, nor the one that the Lease remembers, which `--cluster-uid` may have given. Nothing is
/// guessed from an API server that does not answer.
///
/// # Errors
/// Any other answer, as a sentence.
pub fn is_of_another_cluster(
    uid: &str,
    kube_system: Result<&str, String>,
    on_lease: Result<Option<&str>, String>,
) -> Result<(), String> {
    let words = [
        kube_system.map(Some),
        on_lease.map(|uid| uid.filter(|uid| !uid.is_empty())),
    ];
    for word in words {
        match word {
            Ok(Some(own)) if own == uid => {
                return Err(format!(
                    "the API server is that of the cluster {uid}, which is there: delete its Services of type \
                     LoadBalancer, or the cluster, first"
                ));
            }
            Ok(Some("")) => return Err("the API server names no UID".to_owned()),
            Ok(_) => {}
            Err(error) => {
                return Err(format!(
                    "cannot tell which cluster the API server is of: {error}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ClusterUid, is_of_another_cluster};

    #[test]
    fn only_an_api_server_that_answers_with_another_uid_lets_a_cluster_be_swept() {
        fn error<T>() -> Result<T, String> {
            Err("no".to_owned())
        }
        for (kube_system, on_lease, is_other) in [
            (Ok("b"), Ok(None), true),
            (Ok("b"), Ok(Some("")), true),
            (Ok("b"), Ok(Some("b")), true),
            (Ok("b"), Ok(Some("c")), true),
            (Ok("a"), Ok(None), false),
            (Ok(""), Ok(None), false),
            // Its --cluster-uid.
            (Ok("b"), Ok(Some("a")), false),
            (error(), Ok(None), false),
            (error(), error(), false),
            (Ok("b"), error(), false),
        ] {
            let case = format!("{kube_system:?} {on_lease:?}");
            let judged = is_of_another_cluster("a", kube_system, on_lease);
            assert_eq!(judged.is_ok(), is_other, "{case}");
        }
    }

    #[test]
    fn a_uid_on_the_lease_forbids_changes_and_allows_none() {
        for (own, remembered, state, sent, allowed, untagged) in [
            (Some("a"), None, "known", "a", true, true),
            (Some("a"), Some("a"), "known", "a", true, true),
            (Some("a"), Some(""), "known", "a", true, true),
            // The Lease is written by the cluster's administrator.
            (None, Some("a"), "unknown", "", false, false),
            (Some(""), Some("a"), "unknown", "", false, false),
            (None, None, "unknown", "", false, true),
            (Some(""), Some(""), "unknown", "", false, true),
            // The UID on the Lease may be a mistake, but a user has to confirm that.
            (Some("a"), Some("b"), "contradicted", "a", false, false),
        ] {
            let uid = ClusterUid::judge(own, remembered);
            assert_eq!(uid.as_str(), state, "{own:?} {remembered:?}");
            assert!(ClusterUid::STATES.contains(&state));
            assert_eq!(uid.as_sent(), sent);
            // People read which UID it is, or what to do.
            let names = if sent.is_empty() {
                "--cluster-uid"
            } else {
                sent
            };
            assert!(uid.to_string().contains(names), "{uid}");
            assert_eq!(uid.allows_changes(false), allowed, "{uid:?}");
            assert_eq!(uid.allows_changes(true), untagged, "{uid:?}");
        }
    }
}
