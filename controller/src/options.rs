//! The command line and the environment: every flag of upstream's cloud-controller-manager, and ours, read by clap.
//!
//! ```text
//!  words, variables ─► clap ─► Flags, a struct for each area ─► its settings ─► Config
//!                        └─► --help, docs/flags.md
//! ```

// A flag is named after its field and explained by its comment.
#![allow(clippy::doc_markdown, clippy::struct_field_names)]

mod api_server;
mod cluster;
pub mod config;
mod configz;
pub mod controllers;
mod election;
mod logging;
pub mod no_effect;
mod nodes;
mod provider;
mod service;
mod serving;
mod tls;
mod webhook;

use std::{collections::BTreeMap, env, ffi::OsString, process::ExitCode, time::Duration};

use crate::server::settings::AccessSettings;
use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, Error, FromArgMatches, Parser,
    builder::Str, error::ErrorKind, parser::ValueSource, value_parser,
};
use outrigger_core::{go_duration, text::without_login};
use outrigger_runtime::VERSION;

pub use self::config::Config;
use self::{
    api_server::ApiServerFlags, cluster::ClusterFlags, config::OutputForm,
    controllers::Controllers, election::ElectionFlags, logging::LoggingFlags, nodes::NodeFlags,
    provider::ProviderFlags, service::ServiceFlags, serving::ServingFlags, webhook::WebhookFlags,
};
pub(crate) use self::{cluster::cluster_uid, provider::DEFAULT_ENDPOINT};

const ABOUT: &str = "Outrigger's cloud-controller-manager: the cloud loops of Kubernetes, with the cloud behind \
                     a gRPC provider.";

const ENVIRONMENT: &str = "Each flag can be set by a variable of the environment too: OUTRIGGER_ and the name in \
                           capitals, with underscores, as in OUTRIGGER_CLUSTER_NAME. The command line goes before \
                           the environment; an empty variable counts as absent. KUBECONFIG is not read, as by \
                           upstream.";

/// Beginning of the variables that stand for flags.
const PREFIX: &str = "OUTRIGGER_";

