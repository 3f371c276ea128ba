//! `--feature-gates`.

/// A gate that decides something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gate {
    /// `/flagz` is served.
    ComponentFlagz,
    /// `/statusz` is served.
    ComponentStatusz,
    /// `--requestheader-uid-headers` may be given.
    RemoteRequestHeaderUid,
}

/// What `--feature-gates` comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: Vec<Gate>,
}

impl FeatureGates {
    /// Whether the gate is open.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.enabled.contains(&gate)
    }
}
