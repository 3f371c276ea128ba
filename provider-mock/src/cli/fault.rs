//! Faults on the command line.

use std::time::Duration;

use clap::Args;
use outrigger_provider_mock::cidr::Cidr;
use outrigger_provider_mock::cloud::part;
use outrigger_provider_mock::control::SetFault;
use outrigger_provider_mock::duration;
use outrigger_provider_mock::faults::{
    BadAnswer, Budget, Code, Effect, Fault, InjectedError, Method,
};
use outrigger_provider_mock::instances::NodeName;

/// Word for an error without `ErrorInfo`.
const NO_REASON: &str = "none";

/// The calls and objects that a fault happens to, and how often.
#[derive(Debug, Args)]
pub(super) struct WhereArgs {
    /// Method that it happens to, for example `BatchGetInstances` [default: each that can be so]
    #[arg(long)]
    method: Option<Method>,
    /// Only items and answers about this node; of calls that hang those about it, as a whole
    #[arg(long, value_name = "NAME")]
    node: Option<NodeName>,
    /// Only items and answers about the route to this destination
    #[arg(long, value_name = "CIDR")]
    route: Option<Cidr>,
    /// Only items and answers about the volume with this handle
    #[arg(long, value_name = "HANDLE")]
    volume: Option<String>,
    /// Only calls, or results of an update, about this Service
    #[arg(long, value_name = "NAMESPACE/NAME|UID")]
    service: Option<String>,
    /// So many times only [default: until cleared]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// With this probability, 0 to 1 [default: each time]
    #[arg(long, value_name = "P", conflicts_with = "count", value_parser = part)]
    rate: Option<f64>,
    /// After the faults of this kind that are set, instead of taking their place
    #[arg(long)]
    add: bool,
}

impl WhereArgs {
    pub(super) fn inject(self, effect: Effect) -> SetFault {
        let budget = match (self.count, self.rate) {
            (Some(count), _) => Budget::Count(count),
            (None, Some(rate)) => Budget::Rate(rate),
            (None, None) => Budget::Always,
        };
        SetFault {
            fault: Fault {
                method: self.method,
                node: self.node,
                service: self.service,
                route: self.route,
                volume: self.volume,
                effect,
                budget,
            },
            add: self.add,
        }
    }
}

/// `ctl errors`.
#[derive(Debug, Args)]
pub(super) struct ErrorsArgs {
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
    /// Let single items of a batch fail, not the call
    #[arg(long)]
    per_item: bool,
    #[command(flatten)]
    wherever: WhereArgs,
}

impl ErrorsArgs {
    pub(super) fn into_fault(self) -> anyhow::Result<SetFault> {
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
        error.message = self.message;
        let effect = if self.per_item {
            Effect::ItemError(error)
        } else {
            Effect::Error(error)
        };
        Ok(self.wherever.inject(effect))
    }
}

/// `ctl hang`.
#[derive(Debug, Args)]
pub(super) struct HangArgs {
    /// How long each call hangs; it is served then [default: until cleared]
    #[arg(long = "for", value_parser = duration::parse, value_name = "DURATION")]
    duration: Option<Duration>,
    #[command(flatten)]
    wherever: WhereArgs,
}

impl HangArgs {
    pub(super) fn into_fault(self) -> SetFault {
        let duration = self.duration;
        self.wherever.inject(Effect::Hang { duration })
    }
}

/// `ctl answers`.
#[derive(Debug, Args)]
pub(super) struct AnswersArgs {
    /// How the answers are bad
    #[arg(long, value_name = "WHAT")]
    bad: BadAnswer,
    #[command(flatten)]
    wherever: WhereArgs,
}

impl AnswersArgs {
    pub(super) fn into_fault(self) -> SetFault {
        self.wherever.inject(Effect::BadAnswer(self.bad))
    }
}
