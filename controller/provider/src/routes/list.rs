//! All routes of this cluster.

use outrigger_api::v1;
use outrigger_core::{fault::Fault, route::ObservedRoute};

use super::message;
use crate::gather::Collector;

/// Routes that keep the contract, and how many do not.
#[derive(Default)]
pub(super) struct CheckedRoutes {
    pub(super) listed: Vec<ObservedRoute>,
    pub(super) left_out: usize,
    pub(super) fault: Option<Fault>,
}

impl Collector for CheckedRoutes {
    type Entry = v1::Route;

    fn take(&mut self, entry: v1::Route) {
        match message::raw(entry).check() {
            Ok(route) => self.listed.push(route),
            Err(fault) => {
                self.left_out += 1;
                self.fault = Some(fault);
            }
        }
    }
}
