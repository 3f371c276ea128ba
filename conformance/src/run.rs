//! One run: the provider is connected to, each case is judged, and everything that was made is removed.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use jiff::{Timestamp, Zoned};
use outrigger_provider_sdk::Endpoint;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{
    case::Case,
    cases,
    client::Client,
    connection::AUTHORITY,
    inputs::{Inputs, limit},
    ledger::Ledger,
    leftovers::Leftovers,
    log::Log,
    needs::are_given,
    report::{Judged, Outcome, Report, Skip},
    subject::{Subject, Suite, handshake_request, resources_now},
    verdict::{Failure, Stop, Verdict},
    waivers::Waivers,
};

/// The longest that one case may take beyond the limits of the inputs.
const CASE: Duration = Duration::from_mins(5);

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the provider listens, or shall listen.
    pub endpoint: Endpoint,
    /// Facts about its cloud.
    pub inputs: Inputs,
    /// Failures that are known.
    pub waivers: Waivers,
    /// Ids of cases, or their first letters, such as `LBS`; empty: all.
    pub only: Vec<String>,
    /// Cases may change the cloud.
    pub allow_mutations: bool,
    /// Names the run in everything that it makes: lower case letters and digits.
    pub run_id: String,
}

impl Settings {
    /// True if `only` leaves a case in.
    fn selects(&self, case: &Case) -> bool {
        let named = |id: &String| case.id == id || case.id.split('-').next() == Some(id);
        self.only.is_empty() || self.only.iter().any(named)
    }

