//! Says whether it is certain which cluster this is.
//!
//! Providers tag what they make with the cluster's UID, that of the namespace `kube-system`. A
//! provider without the UID, or with another one than before, would count its own load balancers among
//! those of another cluster: it would make a second one for each Service and never delete the
//! first.

use std::fmt;

/// The cluster's UID, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterUid {
    /// The API server returned it.
    Read(Box<str>),
    /// It cannot be read, but an earlier leader has remembered it on the Lease.
    Remembered(Box<str>),
    /// It cannot be read, and nothing remembers it.
    Unknown,
    /// The API server returned another one than the Lease remembers.
    Contradicted {
        /// UID that the API server returned.
        read: Box<str>,
        /// UID on the Lease.
        remembered: Box<str>,
    },
}

impl ClusterUid {
    /// One of each, by [`Self::as_str`], for metrics.
    pub const STATES: [&str; 4] = ["read", "remembered", "unknown", "contradicted"];

    /// Compares the UID that the API server returned with the one on the Lease. An empty UID is none.
    pub fn judge(read: Option<&str>, remembered: Option<&str>) -> Self {
        let some = |uid: Option<&str>| uid.filter(|uid| !uid.is_empty()).map(Box::from);
        match (some(read), some(remembered)) {
            (Some(read), Some(remembered)) if read != remembered => {
                Self::Contradicted { read, remembered }
            }
            (Some(read), _) => Self::Read(read),
            (None, Some(remembered)) => Self::Remembered(remembered),
            (None, None) => Self::Unknown,
        }
    }

    /// UID sent to providers; empty if not known.
    pub fn as_sent(&self) -> &str {
        match self {
            Self::Read(uid) | Self::Remembered(uid) | Self::Contradicted { read: uid, .. } => uid,
            Self::Unknown => "",
        }
    }

    /// Returns true if the cloud may be changed; with `allow_untagged` also without a UID.
    pub const fn allows_changes(&self, allow_untagged: bool) -> bool {
        match self {
            Self::Read(_) | Self::Remembered(_) => true,
            Self::Unknown => allow_untagged,
            Self::Contradicted { .. } => false,
        }
    }

    /// The value of the metric's label `state`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Read(_) => Self::STATES[0],
            Self::Remembered(_) => Self::STATES[1],
            Self::Unknown => Self::STATES[2],
            Self::Contradicted { .. } => Self::STATES[3],
        }
    }
}

/// Writes the state and the remedy, for people.
impl fmt::Display for ClusterUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(uid) => write!(f, "the cluster's UID is {uid}"),
            Self::Remembered(uid) => write!(
                f,
                "the UID of the namespace kube-system cannot be read; the Lease remembers that it is {uid}"
            ),
            Self::Unknown => f.write_str(
                "the cluster's UID is not known, and without it the provider cannot tell this \
                 cluster's load balancers from another's: grant `get` on the namespace kube-system, or \
                 set --allow-untagged-cloud",
            ),
            Self::Contradicted { read, remembered } => write!(
                f,
                "the UID of the namespace kube-system is {read}, but the Lease remembers {remembered}: \
                 the load balancers in the cloud carry the remembered one; if this is another cluster by \
                 intention, remove the annotation outrigger.dev/cluster-uid from the Lease"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ClusterUid;

    #[test]
    fn the_known_uid_decides_which_changes_are_allowed() {
        for (read, remembered, state, sent, allowed, untagged) in [
            (Some("a"), None, "read", "a", true, true),
            (Some("a"), Some("a"), "read", "a", true, true),
            (Some("a"), Some(""), "read", "a", true, true),
            (None, Some("a"), "remembered", "a", true, true),
            (Some(""), Some("a"), "remembered", "a", true, true),
            (None, None, "unknown", "", false, true),
            (Some(""), Some(""), "unknown", "", false, true),
            // The UID on the Lease may be a mistake, but a user has to confirm that.
            (Some("a"), Some("b"), "contradicted", "a", false, false),
        ] {
            let uid = ClusterUid::judge(read, remembered);
            assert_eq!(uid.as_str(), state, "{read:?} {remembered:?}");
            assert!(ClusterUid::STATES.contains(&state));
            assert_eq!(uid.as_sent(), sent);
            // People read which UID it is, or what to do.
            let names = if sent.is_empty() {
                "--allow-untagged-cloud"
            } else {
                sent
            };
            assert!(uid.to_string().contains(names), "{uid}");
            assert_eq!(uid.allows_changes(false), allowed, "{uid:?}");
            assert_eq!(uid.allows_changes(true), untagged, "{uid:?}");
        }
    }
}
