//! Inputs of the election: answers, watch events.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use outrigger_core::{
    event::EventContent,
    lease::{LeaseRecord, LeaseTerm},
};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{
    super::{
        Leadership, Leading,
        object::LeaseObject,
        requests::{LeaseAnswer, Purpose},
        suspend,
        watching::{LeaseObservation, watch},
    },
    Elector,
};
use crate::error::ApiError;

impl Elector {
    pub(super) fn answered(&mut self, answer: LeaseAnswer) {
        let LeaseAnswer {
            purpose,
            sent,
            suspended,
            ..
        } = answer;
        let before = self.object.as_ref().map(LeaseObject::record);
        match self.learn(answer) {
            Ok(Some(record)) if !purpose.reads() && record.holder == self.config.identity.own => {
                self.acknowledged(sent, suspended, &record);
            }
            Ok(_) => {
                let after = self.object.as_ref().map(LeaseObject::record);
                if purpose == Purpose::Confirm && after != before && self.poll_at.is_none() {
                    debug!(
                        lease = self.config.name,
                        "the watch missed a change; starting it again"
                    );
                    self.watching = watch(self.api.clone(), &self.config);
                }
                self.standby();
            }
            Err(error) => self.failed(purpose, sent, &error),
        }
    }

    /// Observes the lease in an answer: its record, or none if there is no lease.
    pub(super) fn learn(&mut self, answer: LeaseAnswer) -> Result<Option<LeaseRecord>, ApiError> {
        let now = Instant::now().into_std();
        let sent = answer.sent.into_std();
        match answer.result {
            Ok(lease) => {
                let record = lease.record();
                let version = lease.metadata.resource_version.as_str();
                self.revision.answered(version);
                let state = Some((record.clone(), version));
                if self.observed.answered(sent, now, state) {
                    let wrote = !answer.purpose.reads();
                    let annotations = &lease.metadata.annotations;
                    self.shared.annotations.observed(annotations, wrote);
                    self.object = Some(lease);
                }
                Ok(Some(record))
            }
            Err(error) if answer.purpose.reads() && error.is_not_found() => {
                if self.observed.answered(sent, now, None) {
                    // A leader makes it again as it was.
                    if self.lease_term.is_none() {
                        self.shared.annotations.observed(&BTreeMap::new(), false);
                    }
                    self.object = None;
                }
                Ok(None)
            }
            Err(error) => {
                self.observed.invalidate();
                Err(error)
            }
        }
    }

    /// A claim or a renewal was acknowledged.
    fn acknowledged(&mut self, sent: Instant, suspended: Duration, record: &LeaseRecord) {
        // The others' time went on while this machine was suspended.
        let now = Instant::now() + suspend::at_most().saturating_sub(suspended);
        self.recovered();
        let durations = &self.config.durations;
        let leading = self.leading();
        if let (Some(lease_term), Some(leading)) = (&mut self.lease_term, leading) {
            let is_over = leading.token().is_cancelled();
            if !is_over && lease_term.extend(sent.into_std(), now.into_std(), durations) {
                leading.extend(lease_term.deadline(durations).into(), suspended);
                *self.shared.renewed.lock() = Some(sent);
                // A change that came meanwhile is written immediately; one that another client undoes again
                // (an admission webhook) waits, or the two would write without end.
                if self.shared.annotations.is_undone() {
                    self.not_before = sent + self.config.durations.retry_period();
                }
                self.report_undone();
            }
            // Otherwise the next decision ends it.
            return;
        }
        let contends = self
            .candidacy
            .contends_at()
            .is_some_and(|at| at <= now.into_std());
        let lease_term = LeaseTerm::begin(sent.into_std(), now.into_std(), record, durations);
        let Some(lease_term) = lease_term.filter(|_| contends) else {
            return;
        };
        let deadline = lease_term.deadline(durations).into();
        let killed = self.config.identity.killed().map(Instant::into_std);
        let quiet_at = durations.quiet_at(now.into_std(), killed).into();
        let leading = Leading::until(now, quiet_at, deadline, suspended, lease_term.epoch());
        info!(
            lease = self.config.name,
            epoch = record.transitions,
            "successfully acquired lease"
        );
        self.metrics.leading(&self.config.name, true);
        *self.shared.renewed.lock() = Some(sent);
        self.leadership.send_replace(Leadership::Leading(leading));
        self.lease_term = Some(lease_term);
        self.record_event("became leader");
    }