    /// The settings of a command that runs no cases.
    pub fn plain(endpoint: Endpoint, inputs: Inputs, run_id: String) -> Self {
        Self {
            endpoint,
            inputs,
            waivers: Waivers::default(),
            only: Vec::new(),
            allow_mutations: true,
            run_id,
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum NoReport {
    /// The provider was not reached, or does not shake hands.
    #[error("{0}")]
    Unreachable(String),
    /// The inputs do not fit the provider.
    #[error("the inputs: {0}")]
    Inputs(String),
}

/// Runs the cases, one after the other; `judged` sees each result as it comes.
///
/// # Errors
///
/// The provider cannot be started or connected to, or refuses the handshake; the inputs do not fit it.
///
/// # Cancellation
///
/// Leaves behind in the cloud what the running case has made.
pub async fn run(settings: Settings, mut judged: impl FnMut(&Judged)) -> Result<Report, NoReport> {
    let started = Instant::now();
    let mut report = Report {
        cluster_uid: settings.inputs.cluster.uid.clone(),
        started: Timestamp::now(),
        ..Report::default()
    };
    let run = Run::prepare(settings).await?;
    let handshake = &run.suite.handshake;
    report.provider.clone_from(&handshake.provider_name);
    report
        .provider_version
        .clone_from(&handshake.provider_version);
    for case in cases::all() {
        let began = Instant::now();
        let outcome = run.judge(&case).await;
        let result = Judged {
            case,
            outcome,
            seconds: began.elapsed().as_secs_f64(),
        };
        judged(&result);
        report.judged.push(result);
    }
    report.leftovers = run.suite.leftovers.names();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

struct Run {
    settings: Settings,
    suite: Arc<Suite>,
}

impl Run {
    async fn prepare(settings: Settings) -> Result<Self, NoReport> {
        let suite = prepare(&settings).await.map_err(NoReport::Unreachable)?;
        let fits = settings.inputs.check(&suite.handshake);
        fits.map_err(NoReport::Inputs)?;
        Ok(Self {
            settings,
            suite: Arc::new(suite),
        })
    }

    async fn judge(&self, case: &Case) -> Outcome {
        if let Some(skip) = self.skip(case) {
            return skip;
        }
        let before = self.suite.leftovers.objects();
        let mut verdict = self.check(case).await;
        let has_failed = matches!(verdict, Err(Stop::Failed(_)));
        if let Some(mut end) = self.suite.end(has_failed).await {
            // The case saw what follows from it.
            if let Err(Stop::Failed(Failure { expected, actual })) = verdict {
                end.actual = format!(
                    "{}; the case expects: {expected}, and saw: {actual}",
                    end.actual
                );
            }
            verdict = Err(Stop::Failed(end));
        }
        if case.mutates {
            clean_up(&self.suite, case.id).await;
        } else {
            restart(&self.suite).await;
            self.suite.leftovers.set(before);
        }
        let failure = match verdict {
            Ok(()) => None,
            Err(Stop::Skipped(reason)) => return Outcome::Skipped(Skip::NothingToJudge(reason)),
            Err(Stop::Failed(failure)) => Some(failure),
        };
        self.outcome(case, failure)
    }

    /// The first error of the run that breaks the rule of a case.
    fn breach(&self, case: &Case) -> Option<Failure> {
        let rule = case.of_errors?;
        let observations = self.suite.ledger.observations();
        observations.breaches(rule).next()
    }

    fn outcome(&self, case: &Case, failure: Option<Failure>) -> Outcome {
        let waiver = self.settings.waivers.of(case, Zoned::now().date());
        match (failure, waiver.cloned()) {
            (None, _) => Outcome::Passed,
            (Some(failure), Some(waiver)) => Outcome::Waived { failure, waiver },
            (Some(failure), None) => Outcome::Failed(failure),
        }
    }

    /// Why a case is not run.
    fn skip(&self, case: &Case) -> Option<Outcome> {
        if !self.settings.selects(case) {
            let breach = self.breach(case);
            let failed = breach.map(|failure| self.outcome(case, Some(failure)));
            return Some(failed.unwrap_or(Outcome::Skipped(Skip::NotSelected)));
        }
        if !case.capability.is_declared(&self.suite.handshake) {
            let by = case.capability.declared_by();
            return Some(Outcome::Skipped(Skip::Capability(by)));
        }
        if case.mutates && !self.settings.allow_mutations {
            return Some(Outcome::Skipped(Skip::ReadOnly));
        }
        let inputs = &self.settings.inputs;
        let missing = case.needs.iter().copied();
        let missing = missing.filter(|keys| are_given(keys, inputs) != Some(true));
        let missing: Vec<_> = missing.collect();
        (!missing.is_empty()).then(|| Outcome::Skipped(Skip::Input(missing.join(", "))))
    }

    async fn check(&self, case: &Case) -> Verdict {
        let limits = &self.settings.inputs.limits;
        let longest = CASE + limit(limits.ready) + limit(limits.gone) + limit(limits.idle);
        let check = async {
            let subject = Subject::of(&self.suite, case.id).await?;
            (case.body)(&subject).await
        };
        match timeout(longest, AssertUnwindSafe(check).catch_unwind()).await {
            Ok(Ok(verdict)) => verdict,
            // tonic panics on details that are no base64.
            Ok(Err(panic)) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err(Stop::Failed(Failure {
                    expected: "the answers can be read".to_owned(),
                    actual: format!("a panic: {}", text.unwrap_or("of no text")),
                }))
            }
            Err(_elapsed) => Err(Stop::Failed(Failure {
                expected: format!("the case ends within {longest:?}"),
                actual: "it did not end".to_owned(),
            })),
        }
    }
}

/// Starts the provider again, if it was a process of the suite and has ended.
async fn restart(suite: &Suite) {
    if suite.ended().await.is_some()
        && let Err(error) = suite.start().await
    {
        eprintln!("provider-conformance: the provider does not start again: {error}");
    }
}

/// Deletes all that is left over, whatever state the provider is in. The rest stays in the list, as that of earlier cases does.
pub(crate) async fn clean_up(suite: &Arc<Suite>, case: &'static str) {
    restart(suite).await;
    if suite.leftovers.is_empty() {
        return;
    }
    let cleaned = async {
        let subject = Subject::of(suite, case).await?;
        subject.clean_up().await
    };
    if let Err(stop) = cleaned.await {
        eprintln!("provider-conformance: {case} leaves something behind: {stop}");
    }
}

/// Starts the provider, if it is the suite's, and shakes hands.
pub(crate) async fn prepare(settings: &Settings) -> Result<Suite, String> {
    let Settings {
        endpoint, inputs, ..
    } = settings;
    let ledger = Arc::new(Ledger::new(&inputs.secrets));
    let log = Arc::new(Log::new(&inputs.secrets));
    let provider = if inputs.provider.command.is_empty() {
        None
    } else {
        let within = limit(inputs.limits.start);
        let started = crate::commands::Provider::start(&inputs.provider, endpoint, &log, within);
        Some(started.await?)
    };
    let dial = || {
        let ledger = Arc::clone(&ledger);
        Client::dial(endpoint.path(), AUTHORITY, ledger, &inputs.cluster)
    };
    let shake = |client: Client| async move {
        let answered = client.call(handshake_request(inputs)).await;
        answered.map_err(|error| format!("the handshake fails: {error}"))
    };
    let handshake = shake(dial().await?).await?;
    let idle = dial().await?;
    shake(idle.clone()).await?;
    let cloud = resources_now(inputs, endpoint).await?;
    Ok(Suite {
        endpoint: endpoint.clone(),
        inputs: inputs.clone(),
        handshake,
        run_id: settings.run_id.clone(),
        ledger,
        leftovers: Leftovers::default(),
        idle,
        cloud,
        provider: Mutex::new(provider),
        log,
    })
}
