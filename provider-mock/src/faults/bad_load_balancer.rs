//! Bad answers about load balancers.

use outrigger_api::v1::update_load_balancer_nodes_response::Outcome;
use outrigger_api::v1::{
    ListLoadBalancersResponse, LoadBalancerAnswer, LoadBalancerDisposition, LoadBalancerIngress,
    LoadBalancerStatus, OwnedLoadBalancer, ServiceRef, UpdateLoadBalancerNodesResponse,
};

use super::BadAnswer;

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
    /// Spoils the answer about one load balancer.
    pub(crate) fn spoil_answer(self, answer: &mut Option<LoadBalancerAnswer>) {
        match self {
            Self::Empty => *answer = None,
            _ => self.spoil_load_balancer(answer.get_or_insert_default()),
        }
    }

    fn spoil_load_balancer(self, answer: &mut LoadBalancerAnswer) {
        use LoadBalancerDisposition as Wire;
        match self {
            Self::MissingDisposition => answer.set_disposition(Wire::Unspecified),
            Self::NotManaged => answer.set_disposition(Wire::NotManaged),
            Self::FalseAbsence => answer.set_disposition(Wire::Absent),
            Self::MissingStatus => {
                answer.set_disposition(Wire::Ready);
                answer.status = None;
            }
            Self::FarRetry => {
                answer.set_disposition(Wire::InProgress);
                answer.retry_after = Some(prost_types::Duration {
                    seconds: 3_600_000,
                    nanos: 0,
                });
            }
            Self::InProgressWithoutStatus => {
                answer.set_disposition(Wire::InProgress);
                answer.status = Some(LoadBalancerStatus::default());
                answer.retry_after = Some(prost_types::Duration {
                    seconds: 5,
                    nanos: 0,
                });
            }
            Self::MalformedAddress => spoil_status(self, &mut answer.status),
            Self::OversizedStrings => {
                spoil_status(self, &mut answer.status);
                answer.message = "m".repeat(100_000);
            }
            _ => {}
        }
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
                    name: "stray".to_owned(),
                    uid: "not-asked-about".to_owned(),
                }),
                outcome: Some(Outcome::Answer(LoadBalancerAnswer {
                    disposition: LoadBalancerDisposition::Ready.into(),
                    ..LoadBalancerAnswer::default()
                })),
            }),
            Self::Empty => results
                .iter_mut()
                .filter(|result| concerns(result.service.as_ref()))
                .for_each(|result| result.outcome = None),
            _ => {
                for result in results.iter_mut() {
                    if let Some(Outcome::Answer(answer)) = &mut result.outcome
                        && concerns(result.service.as_ref())
                    {
                        self.spoil_load_balancer(answer);
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