    /// Reports once each annotation that another client undoes.
    fn report_undone(&self) {
        let (undone, new) = self.shared.annotations.undone();
        self.metrics.undone(&self.config.name, undone);
        for key in new {
            warn!(
                lease = self.config.name,
                annotation = key,
                "lease does not keep an annotation: an admission policy or webhook changes it in each write"
            );
            let message = format!(
                "The annotation {key} is not kept: an admission policy or webhook changes it in each write. \
                 Its value is lost with each start of the controller; let the writes of {} pass",
                self.config.identity.own
            );
            self.send_event(EventContent::warning("LeaseAnnotationUndone", &message));
        }
    }

    fn failed(&mut self, purpose: Purpose, sent: Instant, error: &ApiError) {
        let leads = self.lease_term.is_some();
        if leads && purpose == Purpose::Update {
            self.metrics.slow(&self.config.name);
        }
        let lease = &self.config.name;
        // Another client wrote, or deleted it: it is read immediately. But a collection is never absent.
        if error.code() == Some(409) || (error.is_not_found() && purpose != Purpose::Create) {
            debug!(lease, ?purpose, %error, "lease is not the version written on");
            return;
        }
        let now = Instant::now();
        self.not_before = if leads {
            now.max(sent + self.config.durations.retry_period())
        } else {
            now + self.config.durations.retry(fastrand::f64())
        };
        if self.failures == 0 {
            warn!(lease, ?purpose, %error, leads, "lease cannot be reached; trying again");
        } else {
            debug!(lease, ?purpose, %error, leads, failures = self.failures, "lease still cannot be reached");
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn recovered(&mut self) {
        if self.failures > 0 {
            info!(
                lease = self.config.name,
                failures = self.failures,
                "lease reached again"
            );
            self.failures = 0;
        }
    }

    pub(super) fn observed(&mut self, observation: LeaseObservation) {
        let now = Instant::now();
        match observation {
            LeaseObservation::Opened => self.poll_at = None,
            LeaseObservation::Broken(error) => {
                let lease = &self.config.name;
                match error {
                    Some(error) if self.poll_at.is_none() => {
                        warn!(lease, %error, "lease cannot be watched; polling it");
                    }
                    error => debug!(lease, ?error, "watch of the lease ended"),
                }
                let retry = self.config.durations.retry(fastrand::f64());
                self.poll_at.get_or_insert(now + retry);
            }
            LeaseObservation::Lease(lease) => {
                let version = lease.metadata.resource_version.as_str();
                if self
                    .observed
                    .watched(now.into_std(), Some(lease.record()), version)
                {
                    let annotations = &lease.metadata.annotations;
                    self.shared.annotations.observed(annotations, false);
                    self.object = Some(*lease);
                    self.standby();
                }
            }
            LeaseObservation::Deleted(version) => {
                if self.observed.watched(now.into_std(), None, &version) {
                    self.object = None;
                    self.standby();
                }
            }
        }
    }

    /// Tells who leads, if we do not.
    pub(super) fn standby(&mut self) {
        self.recovered();
        if self.lease_term.is_some() {
            return;
        }
        let holder = self.observed.holder();
        if holder.is_some_and(|holder| holder != self.config.identity.own) {
            self.candidacy.observe_rival();
        }
        let changed = self
            .leadership
            .send_if_modified(|leadership| match leadership {
                Leadership::Standby { holder: last } if last.as_deref() == holder => false,
                _ => {
                    *leadership = Leadership::Standby {
                        holder: holder.map(Arc::from),
                    };
                    true
                }
            });
        if changed && let Some(holder) = holder {
            info!(lease = self.config.name, holder, "new leader elected");
        }
    }
}
