//! Faults on the command line.

use std::time::Duration;

use clap::Args;
use outrigger_provider_mock::cidr::Cidr;
use outrigger_provider_mock::control::InjectFault;
use outrigger_provider_mock::duration;
use outrigger_provider_mock::faults::{
    BadAnswer, Budget, Code, Effect, Fault, InjectedError, Method,
};
use outrigger_provider_mock::instances::NodeName;

/// Word for an error without `ErrorInfo`.
const NO_REASON: &str = "none";

/// How often a fault happens.
#[derive(Debug, Args)]
struct BudgetArgs {
    /// So many times only [default: until cleared]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// With this probability, 0 to 1 [default: each time]
    #[arg(long, value_name = "P", conflicts_with = "count", value_parser = probability)]
    rate: Option<f64>,
    /// After the faults of this kind that are set, instead of taking their place
    #[arg(long)]
    add: bool,
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err(format!("{text:?} is no probability; use 0 to 1")),
    }
}

impl BudgetArgs {
    /// A fault on any object.
    fn inject(self, method: Option<Method>, effect: Effect) -> InjectFault {
        let budget = match (self.count, self.rate) {
            (Some(count), _) => Budget::Count(count),
            (None, Some(rate)) => Budget::Rate(rate),
            (None, None) => Budget::Always,
        };
        InjectFault {
            fault: Fault {
                method,
                node: None,
                service: None,
                route: None,
                volume: None,
                effect,
                budget,
            },
            add: self.add,
        }
    }
}

/// `ctl set errors`.
#[derive(Debug, Args)]
pub(super) struct ErrorsArgs {
    /// Method that fails, for example `BatchGetInstances` [default: each]
    #[arg(long)]
    method: Option<Method>,
    /// gRPC code, for example UNAVAILABLE
    #[arg(long)]
    code: Code,
    /// `ErrorInfo.reason`; none for an error that is not the provider's word [default: the first
    /// that the contract lists under the code]
    #[arg(long)]
    reason: Option<String>,
    /// Text of the error; may be empty [default: one of the mock's]
    #[arg(long)]
    message: Option<String>,
    /// `RetryInfo`: when the caller shall call again
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    retry_after: Option<Duration>,
    /// Leave `RetryInfo` out, also where the contract requires it
    #[arg(long, conflicts_with = "retry_after")]
    without_retry_info: bool,
    /// Let single items of a batch fail, not the call
    #[arg(long)]
    per_item: bool,
    /// With --per-item: the item of this node only
    #[arg(long, requires = "per_item", value_name = "NAME")]
    node: Option<NodeName>,
    /// With --per-item: the item of the route to this destination only
    #[arg(long, requires = "per_item", value_name = "CIDR")]
    route: Option<Cidr>,
    /// With --per-item: the item of the volume with this handle only
    #[arg(long, requires = "per_item", value_name = "HANDLE")]
    volume: Option<String>,
    /// Only calls, or results of an update, about this Service
    #[arg(long, value_name = "NAMESPACE/NAME|UID")]
    service: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
}

impl ErrorsArgs {
    pub(super) fn into_fault(self) -> anyhow::Result<InjectFault> {
        anyhow::ensure!(
            self.code.0 != tonic::Code::Ok,
            "OK is no error; choose another --code, or `ctl clear`"
        );
        let mut error = InjectedError::new(self.code.0);
        error = match self.reason.as_deref() {
            None => error,
            Some(NO_REASON) => error.without_reason(),
            Some(reason) => error.with_reason(reason),
        };
        error.retry_after = self.retry_after.or(error.retry_after);
        if self.without_retry_info {
            error = error.without_retry_info();
        }
        error.message = self.message;
        let effect = if self.per_item {
            Effect::ItemError(error)
        } else {
            Effect::Error(error)
        };
        let mut inject = self.budget.inject(self.method, effect);
        inject.fault.node = self.node;
        inject.fault.service = self.service;
        inject.fault.route = self.route;
        inject.fault.volume = self.volume;
        Ok(inject)
    }
}

/// `ctl hang`.
#[derive(Debug, Args)]
pub(super) struct HangArgs {
    /// Method that hangs, for example `BatchGetInstances` [default: each]
    #[arg(long)]
    method: Option<Method>,
    /// How long each call hangs; it is served then [default: until cleared]
    #[arg(long = "for", value_parser = duration::parse, value_name = "DURATION")]
    duration: Option<Duration>,
    /// So long for each item that the call is about, as if they were served one after the other
    #[arg(long, requires = "duration")]
    each: bool,
    /// Only calls that are about this node, as a whole
    #[arg(long, value_name = "NAME", conflicts_with = "each")]
    node: Option<NodeName>,
    /// Only calls, or results of an update, about this Service
    #[arg(long, value_name = "NAMESPACE/NAME|UID")]
    service: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
}

impl HangArgs {
    pub(super) fn into_fault(self) -> InjectFault {
        let duration = self.duration;
        let effect = match duration {
            Some(each) if self.each => Effect::OneAfterTheOther { each },
            _ => Effect::Hang { duration },
        };
        let mut inject = self.budget.inject(self.method, effect);
        inject.fault.node = self.node;
        inject.fault.service = self.service;
        inject
    }
}

/// `ctl lose`.
#[derive(Debug, Args)]
pub(super) struct LoseArgs {
    /// Method whose replies are lost, for example `EnsureLoadBalancer` [default: each]
    #[arg(long)]
    method: Option<Method>,
    /// Only calls, or results of an update, about this Service
    #[arg(long, value_name = "NAMESPACE/NAME|UID")]
    service: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
}

impl LoseArgs {
    pub(super) fn into_fault(self) -> InjectFault {
        let mut inject = self.budget.inject(self.method, Effect::LoseReply);
        inject.fault.service = self.service;
        inject
    }
}

/// `ctl answers`.
#[derive(Debug, Args)]
pub(super) struct AnswersArgs {
    /// Defect of the answers: duplicate-provider-id, malformed-address, oversized-reply,
    /// oversized-strings, missing-result, duplicate-result, bad-label, wrong-prefix, other-spelling,
    /// empty-provider-id, stale-absence, uncertain-absence, not-managed or empty; of load balancers
    /// also missing-disposition, missing-status, far-retry or in-progress-without-status; of load balancers and volumes
    /// false-absence; of load balancers, routes and volumes foreign-result; of routes and instances
    /// malformed-cidr
    #[arg(long, value_name = "WHAT")]
    bad: BadAnswer,
    /// Method whose answers are bad [default: each that can be so]
    #[arg(long)]
    method: Option<Method>,
    /// Only answers about this node
    #[arg(long, value_name = "NAME")]
    node: Option<NodeName>,
    /// Only answers about the route to this destination
    #[arg(long, value_name = "CIDR")]
    route: Option<Cidr>,
    /// Only answers about the volume with this handle
    #[arg(long, value_name = "HANDLE")]
    volume: Option<String>,
    /// Only calls, or results of an update, about this Service
    #[arg(long, value_name = "NAMESPACE/NAME|UID")]
    service: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
}

impl AnswersArgs {
    pub(super) fn into_fault(self) -> InjectFault {
        let mut inject = self.budget.inject(self.method, Effect::BadAnswer(self.bad));
        inject.fault.node = self.node;
        inject.fault.service = self.service;
        inject.fault.route = self.route;
        inject.fault.volume = self.volume;
        inject
    }
}
