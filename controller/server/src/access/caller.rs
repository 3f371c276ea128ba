//! A caller.

use std::collections::BTreeMap;

/// As Kubernetes knows users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

impl Caller {
    pub(super) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// In the group of authenticated users; a proxy may speak for an anonymous user.
    pub(super) fn authenticated(mut self) -> Self {
        let known = [AUTHENTICATED, UNAUTHENTICATED];
        let has = |group: &String| known.contains(&group.as_str());
        if self.name != ANONYMOUS && !self.groups.iter().any(has) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }

    pub(super) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }
}
