//! The API server, and what users and the cloud do to Nodes and machines.

use std::iter;

use super::{NAMES, State};
use crate::search::Add;

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) enum Machine {
    Running,
    Stopped,
    /// Running again.
    Started,
    Gone,
}

impl Machine {
    pub(super) const fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Started)
    }
}

/// A Node object.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that change independently"
)]
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) version: u16,
    pub(super) is_ready: bool,
    /// The period in which the condition became so.
    pub(super) since: u8,
    pub(super) is_tainted: bool,
    pub(super) is_out_of_service: bool,
    /// By an operator.
    pub(super) is_confirmed: bool,
}

impl Node {
    pub(super) const fn is_older(self, other: Self) -> bool {
        self.version < other.version
    }
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Request {
    /// With UID and resourceVersion as preconditions.
    Delete { name: usize, version: u16 },
    /// Adds the taint of a stopped instance, or removes all.
    Taint { name: usize, adds: bool },
    /// With UID and resourceVersion as preconditions.
    OutOfService { name: usize, version: u16 },
}

impl State {
    pub(super) fn put(&mut self, name: usize, node: Option<Node>) {
        let node = node.map(|node| Node {
            version: node.version + 1,
            ..node
        });
        self.nodes[name] = node;
        for store in iter::once(&mut self.leader).chain(&mut self.standby) {
            store.send(name, node);
        }
    }

    /// The API server carries out a request, if its preconditions hold.
    pub(super) fn carry_out(&mut self, request: Request) -> bool {
        match request {
            Request::Delete { name, version } => match self.nodes[name] {
                Some(node) if node.version == version => {
                    if self.machines[name] != Machine::Gone {
                        self.violation = Some("a Node is deleted whose machine exists");
                    }
                    self.put(name, None);
                    true
                }
                Some(_) => false,
                None => true,
            },
            Request::Taint { name, adds } => match self.nodes[name] {
                Some(node) if adds && !node.is_tainted && !node.is_ready => {
                    self.put(
                        name,
                        Some(Node {
                            is_tainted: true,
                            ..node
                        }),
                    );
                    true
                }
                Some(node)
                    if !adds && node.is_ready && (node.is_tainted || node.is_out_of_service) =>
                {
                    self.put(
                        name,
                        Some(Node {
                            is_tainted: false,
                            is_out_of_service: false,
                            ..node
                        }),
                    );
                    true
                }
                _ => true,
            },
            Request::OutOfService { name, version } => match self.nodes[name] {
                Some(node) if node.version == version => {
                    if node.is_ready {
                        self.violation = Some("a Node is taken out of service that is ready");
                    }
                    if self.machines[name] == Machine::Running {
                        self.violation = Some("a Node is out of service whose machine runs");
                    }
                    self.put(
                        name,
                        Some(Node {
                            is_out_of_service: true,
                            ..node
                        }),
                    );
                    true
                }
                Some(_) => false,
                None => true,
            },
        }
    }

    /// A user or the cloud changes something.
    pub(super) fn edits(&self, add: &mut Add<'_, Self>) {
        for (name, word) in NAMES.iter().enumerate() {
            let mut edit = |what: &str, change: &dyn Fn(&mut Self)| {
                let mut after = self.clone();
                after.left.edits -= 1;
                change(&mut after);
                add(format_args!("{word}: {what}"), after);
            };
            let machine = self.machines[name];
            if machine != Machine::Gone {
                edit("the machine is removed", &|state| {
                    state.machines[name] = Machine::Gone;
                });
            }
            if machine == Machine::Stopped {
                edit("the machine starts", &|state| {
                    state.machines[name] = Machine::Started;
                });
            }
            if machine.runs() {
                edit("the machine stops", &|state| {
                    state.machines[name] = Machine::Stopped;
                });
            }
            if let Some(node) = self.nodes[name]
                && (node.is_ready || machine.runs())
            {
                edit("the condition Ready changes", &|state| {
                    let (is_ready, since) = (!node.is_ready, state.now);
                    state.put(
                        name,
                        Some(Node {
                            is_ready,
                            since,
                            ..node
                        }),
                    );
                });
            }
        }
    }
}
