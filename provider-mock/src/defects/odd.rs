//! The mistake that takes more than steps: it goes on after its call.

use std::time::Duration;

use outrigger_api::MethodRequest as _;
use outrigger_api::v1::DeleteLoadBalancerRequest;
use tokio::time::sleep;

use super::Defect;
use super::hook::On;

/// Does something when it is dropped, unless the call ended before.
pub(super) struct Cancelled<F: FnOnce()> {
    then: Option<F>,
}

impl<F: FnOnce()> Cancelled<F> {
    pub(super) fn new(then: F) -> Self {
        Self { then: Some(then) }
    }

    /// The call has ended.
    pub(super) fn done(mut self) {
        self.then = None;
    }
}

impl<F: FnOnce()> Drop for Cancelled<F> {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then();
        }
    }
}

/// An Ensure that is cancelled is carried out later, and undone.
#[expect(
    clippy::disallowed_methods,
    reason = "the mistake is that no owner watches it"
)]
pub(super) fn goes_on_after_cancel() -> Defect {
    let on = On::Method(crate::faults::Method::EnsureLoadBalancer);
    Defect::new("goes-on-after-cancel").around(on, move |call, next| async move {
        let (cancelled_call, behind) = (call.clone(), next.clone());
        let cancelled = Cancelled::new(move || {
            tokio::spawn(async move {
                sleep(Duration::from_millis(2_800)).await;
                behind.correct(cancelled_call.clone()).await;
                // Context and Service have the same place in each request.
                let request: DeleteLoadBalancerRequest = cancelled_call.message();
                let path = DeleteLoadBalancerRequest::METHOD.path;
                behind.correct(cancelled_call.other(path, &request)).await;
            });
        });
        sleep(Duration::from_millis(10)).await;
        let answer = next.serve(call).await;
        cancelled.done();
        answer
    })
}
