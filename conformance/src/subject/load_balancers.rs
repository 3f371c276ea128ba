//! A Service and its load balancer, called as the controller calls.

use std::{fmt, time::Duration};

use outrigger_api::{
    MethodRequest as _,
    v1::{
        DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ErrorReason, GetLoadBalancerRequest,
        HealthCheck, HealthCheckCapability, HealthCheckProtocol as Protocol,
        ListLoadBalancersRequest, LoadBalancerAnswer, LoadBalancerDisposition as Disposition,
        LoadBalancerOptions, Node, NodeTargets, PlanLoadBalancerRequest, PlanOperation,
        PlannedChange, Service, ServicePort, ServiceRef, UpdateLoadBalancerNodesRequest,
    },
};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::Subject;
use crate::{
    call_error::CallError,
    inputs::limit,
    verdict::{Required as _, Verdict, expect, failed},
};

/// The namespace of all Services of the suite.
const NAMESPACE: &str = "outrigger-conformance";

/// Waits that a provider asks for are kept between these: the suite is faster than the contract's
/// 1 s, since a run has many.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);

impl Subject {
    /// A Service that no other case has. Its load balancer is deleted after the case.
    pub fn service(&self) -> Service {
        let name = self.name();
        let input = &self.inputs().services;
        let families = match &*input.ip_families {
            [] => vec!["IPv4".to_owned()],
            families => families[..1].to_vec(),
        };
        let mut service = Service {
            namespace: NAMESPACE.to_owned(),
            uid: Uuid::new_v4().to_string(),
            name,
            annotations: input.annotations.clone().into_iter().collect(),
            r#type: "LoadBalancer".to_owned(),
            ports: vec![port("TCP", 80, 30080)],
            load_balancer_class: input.load_balancer_class.clone().or_else(|| {
                let offered = self.load_balancers();
                let first = offered.classes.first().cloned();
                first.filter(|_| offered.without_default_class)
            }),
            external_traffic_policy: "Cluster".to_owned(),
            session_affinity: "None".to_owned(),
            ip_families: families,
            ip_family_policy: "SingleStack".to_owned(),
            ..Service::default()
        };
        self.reset_options(&mut service);
        self.leftovers().expect(service.clone());
        service
    }

    /// Gives a Service the options of a user who asks for none, as the controller does.
    pub(crate) fn reset_options(&self, service: &mut Service) {
        let offered = self.load_balancers().options;
        service.load_balancer_options = offered.map(|offered| {
            let check = offered.health_check.as_ref();
            LoadBalancerOptions {
                health_check: check.map(|check| implied_check(check, service)),
                ..LoadBalancerOptions::default()
            }
        });
    }

    /// `GetLoadBalancer`, with or without targets to compare.
    pub async fn get(
        &self,
        service: &Service,
        targets: Option<NodeTargets>,
    ) -> Result<LoadBalancerAnswer, CallError> {
        let request = GetLoadBalancerRequest {
            service: Some(service.clone()),
            targets,
            ..GetLoadBalancerRequest::default()
        };
        let answered = self.client.call(request).await?;
        Ok(answered.answer.unwrap_or_default())
    }

    /// Fails unless `GetLoadBalancer` without targets has this disposition.
    pub async fn get_is(&self, service: &Service, disposition: Disposition) -> Verdict {
        let answer = self.get(service, None).await?;
        let expected = format!("GetLoadBalancer is {}", name_of(disposition));
        expect_one_of(&[disposition], &answer, expected)
    }

    /// A Service whose load balancer is READY with all targets; its answer.
    pub async fn balanced(&self) -> Verdict<(Service, LoadBalancerAnswer)> {
        let service = self.service();
        let ready = self.ensure_all(&service).await?;
        Ok((service, ready))
    }

    /// Ensures with all targets until READY.
    pub async fn ensure_all(&self, service: &Service) -> Verdict<LoadBalancerAnswer> {
        self.ensure(service, &self.target_nodes()).await
    }

    /// One `EnsureLoadBalancer`.
    pub async fn ensure_once(
        &self,
        service: &Service,
        targets: Option<NodeTargets>,
    ) -> Result<LoadBalancerAnswer, CallError> {
        let request = EnsureLoadBalancerRequest {
            service: Some(service.clone()),
            targets,
            ..EnsureLoadBalancerRequest::default()
        };
        let answered = self.client.call(request).await?;
        Ok(answered.answer.unwrap_or_default())
    }

