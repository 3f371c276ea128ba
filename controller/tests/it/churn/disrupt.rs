//! Carries out the disruptions of a drill, one after the other.

use super::{
    disruption::{Disruption, What},
    killer::{Crew, make_trouble},
    meddler,
};

impl Crew<'_> {
    /// Carries out the plan. At the end all processes are as before, and nothing is edited any more.
    pub(super) async fn disrupt(&mut self, disruptions: Vec<Disruption>) {
        make_trouble(self.stage).await;
        let count = disruptions.len();
        for (number, Disruption { after, what }) in disruptions.into_iter().enumerate() {
            self.pass(after).await;
            self.is_last = number + 1 == count;
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
                What::Answer(wrong, time) => meddler::answer(self, *wrong, *time).await,
                What::Retry(method, after) => meddler::retry(self, *method, *after).await,
                What::Meddle(meddling, number) => {
                    self.view.routes.meddle(*meddling, *number).await;
                }
                What::Revoke(resource, time) => meddler::revoke(self, resource, *time).await,
            }
            self.journal.note(&format!("end: {what:?}"));
        }
        self.over.cancel();
        self.keep_alive();
    }
}
