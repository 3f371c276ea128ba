//! The command line.

pub(crate) mod ctl;
mod fault;
pub(crate) mod serve;

use clap::{Args, Parser, Subcommand};
use outrigger_provider_mock::control::{CONTROL_ENDPOINT_ENV, control_endpoint};
use outrigger_provider_sdk::{Endpoint, EndpointArgs, InvalidEndpoint, ProbeArgs};

/// A fake cloud behind Outrigger's contract: play with it, break it, watch what the controller does.
#[derive(Debug, Parser)]
#[command(name = "provider-mock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the fake cloud as a provider
    Serve(Box<serve::ServeCommand>),
    /// Change the cloud of a running mock, break it, read its counters
    Ctl(Box<ctl::CtlCommand>),
    #[cfg(feature = "defects")]
    /// List the mistakes that `serve --defect` can make, a line each
    Defects,
    /// Ask a running provider how it is, for exec probes
    Probe(ProbeArgs),
}

/// Both sockets of a mock.
#[derive(Debug, Args)]
struct SocketArgs {
    #[command(flatten)]
    provider: EndpointArgs,

    /// Socket on which the mock is controlled; by default the endpoint with .ctl at its end
    #[arg(long, env = CONTROL_ENDPOINT_ENV, value_name = "ENDPOINT", global = true)]
    control_endpoint: Option<Endpoint>,
}

impl SocketArgs {
    fn control(&self) -> Result<Endpoint, InvalidEndpoint> {
        match &self.control_endpoint {
            Some(endpoint) => Ok(endpoint.clone()),
            None => control_endpoint(&self.provider.endpoint),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::Cli;

    fn refused(args: &str) -> String {
        let args = std::iter::once("provider-mock").chain(args.split_whitespace());
        Cli::try_parse_from(args).unwrap_err().to_string()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_is_documented() {
        fn walk(command: &clap::Command) {
            for arg in command.get_arguments() {
                assert!(
                    arg.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    arg.get_id()
                );
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&Cli::command());
    }

    #[test]
    fn a_bad_value_gets_one_clear_sentence() {
        for (args, says) in [
            ("serve --latency 20", "write it as 20ms, 1.5s or 1m30s"),
            ("serve --jitter 2", "use 0 to 1"),
            ("serve --page-size 0", "number would be zero"),
            ("serve --provider-name My_Cloud", "use 1 to 63 of a-z"),
            ("serve --max-batch-size 501", "501 is not in 1..=500"),
            (
                "serve --lookup-preference all",
                "[possible values: each, batch, list]",
            ),
            (
                "serve --endpoint tcp://127.0.0.1:1",
                "write unix:///absolute/path",
            ),
            ("serve --region -x", "-x"),
            ("serve --max-routes 5", "--routes"),
            ("serve --pod-cidrs 10.244.0.0", "is no CIDR"),
            (
                "serve --routes --route-target hop",
                "[possible values: node-name",
            ),
            ("serve --label kubernetes.io/x=y", "outside kubernetes.io"),
            ("serve --label xy", "write key=value"),
            ("ctl create Worker", "use at most 253 of a-z"),
            (
                "ctl create worker --address 10.0.0.1/8",
                "without a prefix length",
            ),
            (
                "ctl create worker --power off",
                "possible values: pending, running, shutdown, terminating",
            ),
            ("ctl stop", "<NAME|ID>"),
            ("ctl errors --code OOPS", "use a name such as UNAVAILABLE"),
            (
                "ctl errors --code INTERNAL --method Get",
                "use BatchGetInstances, ListInstances",
            ),
            (
                "ctl errors --code INTERNAL --rate 1.5",
                "no part or probability",
            ),
            ("ctl errors --code INTERNAL --count 0", "0 is not in 1.."),
            ("ctl answers --bad empty --route 10.1.0.0", "is no CIDR"),
            (
                "ctl answers --bad luck",
                "possible values: duplicate-provider-id",
            ),
        ] {
            let error = refused(args);
            assert!(error.contains(says), "{args}: {error}");
        }
    }

    #[cfg(not(feature = "defects"))]
    #[test]
    fn the_program_of_operators_has_no_defects() {
        assert!(refused("serve --defect stopped-is-absent").contains("unexpected argument"));
        assert!(refused("defects").contains("unrecognized subcommand"));
    }
}
