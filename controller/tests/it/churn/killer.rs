//! The processes of a drill: ends them, and starts them again, as kubelet does.

use std::{sync::Arc, time::Duration};

use outrigger_provider_mock::faults::{Effect, Fault, InjectedError, Method};
use rustix::process::Signal;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{agreement::View, disruption::Victim, journal::Journal, ledger::Ledger};
use crate::{controller::Controller, stage::Stage};

/// How long a controller may take to end after SIGTERM.
const END: Duration = Duration::from_secs(40);

/// All processes of a drill.
pub(super) struct Crew<'a> {
    pub(super) stage: &'a mut Stage,
    /// With leader election: the controller that leads when the other one does not.
    standby: Option<Controller>,
    pub(super) ledger: Ledger,
    pub(super) view: View,
    pub(super) journal: Arc<Journal>,
    /// True while an API server runs.
    api_server: watch::Sender<bool>,
    /// Flags of the mock, except those that change.
    flags: Vec<String>,
    /// Number of the provider's `configuration_revision`.
    pub(super) revision: u32,
    /// The end of the edits.
    pub(super) over: CancellationToken,
    pub(super) is_last: bool,
}

impl<'a> Crew<'a> {
    pub(super) fn new(
        stage: &'a mut Stage,
        elects: bool,
        (view, ledger): (&View, &Ledger),
        journal: &Arc<Journal>,
        api_server: watch::Sender<bool>,
        over: &CancellationToken,
    ) -> Self {
        let standby = elects.then(|| stage.another_controller());
        let flags = stage.mock_flags().to_vec();
        Self {
            stage,
            standby,
            ledger: ledger.clone(),
            view: view.clone(),
            journal: Arc::clone(journal),
            api_server,
            flags,
            revision: 0,
            over: over.clone(),
            is_last: false,
        }
    }

    pub(super) fn provider_flags(&self) -> Vec<String> {
        let mut flags = self.flags.clone();
        if self.revision > 0 {
            let revision = self.revision;
            flags.push(format!("--lb-configuration-revision=r{revision}"));
        }
        flags
    }

    /// Before the last disruption: an edit after it would hide what it has broken, and so would a
    /// node that is still being initialised.
    pub(super) async fn end_of_last(&mut self) {
        if self.is_last {
            self.journal.note("the edits end");
            self.over.cancel();
            self.pass(Duration::from_secs(3)).await;
        }
    }

    pub(super) async fn kill(&mut self, victims: &[(Victim, Duration)]) {
        let disturbance = self.ledger.disturb();
        for (victim, _) in victims {
            match victim {
                Victim::Controller => self.kill_leader().await,
                Victim::Provider => self.stage.mock.kill().await,
                Victim::ApiServer => {
                    self.stage.plane.kill_apiserver().await.unwrap();
                    self.api_server.send_replace(false);
                }
            }
        }
        let killed = Instant::now();
        for (victim, away) in victims {
            sleep_until(killed + *away).await;
            match victim {
                Victim::Controller => self.stage.start_controller(),
                Victim::Provider => {
                    self.stage.restart_mock().await;
                    make_trouble(self.stage).await;
                }
                Victim::ApiServer => {
                    self.stage.plane.start_apiserver().await.unwrap();
                    self.api_server.send_replace(true);
                }
            }
            self.journal.note(&format!("{victim:?} is back"));
        }
        drop(disturbance);
    }

    pub(super) async fn kill_leader(&mut self) {
        self.lead();
        self.stage.kill_controller().await;
    }

    /// SIGTERM while more Services are worked on than there are workers.
    pub(super) async fn terminate(&mut self) {
        let slow = Effect::Hang {
            duration: Some(Duration::from_secs(4)),
        };
        let slow = Fault::on(Method::EnsureLoadBalancer, slow);
        self.stage.mock.inject(slow).await;
        self.pass(Duration::from_millis(2_500)).await;
        self.lead();
        let disturbance = self.ledger.disturb();
        let process = self.stage.controller.pid() as i32;
        self.journal.note(&format!("SIGTERM to process {process}"));
        self.ledger.terminate(process);
        self.stage.controller.signal(Signal::TERM);
        let end = Instant::now() + END;
        while !self.stage.controller.has_ended() {
            assert!(Instant::now() < end, "no end within {END:?} after SIGTERM");
            sleep(Duration::from_millis(50)).await;
        }
        self.journal.note(&format!("process {process} has ended"));
        self.stage.mock.clear().await;
        make_trouble(self.stage).await;
        self.stage.start_controller();
        drop(disturbance);
    }

    /// Makes the controller that leads, as far as is known, the first one.
    fn lead(&mut self) {
        let Some(standby) = &mut self.standby else {
            return;
        };
        if !standby.has_ended() && self.ledger.writer() == Some(standby.pid() as i32) {
            std::mem::swap(standby, &mut self.stage.controller);
        }
        self.keep_alive();
    }

    /// Lets time pass, and starts a controller again that has ended by itself: one that has lost
    /// its Lease does.
    pub(super) async fn pass(&mut self, time: Duration) {
        const EVERY: Duration = Duration::from_millis(100);
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.keep_alive();
            sleep(EVERY.min(end - Instant::now())).await;
        }
    }

    pub(super) fn keep_alive(&mut self) {
        if self.stage.controller.has_ended() {
            self.journal.note("a controller has ended by itself");
            drop(self.ledger.disturb());
            self.stage.start_controller();
        }
        if let Some(standby) = &mut self.standby
            && standby.has_ended()
        {
            self.journal.note("a controller has ended by itself");
            drop(self.ledger.disturb());
            *standby = self.stage.another_controller();
        }
    }
}

/// The failures that the provider's cloud always has, until the provider is killed.
pub(super) async fn make_trouble(stage: &Stage) {
    let unavailable = || InjectedError::new(Code::Unavailable);
    let slow = Effect::Hang {
        duration: Some(Duration::from_millis(400)),
    };
    for (method, effect, rate) in [
        (
            Method::EnsureLoadBalancer,
            Effect::Error(unavailable()),
            0.04,
        ),
        (Method::EnsureLoadBalancer, Effect::LoseReply, 0.06),
        (Method::EnsureLoadBalancer, slow.clone(), 0.05),
        (
            Method::DeleteLoadBalancer,
            Effect::Error(unavailable()),
            0.04,
        ),
        (Method::DeleteLoadBalancer, Effect::LoseReply, 0.06),
        (
            Method::UpdateLoadBalancerNodes,
            Effect::ItemError(unavailable()),
            0.04,
        ),
        (Method::UpdateLoadBalancerNodes, Effect::LoseReply, 0.06),
        (Method::UpdateLoadBalancerNodes, slow.clone(), 0.1),
        (Method::SyncNodeSet, Effect::LoseReply, 0.1),
        (Method::ListRoutes, Effect::Error(unavailable()), 0.04),
        (Method::ListRoutes, Effect::LoseReply, 0.06),
    ] {
        stage
            .mock
            .inject(Fault::on(method, effect).with_rate(rate))
            .await;
    }
    for method in [Method::BatchCreateRoutes, Method::BatchDeleteRoutes] {
        for (effect, rate) in [
            (Effect::ItemError(unavailable()), 0.04),
            (Effect::LoseReply, 0.06),
            (slow.clone(), 0.05),
        ] {
            let fault = Fault::on(method, effect).with_rate(rate);
            stage.mock.inject(fault).await;
        }
    }
}
