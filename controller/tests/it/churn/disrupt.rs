//! Carries out the disruptions of a drill, one after the other.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    disruption::{Disruption, What},
    killer::{Crew, make_trouble},
    meddler,
};

impl Crew<'_> {
    /// Carries out the plan, or as much of it as fits into a time. At the end all processes are as before, and
    /// nothing is edited any more.
    pub(super) async fn disrupt(&mut self, disruptions: Vec<Disruption>, lasts: Option<Duration>) {
        make_trouble(self.stage).await;
        let end = lasts.map(|time| Instant::now() + time);
        let count = disruptions.len();
        for (number, Disruption { after, what }) in disruptions.into_iter().enumerate() {
            self.pass(after).await;
            let is_late = end.is_some_and(|end| Instant::now() >= end);
            self.is_last = is_late || number + 1 == count;
            // Those of an hour would fill the memory.
            self.stage.proxy.take_requests();
            self.journal.note(&format!("begin: {what:?}"));
            match &what {
                What::Kill(victims) => self.kill(victims).await,
                What::Terminate => self.terminate().await,
                What::Declare(declaration, time) => {
                    meddler::declare(self, *declaration, *time).await;
                }
                What::Reconfigure(takes) => meddler::reconfigure(self, *takes).await,
                What::Forget(takes) => meddler::forget(self, *takes).await,
                What::Freeze(time) => meddler::freeze(self, *time).await,
                What::Disconnect(time) => meddler::disconnect(self, *time).await,
                What::Lack(method, time) => meddler::lack(self, *method, *time).await,
                What::Meddle(meddling, number) => {
                    self.view.routes.meddle(*meddling, *number).await;
                }
                What::Revoke(resource, time) => meddler::revoke(self, resource, *time).await,
            }
            self.journal.note(&format!("end: {what:?}"));
            if self.is_last {
                break;
            }
        }
        self.over.cancel();
        self.keep_alive();
    }
}
