//! [`main`]: flags, logs, tokio's runtime, signals and the sub-commands `serve` and `probe`.
//!
//! A provider hands over one function that makes its [`Server`]; the runner calls it once, inside the runtime, and serves
//! until SIGTERM or SIGINT. [`main_with_args`] adds a vendor's own flags. A provider with a `main` of its own flattens
//! [`EndpointArgs`] and [`ProbeArgs`] into its flags and calls [`Server::serve`].

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};

use crate::signals::Signals;
use crate::{BoxError, Endpoint, Probe, ProbeFailure, ServeError, Server, probe};

/// The flag of the provider's socket, to be flattened into a vendor's own.
#[derive(Clone, Debug, Args)]
#[non_exhaustive]
pub struct EndpointArgs {
    /// Socket of the provider, as `unix:///absolute/path`
    #[arg(
        long,
        env = outrigger_api::ENDPOINT_ENV,
        default_value = outrigger_api::DEFAULT_ENDPOINT,
        value_name = "ENDPOINT"
    )]
    pub endpoint: Endpoint,
}

/// Flags of a probe, to be flattened into a vendor's own.
#[derive(Clone, Debug, Args)]
#[non_exhaustive]
pub struct ProbeArgs {
    /// The provider to ask.
    #[command(flatten)]
    pub socket: EndpointArgs,

    /// Fail also while the provider is starting (for a readiness probe; without it, for a liveness
    /// probe, only a provider that a restart would help fails)
    #[arg(long)]
    pub ready: bool,

    /// Seconds to wait for the answers; keep it below the probe's timeoutSeconds
    #[arg(long, default_value_t = 4, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    pub timeout: u64,
}

impl ProbeArgs {
    /// Probes as the flags are set; see [`probe`].
    pub async fn probe(&self) -> Result<String, ProbeFailure> {
        let kind = if self.ready {
            Probe::Readiness
        } else {
            Probe::Liveness
        };
        probe(
            &self.socket.endpoint,
            kind,
            Duration::from_secs(self.timeout),
        )
        .await
    }
}

/// For a provider without own flags.
#[derive(Clone, Copy, Debug, Args)]
struct NoArgs {}

/// A provider's `main`: `serve` (the default) and `probe`, for exec probes of the kubelet.
///
/// `make` builds the server, inside a tokio runtime; whatever error it ends with is logged and ends
/// the process with code 1. A signal that comes before drops `make` where it waits and ends the process
/// with code 0.
///
/// Logging is set up as by [`init_logging`](crate::init_logging), unless that was done before or the
/// feature `logging` is off.
///
/// ```no_run
/// # use outrigger_provider_sdk::{Provider, ProviderInfo, Server};
/// # struct Cloud;
/// # impl Provider for Cloud { fn info(&self) -> ProviderInfo { ProviderInfo::new("cloud", "1") } }
/// fn main() -> std::process::ExitCode {
///     outrigger_provider_sdk::main(async || Ok(Server::new(Cloud)))
/// }
/// ```
pub fn main<F>(make: impl FnOnce() -> F) -> ExitCode
where
    F: Future<Output = Result<Server, BoxError>>,
{
    main_with_args(|NoArgs {}| make())
}

/// Like [`main`], for a provider with own flags, `A`. They belong to `serve`.
pub fn main_with_args<A, F>(make: impl FnOnce(A) -> F) -> ExitCode
where
    A: Args,
    F: Future<Output = Result<Server, BoxError>>,
{
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match Action::<A>::parse() {
        Action::Serve(socket, vendor) => {
            #[cfg(feature = "logging")]
            crate::init_logging();
            match runtime.block_on(serve(&socket, || make(vendor))) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    tracing::error!(%error, "provider ended");
                    ExitCode::FAILURE
                }
            }
        }
        Action::Probe(args) => match runtime.block_on(args.probe()) {
            Ok(sentence) => {
                println!("{sentence}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::FAILURE
            }
        },
    };
    // A handler that blocks its thread must not delay the end.
    runtime.shutdown_background();
    code
}

async fn serve<F>(socket: &EndpointArgs, make: impl FnOnce() -> F) -> Result<(), BoxError>
where
    F: Future<Output = Result<Server, BoxError>>,
{
    let mut signals = Signals::new()?;
    let server = tokio::select! {
        server = make() => server?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before serving");
            return Ok(());
        }
    };
    server
        .serve_signalled(&socket.endpoint, &mut signals)
        .await
        .map_err(ServeError::into)
}

/// The action that the command line asks for.
enum Action<A> {
    Serve(EndpointArgs, A),
    Probe(ProbeArgs),
}

impl<A: Args> Action<A> {
    /// Ends the process where clap does: at `--help` and at what cannot be parsed.
    fn parse() -> Self {
        let matches = Self::command().get_matches();
        Self::from_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    fn command() -> Command {
        // The flags' structs bring their texts, so ours come last.
        let serve = |command| A::augment_args(EndpointArgs::augment_args(command));
        serve(Command::new("provider"))
            .about("A cloud provider for Outrigger; without a sub-command it serves")
            // Flags belong to the sub-command once there is one, and so does what they require.
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand(serve(Command::new("serve")).about("Serve the provider (default)"))
            .subcommand(
                ProbeArgs::augment_args(Command::new("probe"))
                    .about("Ask a running provider how it is; for exec probes"),
            )
    }

    fn from_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let matches = match matches.subcommand() {
            Some(("probe", matches)) => {
                return Ok(Self::Probe(ProbeArgs::from_arg_matches(matches)?));
            }
            Some((_, matches)) => matches,
            None => matches,
        };
        Ok(Self::Serve(
            EndpointArgs::from_arg_matches(matches)?,
            A::from_arg_matches(matches)?,
        ))
    }
}
