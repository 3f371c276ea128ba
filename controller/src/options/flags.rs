//! The flags as they are declared: names, types, defaults and texts, in upstream's groups.
//!
//! Every value name is the type as Go's flag library calls it; [`super::command_line`] and the
//! documentation go by it. Defaults are written as Go prints them.
//!
//! The first paragraph of a comment is the text in `--help`, the others are data of [`super::catalogue`]:
//!
//! - `Better: why`, `No effect: why` or `Ours: why`: how the flag stands to upstream's;
//! - `Deprecated: text`: printed when it is used;
//! - `Configz: field`: where `/configz` shows it.

// Doc comments are the texts of --help here, and field names the flags.
#![allow(clippy::doc_markdown, clippy::struct_field_names)]

mod access;
mod generic;
mod loops;
mod process;
mod serving;
mod webhooks;

use clap::{Arg, Args, Command, CommandFactory, FromArgMatches, Parser};

use super::values::Strings;

pub(super) use access::{AuthenticationFlags, AuthorizationFlags};
pub(super) use generic::GenericFlags;
pub(super) use loops::{IpamFlags, LifecycleFlags, NodeFlags, ServiceFlags};
pub(super) use process::{DebuggingFlags, GlobalFlags, MigrationFlags, MiscFlags};
pub(super) use serving::ServingFlags;
pub(super) use webhooks::{WebhookFlags, WebhookServingFlags};

/// All flags, in the order of `--help`.
#[derive(Parser)]
#[command(
    name = "cloud-controller-manager",
    about = "Outrigger's cloud-controller-manager: the cloud loops of Kubernetes, with the cloud \
             behind a gRPC provider.",
    override_usage = "cloud-controller-manager [flags]",
    after_help = "Each flag can be set by a variable of the environment too: OUTRIGGER_ and the name in \
                  capitals, with underscores, as in OUTRIGGER_CLUSTER_NAME. The command line goes before the \
                  environment; an empty variable counts as absent. KUBECONFIG is not read, as by upstream."
)]
pub(super) struct Flags {
    #[command(flatten)]
    pub(super) provider: ProviderFlags,
    #[command(flatten)]
    pub(super) debugging: DebuggingFlags,
    #[command(flatten)]
    pub(super) migration: MigrationFlags,
    #[command(flatten)]
    pub(super) generic: GenericFlags,
    #[command(flatten)]
    pub(super) node: NodeFlags,
    #[command(flatten)]
    pub(super) lifecycle: LifecycleFlags,
    #[command(flatten)]
    pub(super) service: ServiceFlags,
    #[command(flatten)]
    pub(super) ipam: IpamFlags,
    #[command(flatten)]
    pub(super) webhook: WebhookFlags,
    #[command(flatten)]
    pub(super) webhook_serving: WebhookServingFlags,
    #[command(flatten)]
    pub(super) serving: ServingFlags,
    #[command(flatten)]
    pub(super) authentication: AuthenticationFlags,
    #[command(flatten)]
    pub(super) authorization: AuthorizationFlags,
    #[command(flatten)]
    pub(super) misc: MiscFlags,
    #[command(flatten)]
    pub(super) global: GlobalFlags,
}

/// Of `--kube-api-qps`.
pub(super) const DEFAULT_QPS: f32 = 1000.0;

/// Of `--kube-api-burst`.
pub(super) const DEFAULT_BURST: u32 = 2000;

/// Ours.
#[derive(Args)]
#[command(next_help_heading = "Provider flags")]
pub(super) struct ProviderFlags {
    /// Prefixes of annotations and condition types that may be written to Nodes and Services for the provider, such
    /// as vendor.example/; those that it does not declare itself are not written either. Domains of Kubernetes and of
    /// this controller cannot be granted.
    ///
    /// Ours: annotations of other programs, such as those of DNS and of the Pod network, direct traffic, and a
    /// provider is not trusted with them; upstream's provider writes whatever its account may
    #[arg(long, value_name = "strings", default_value = "")]
    pub(super) provider_effect_prefixes: Strings,
    /// Numbers of the users that the process behind --provider-endpoint may be one of; empty: any. A connection to
    /// a process of another user is given up before anything is sent.
    ///
    /// Ours: whoever answers at the socket is asked what the cloud is, and the kernel knows which user that is
    #[arg(long, value_name = "strings", default_value = "")]
    pub(super) provider_user: Strings,
    /// Address of the cloud provider's Unix socket, unix:///PATH. CLOUDPROVIDER_ENDPOINT in the
    /// environment sets it for the controller and the provider.
    ///
    /// Ours: the provider is reached over a socket
    #[arg(
        long,
        value_name = "string",
        default_value = "unix:///run/outrigger/provider.sock"
    )]
    pub(super) provider_endpoint: String,
}

/// The declaration, with the rules for all flags of one type.
pub(super) fn command() -> Command {
    Flags::command()
        .disable_help_flag(true)
        .disable_version_flag(true)
        .no_binary_name(true)
        .args_override_self(true)
        .mut_args(|arg| {
            let zero = ["", "0", "0s", "false"];
            let is_zero = |value: &clap::builder::OsStr| zero.iter().any(|zero| value == zero);
            let hide = arg.get_default_values().iter().all(is_zero);
            arg.hide_default_value(hide)
        })
        .mut_args(|arg| match type_of(&arg) {
            "bool" | "version" => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => arg,
        })
}

/// The flags out of `--name=value` items, one for each flag at most.
pub(super) fn read(items: &[String]) -> Result<(Flags, clap::ArgMatches), clap::Error> {
    let matches = command().try_get_matches_from(items)?;
    let flags = Flags::from_arg_matches(&matches)?;
    Ok((flags, matches))
}

/// The name of the type in Go's flag library.
pub(super) fn type_of(arg: &Arg) -> &str {
    arg.get_value_names()
        .and_then(|names| names.first())
        .map_or("string", |name| name.as_str())
}