/// All flags that something depends on.
#[derive(Parser)]
#[command(
    name = "cloud-controller-manager",
    no_binary_name = true,
    args_override_self = true,
    next_help_heading = "Process"
)]
struct Flags {
    /// Controllers to run: '*' for all, 'foo' to enable one, '-foo' to disable it; the first item that
    /// names a controller decides. Known are cloud-node-controller, cloud-node-lifecycle-controller,
    /// node-route-controller, service-lb-controller, and, only if named, node-ipam-controller,
    /// kubelet-serving-approving-controller and persistentvolume-labels-controller.
    #[arg(long, value_delimiter = ',', default_value = "*")]
    controllers: Vec<String>,
    /// Memory in MiB for the last decisions about each Node and Service, which the command explain shows; 0:
    /// none are remembered.
    #[arg(long, default_value = "4")]
    history_memory: u16,
    /// Serve dumps of queues and of the provider's state, and -v, under /debug/. Profiles are not
    /// available.
    #[arg(long, default_value = "true")]
    profiling: bool,
    /// Time after SIGTERM until calls to the provider in flight are cancelled.
    #[arg(long, default_value = "25s", value_parser = go_duration::parse)]
    shutdown_grace_period: Duration,
    #[command(flatten)]
    provider: ProviderFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    api_server: ApiServerFlags,
    #[command(flatten)]
    election: ElectionFlags,
    #[command(flatten)]
    nodes: NodeFlags,
    #[command(flatten)]
    service: ServiceFlags,
    #[command(flatten)]
    webhook: WebhookFlags,
    #[command(flatten)]
    serving: ServingFlags,
    #[command(flatten)]
    access: AccessSettings,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// Parses and checks what the process was started with, and prints what there is to print before
/// anything is logged.
///
/// # Errors
/// The exit code to end with.
pub fn parse_from_env() -> Result<Config, ExitCode> {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    parse_from(&args, &variables()).map_err(|error| {
        // A closed stream is no reason to behave otherwise.
        let _ = error.print();
        if error.use_stderr() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    })
}

/// The environment, as far as it is text.
fn variables() -> BTreeMap<String, String> {
    let variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables.collect()
}

/// Parses what the command `check` was started with: flags of the controller manager, and the form of its output.
///
/// # Errors
/// The errors are those of [`parse_from`].
pub(crate) fn parse_check_from_env(about: &'static str) -> Result<(Config, OutputForm), Error> {
    let args: Vec<OsString> = env::args_os().skip(2).collect();
    let variables = variables();
    let output = Arg::new("output").short('o').long("output");
    let output = output.value_parser(value_parser!(OutputForm));
    let command = command(&variables)
        .display_name("cloud-controller-manager check")
        .about(about)
        .arg(output.default_value("table").help("Form of the output."));
    let (config, matches) = read(command, &args, &variables)?;
    let output = matches.get_one("output").copied();
    Ok((config, output.unwrap_or(OutputForm::Table)))
}

/// Parses and checks. `args` are those after the program's name, `variables` is the environment. Reads
/// no file.
///
/// # Errors
/// A mistake, or the text of `--help` or `--version`, to be printed.
pub fn parse_from<T: Into<OsString> + Clone>(
    args: &[T],
    variables: &BTreeMap<String, String>,
) -> Result<Config, Error> {
    let (config, _) = read(command(variables), args, variables)?;
    Ok(config)
}

/// The settings, and what clap has made of `args`.
fn read<T: Into<OsString> + Clone>(
    mut command: Command,
    args: &[T],
    variables: &BTreeMap<String, String>,
) -> Result<(Config, ArgMatches), Error> {
    let matches = command.try_get_matches_from_mut(args.iter().cloned())?;
    let flags = Flags::from_arg_matches(&matches)?;
    let is_set = |arg: &Arg| {
        matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
            || variable(arg, variables).is_some()
    };
    let mut warnings = unknown_variables(&command, variables);
    for arg in command.get_arguments().filter(|arg| is_set(arg)) {
        warnings.extend(no_effect::warning(arg.get_long().unwrap_or_default()));
    }
    let values = values(&command, &matches);
    let config = flags.config(values, warnings);
    let config = config.map_err(|error| command.error(ErrorKind::ValueValidation, error))?;
    Ok((config, matches))
}

/// All flags. Variables of the environment are their defaults.
pub fn command(variables: &BTreeMap<String, String>) -> Command {
    let command = Flags::command().about(ABOUT).long_about(None);
    let command = command.display_name("Outrigger").version(VERSION);
    let command = command.after_help(ENVIRONMENT).args(no_effect::args());
    command.mut_args(|arg| {
        let arg = spelt_as_in_go(arg);
        match variable(&arg, variables) {
            Some(value) => arg.default_value(value.to_owned()),
            None => arg,
        }
    })
}

/// Underscores may stand for hyphens, and a value may begin with one; a switch stands alone or has its value behind an equals
/// sign.
fn spelt_as_in_go(arg: Arg) -> Arg {
    let name = Str::from(arg.get_id().clone());
    let arg = if name.contains('_') {
        arg.alias(name)
    } else {
        arg
    };
    let has_default = !arg.get_default_values().is_empty();
    let is_empty = arg.get_default_values().iter().all(|text| text.is_empty());
    let arg = arg.hide_default_value(is_empty);
    match arg.get_action() {
        ArgAction::SetTrue => {
            let arg = arg
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true);
            let arg = arg.default_missing_value("true").value_parser(switch);
            if has_default {
                arg
            } else {
                arg.default_value("false")
            }
        }
        _ => arg.allow_hyphen_values(true),
    }
}