    /// One `UpdateLoadBalancerNodes`.
    pub(crate) async fn update(
        &self,
        service: &Service,
        targets: Option<NodeTargets>,
    ) -> Result<LoadBalancerAnswer, CallError> {
        let request = UpdateLoadBalancerNodesRequest {
            service: Some(service.clone()),
            targets,
            ..UpdateLoadBalancerNodesRequest::default()
        };
        let answered = self.client.call(request).await?;
        Ok(answered.answer.unwrap_or_default())
    }

    /// Ensures with these targets until READY, as the controller does.
    pub async fn ensure(&self, service: &Service, nodes: &[Node]) -> Verdict<LoadBalancerAnswer> {
        let targets = self.targets(nodes).await?;
        self.ensure_with(service, targets).await
    }

    /// Ensures until READY.
    pub async fn ensure_with(
        &self,
        service: &Service,
        targets: Option<NodeTargets>,
    ) -> Verdict<LoadBalancerAnswer> {
        let within = limit(self.inputs().limits.ready);
        let call = async || self.ensure_once(service, targets.clone()).await;
        let rpc = EnsureLoadBalancerRequest::METHOD.name;
        until(rpc, within, &[Disposition::Ready], call).await
    }

    /// Deletes until nothing is left.
    pub async fn delete(&self, service: &Service) -> Verdict<LoadBalancerAnswer> {
        let within = limit(self.inputs().limits.gone);
        let call = async || self.delete_once(service).await;
        let ended = [
            Disposition::Absent,
            Disposition::Retained,
            Disposition::NotManaged,
        ];
        until(DeleteLoadBalancerRequest::METHOD.name, within, &ended, call).await
    }

    /// One `DeleteLoadBalancer`.
    pub async fn delete_once(&self, service: &Service) -> Result<LoadBalancerAnswer, CallError> {
        let request = DeleteLoadBalancerRequest {
            service: Some(service.clone()),
            ..DeleteLoadBalancerRequest::default()
        };
        let answered = self.client.call(request).await?;
        Ok(answered.answer.unwrap_or_default())
    }

    /// One `PlanLoadBalancer`, of an Ensure with all targets.
    pub(crate) async fn plan(
        &self,
        service: &Service,
        operation: PlanOperation,
    ) -> Verdict<Vec<PlannedChange>> {
        let targets = self.targets(&self.target_nodes()).await?;
        let request = PlanLoadBalancerRequest {
            operation: operation.into(),
            service: Some(service.clone()),
            targets: targets.filter(|_| operation == PlanOperation::Ensure),
            ..PlanLoadBalancerRequest::default()
        };
        Ok(self.client.call(request).await?.changes)
    }

    /// The Services of all load balancers that a list has.
    pub(crate) async fn listed_services(&self) -> Result<Vec<ServiceRef>, CallError> {
        let request = ListLoadBalancersRequest::default();
        let listed = self.client.list(request).await?;
        let tags = listed.entries.into_iter();
        Ok(tags.filter_map(|one| one.service).collect())
    }

    /// Holds a list, where there is one, against "one load balancer of this Service".
    pub(crate) async fn is_listed_once(&self, service: &Service) -> Verdict {
        if !self.load_balancers().list {
            return Ok(());
        }
        let listed = self.listed_services().await?;
        let count = listed.iter().filter(|tag| tag.uid == service.uid).count();
        let expected = format!("the list has one load balancer of {}", service.name);
        expect(count == 1, expected, count)
    }

    /// An Ensure whose caller goes away after so many milliseconds. It may have ended before.
    pub(crate) async fn cut_off(&self, service: &Service, moment: u64) -> Verdict {
        let targets = self.targets(&self.target_nodes()).await?;
        let ensure = self.ensure_once(service, targets);
        let _ = timeout(Duration::from_millis(moment), ensure).await;
        Ok(())
    }
}

/// Port of kube-proxy's own health check.
const KUBE_PROXY: i32 = 10_256;

/// The health check of a Service whose user asks for none.
fn implied_check(offered: &HealthCheckCapability, service: &Service) -> HealthCheck {
    let http = offered.protocols().find(|one| *one == Protocol::Http);
    let protocol = http.or(offered.protocols().next()).unwrap_or_default();
    let has_path = protocol != Protocol::Tcp;
    let port = match &*service.external_traffic_policy {
        "Local" => service.health_check_node_port,
        _ => KUBE_PROXY,
    };
    HealthCheck {
        implied: true,
        protocol: protocol.into(),
        port: port.unsigned_abs(),
        path: if has_path { "/healthz" } else { "" }.to_owned(),
        ..HealthCheck::default()
    }
}

