//! Bad answers about load balancers.

use outrigger_api::v1::update_load_balancer_nodes_response::Outcome;
use outrigger_api::v1::{
    DeleteLoadBalancerResponse, EnsureLoadBalancerResponse, GetLoadBalancerResponse,
    ListLoadBalancersResponse, LoadBalancerDisposition, LoadBalancerIngress, LoadBalancerStatus,
    LoadBalancerUpdated, OwnedLoadBalancer, ServiceRef, UpdateLoadBalancerNodesResponse,
};

use super::BadAnswer;

/// The parts of an answer that can be spoilt.
struct Parts<'a> {
    disposition: &'a mut i32,
    status: Option<&'a mut Option<LoadBalancerStatus>>,
    retry_after: Option<&'a mut Option<prost_types::Duration>>,
    message: &'a mut String,
}

impl Parts<'_> {
    fn spoil(self, bad: BadAnswer) {
        match bad {
            BadAnswer::MissingDisposition => *self.disposition = 0,
            BadAnswer::NotManaged => {
                *self.disposition = LoadBalancerDisposition::NotManaged.into();
            }
            BadAnswer::FalseAbsence => *self.disposition = LoadBalancerDisposition::Absent.into(),
            BadAnswer::MissingStatus => {
                *self.disposition = LoadBalancerDisposition::Ready.into();
                if let Some(status) = self.status {
                    *status = None;
                }
            }
            BadAnswer::FarRetry => {
                *self.disposition = LoadBalancerDisposition::InProgress.into();
                if let Some(retry_after) = self.retry_after {
                    *retry_after = Some(prost_types::Duration {
                        seconds: 3_600_000,
                        nanos: 0,
                    });
                }
            }
            BadAnswer::MalformedAddress | BadAnswer::OversizedStrings => {
                if let Some(status) = self.status {
                    spoil_status(bad, status);
                }
                if bad == BadAnswer::OversizedStrings {
                    *self.message = "m".repeat(100_000);
                }
            }
            _ => {}
        }
    }
}

fn spoil_status(bad: BadAnswer, status: &mut Option<LoadBalancerStatus>) {
    let ingress = if bad == BadAnswer::MalformedAddress {
        LoadBalancerIngress {
            ip: "999.0.2.1/33".to_owned(),
            ..LoadBalancerIngress::default()
        }
    } else {
        LoadBalancerIngress {
            hostname: "h".repeat(2_000),
            ..LoadBalancerIngress::default()
        }
    };
    status.get_or_insert_default().ingress.insert(0, ingress);
}

impl BadAnswer {
    pub(crate) fn spoil_get(self, answer: &mut GetLoadBalancerResponse) {
        if self == Self::Empty {
            *answer = GetLoadBalancerResponse::default();
        }
        Parts {
            disposition: &mut answer.disposition,
            status: Some(&mut answer.status),
            retry_after: None,
            message: &mut answer.message,
        }
        .spoil(self);
    }

    pub(crate) fn spoil_ensure(self, answer: &mut EnsureLoadBalancerResponse) {
        if self == Self::Empty {
            *answer = EnsureLoadBalancerResponse::default();
        }
        Parts {
            disposition: &mut answer.disposition,
            status: Some(&mut answer.status),
            retry_after: Some(&mut answer.retry_after),
            message: &mut answer.message,
        }
        .spoil(self);
    }

    pub(crate) fn spoil_delete(self, answer: &mut DeleteLoadBalancerResponse) {
        if self == Self::Empty {
            *answer = DeleteLoadBalancerResponse::default();
        }
        Parts {
            disposition: &mut answer.disposition,
            status: None,
            retry_after: Some(&mut answer.retry_after),
            message: &mut answer.message,
        }
        .spoil(self);
    }

    /// Spoils the results of an update, each of which is a message.
    pub(crate) fn spoil_updates(
        self,
        results: &mut Vec<UpdateLoadBalancerNodesResponse>,
        concerns: impl Fn(Option<&ServiceRef>) -> bool,
    ) {
        let concerned =
            |result: &UpdateLoadBalancerNodesResponse| concerns(result.service.as_ref());
        match self {
            Self::MissingResult => results.retain(|result| !concerned(result)),
            Self::DuplicateResult => {
                let twins: Vec<_> = results
                    .iter()
                    .filter(|one| concerned(one))
                    .cloned()
                    .collect();
                results.extend(twins);
            }
            Self::ForeignResult => results.push(UpdateLoadBalancerNodesResponse {
                service: Some(ServiceRef {
                    namespace: "nowhere".to_owned(),
                    name: "nobody".to_owned(),
                    uid: "nobody-asked".to_owned(),
                }),
                outcome: Some(Outcome::Updated(LoadBalancerUpdated {
                    disposition: LoadBalancerDisposition::Ready.into(),
                    ..LoadBalancerUpdated::default()
                })),
            }),
            Self::Empty => results
                .iter_mut()
                .filter(|result| concerns(result.service.as_ref()))
                .for_each(|result| result.outcome = None),
            _ => {
                for result in results.iter_mut() {
                    if let Some(Outcome::Updated(updated)) = &mut result.outcome
                        && concerns(result.service.as_ref())
                    {
                        Parts {
                            disposition: &mut updated.disposition,
                            status: Some(&mut updated.status),
                            retry_after: Some(&mut updated.retry_after),
                            message: &mut updated.message,
                        }
                        .spoil(self);
                    }
                }
            }
        }
    }

    /// Spoils a part of a list.
    pub(crate) fn spoil_owned(
        self,
        answer: &mut ListLoadBalancersResponse,
        concerns: impl Fn(Option<&ServiceRef>) -> bool,
    ) {
        let listed = &mut answer.load_balancers;
        let concerned = |one: &OwnedLoadBalancer| concerns(one.service.as_ref());
        match self {
            Self::MissingResult => listed.retain(|one| !concerned(one)),
            Self::DuplicateResult => {
                let twins: Vec<_> = listed
                    .iter()
                    .filter(|one| concerned(one))
                    .cloned()
                    .collect();
                listed.extend(twins);
            }
            Self::Empty => {
                listed.clear();
                answer.complete = false;
            }
            Self::MalformedAddress | Self::OversizedStrings => listed
                .iter_mut()
                .filter(|one| concerns(one.service.as_ref()))
                .for_each(|one| spoil_status(self, &mut one.status)),
            _ => {}
        }
    }
}