/// The variables that stand for a flag; the first that is set counts.
fn variable_names(arg: &Arg) -> Vec<String> {
    let id = arg.get_id().as_str();
    let own = format!("{PREFIX}{}", id.to_uppercase());
    match id {
        "provider_endpoint" => vec![own, "CLOUDPROVIDER_ENDPOINT".to_owned()],
        _ => vec![own],
    }
}

/// The environment's value of a flag; an empty variable has none.
fn variable<'a>(arg: &Arg, variables: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let names = variable_names(arg).into_iter();
    let mut values = names.filter_map(|name| variables.get(&name).map(String::as_str));
    values.find(|value| !value.is_empty())
}

/// A warning for each variable that looks like one of a flag.
fn unknown_variables(command: &Command, variables: &BTreeMap<String, String>) -> Vec<String> {
    let of_flags: Vec<String> = command.get_arguments().flat_map(variable_names).collect();
    // Kubernetes adds some for every Service, one of which may be called as we are.
    let of_service = |name: &str| name.contains("_SERVICE_") || name.contains("_PORT");
    let names = variables.keys().filter(|name| name.starts_with(PREFIX));
    names
        .filter(|name| !of_flags.contains(name) && !of_service(name))
        .map(|name| format!("variable {name} of the environment stands for no flag"))
        .collect()
}

/// All flags with their values as they were given, by name.
fn values(command: &Command, matches: &ArgMatches) -> Vec<(String, String)> {
    let flags = command
        .get_arguments()
        .filter(|arg| arg.get_action().takes_values());
    let mut values: Vec<_> = flags
        .map(|arg| {
            let texts = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
            let texts: Vec<_> = texts
                .map(|text| without_login(&text.to_string_lossy()))
                .collect();
            (
                arg.get_long().unwrap_or_default().to_owned(),
                texts.join(","),
            )
        })
        .collect();
    values.sort();
    values
}

impl Flags {
    /// # Errors
    /// The first rule between flags that does not hold.
    fn config(
        &self,
        values: Vec<(String, String)>,
        mut warnings: Vec<String>,
    ) -> Result<Config, String> {
        let controllers = Controllers::evaluate(&items(&self.controllers))?;
        warnings.extend(self.cluster.absent_loops(&controllers));
        warnings.extend(self.nodes.gates_without_effect());
        let ipam = self.cluster.allocator(&controllers)?;
        Ok(Config {
            kube: self.api_server.source(),
            budget: self.api_server.budget(),
            min_resync_period: self.api_server.min_resync_period,
            shutdown_grace: self.shutdown_grace_period,
            provider: self.provider.settings(&mut warnings)?,
            node: self.nodes.node(),
            lifecycle: self.nodes.lifecycle(),
            service: self.service.settings()?,
            plan: self.service.plan(),
            configure_cloud_routes: self.cluster.configure_cloud_routes,
            route: self.cluster.route(ipam.as_ref(), self.nodes.selector()),
            serving: self.serving.settings()?,
            webhook: self.webhook.settings(&self.serving, &mut warnings)?,
            access: self.access.clone(),
            profiling: self.profiling,
            configz: configz::object(self),
            history_bytes: usize::from(self.history_memory) << 20,
            cluster: self.cluster.facts(),
            cluster_uid: self.cluster.cluster_uid.as_deref().map(Box::from),
            controllers,
            election: self.election.settings()?,
            ipam,
            logging: self.logging.settings(),
            warnings,
            flags: values,
        })
    }
}

/// A Go duration that is greater than 0.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let period = go_duration::parse(text)?;
    let period = Some(period).filter(|period| !period.is_zero());
    period.ok_or_else(|| "it must be greater than 0".to_owned())
}

/// A boolean as Go spells it.
fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}

/// The items of a list; an empty text has none.
fn items(list: &[String]) -> Vec<String> {
    let items = list.iter().map(|item| item.trim());
    items
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Absent if it is empty.
fn given<T: From<String>>(text: &str) -> Option<T> {
    Some(text.to_owned())
        .filter(|text| !text.is_empty())
        .map(T::from)
}