/// Why a repeated call has not ended.
pub(crate) enum Unended {
    /// With this error, after which it is not repeated.
    Error(CallError),
    /// With another disposition, or not in time.
    Other(String),
}

impl fmt::Display for Unended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Repeats a call until its disposition is one of `ended`; fails if it does not end so.
async fn until(
    rpc: &str,
    within: Duration,
    ended: &[Disposition],
    call: impl AsyncFnMut() -> Result<LoadBalancerAnswer, CallError>,
) -> Verdict<LoadBalancerAnswer> {
    let names: Vec<_> = ended.iter().map(|one| name_of(*one)).collect();
    let expected = format!("{rpc} is answered {} within {within:?}", names.join(" or "));
    repeated(within, ended, call).await.required(expected)
}

/// Repeats a call until its disposition is one of `ended`; waits as the provider says.
pub(crate) async fn repeated(
    within: Duration,
    ended: &[Disposition],
    mut call: impl AsyncFnMut() -> Result<LoadBalancerAnswer, CallError>,
) -> Result<LoadBalancerAnswer, Unended> {
    let started = Instant::now();
    loop {
        let left = within.saturating_sub(started.elapsed());
        let answer = patiently(left, &mut call).await.map_err(Unended::Error)?;
        if ended.contains(&answer.disposition()) {
            return Ok(answer);
        }
        if answer.disposition() != Disposition::InProgress || started.elapsed() > within {
            return Err(Unended::Other(describe(&answer)));
        }
        let wait = answer.retry_after.and_then(|wait| wait.try_into().ok());
        sleep(wait.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST)).await;
    }
}

/// Calls again after an error that the controller repeats without showing it.
pub(crate) async fn patiently<T>(
    within: Duration,
    mut call: impl AsyncFnMut() -> Result<T, CallError>,
) -> Result<T, CallError> {
    let started = Instant::now();
    loop {
        match call().await {
            Err(error) if is_passing(&error) && started.elapsed() <= within => {
                let wait = error.retry_after.unwrap_or(SHORTEST);
                sleep(wait.clamp(SHORTEST, LONGEST)).await;
            }
            answered => return answered,
        }
    }
}

/// An error after which the controller repeats the call without showing it.
pub(crate) fn is_passing(error: &CallError) -> bool {
    error.reason().is_some_and(|reason| {
        [
            ErrorReason::OperationInProgress,
            ErrorReason::Conflict,
            ErrorReason::RateLimited,
            ErrorReason::Overloaded,
        ]
        .contains(&reason)
    })
}

/// An answer, or a loss against another call about the same key.
pub(crate) fn answered_or_lost(answered: Result<LoadBalancerAnswer, CallError>) -> Verdict {
    let lost = [ErrorReason::OperationInProgress, ErrorReason::Conflict];
    match answered.err() {
        Some(error) if !lost.iter().any(|reason| error.is(*reason)) => {
            Err(failed("an answer, or OPERATION_IN_PROGRESS", error))
        }
        _ => Ok(()),
    }
}

/// A port of a Service.
pub fn port(protocol: &str, port: i32, node_port: i32) -> ServicePort {
    ServicePort {
        name: format!("{}-{port}", protocol.to_lowercase()),
        protocol: protocol.to_owned(),
        port,
        node_port,
        target_port: "8080".to_owned(),
        app_protocol: None,
    }
}

/// The answer has one of these dispositions.
pub(crate) fn expect_one_of(
    dispositions: &[Disposition],
    answer: &LoadBalancerAnswer,
    expected: impl std::fmt::Display,
) -> Verdict {
    let is_one = dispositions.contains(&answer.disposition());
    expect(is_one, expected, describe(answer))
}

/// An answer, for people.
pub fn describe(answer: &LoadBalancerAnswer) -> String {
    let mut text = name_of(answer.disposition()).to_owned();
    if let Some(status) = &answer.status {
        let points = status.ingress.iter();
        let points: Vec<_> = points
            .map(|one| format!("{}{}", one.ip, one.hostname))
            .collect();
        text = format!("{text} with the addresses {points:?}");
    }
    if !answer.message.is_empty() {
        text = format!("{text}: {:?}", answer.message);
    }
    text
}

/// `READY`.
pub fn name_of(disposition: Disposition) -> &'static str {
    let name = disposition.as_str_name();
    name.trim_start_matches("LOAD_BALANCER_DISPOSITION_")
}
