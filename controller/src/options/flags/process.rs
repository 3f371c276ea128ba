use clap::Args;

use crate::options::values::{GoBool, GoDuration, Quantity};

#[derive(Args)]
#[command(next_help_heading = "Debugging flags")]
pub(in crate::options) struct DebuggingFlags {
    /// No effect: it is about goroutines, which do not exist here
    ///
    /// Configz: Generic.Debugging.enableContentionProfiling
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) contention_profiling: GoBool,
    /// Serve dumps of queues and of the provider's state, and -v, under /debug/. Profiles are not
    /// available.
    ///
    /// Configz: Generic.Debugging.enableProfiling
    #[arg(long, value_name = "bool", default_value = "true")]
    pub(in crate::options) profiling: GoBool,
}

#[derive(Args)]
#[command(next_help_heading = "Leader-migration flags")]
pub(in crate::options) struct MigrationFlags {
    /// Run some controllers under a second Lease, shared with the component that ran them before.
    ///
    /// Configz: Generic.LeaderMigrationEnabled
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) enable_leader_migration: GoBool,
    /// File with a LeaderMigrationConfiguration of group controllermanager.config.k8s.io. Empty:
    /// the Lease cloud-provider-extraction-migration for service-lb-controller,
    /// node-route-controller and cloud-node-lifecycle-controller.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) leader_migration_config: String,
}

#[derive(Args)]
#[command(next_help_heading = "Misc flags")]
pub(in crate::options) struct MiscFlags {
    /// Kubeconfig with address and credentials for the API server; empty: the Pod's service
    /// account.
    ///
    /// Configz: Generic.ClientConnection.kubeconfig
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) kubeconfig: String,
    /// URL of the API server; overrides that of the kubeconfig.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) master: String,
    /// Period in which addresses and labels of each initialised Node are refreshed.
    ///
    /// Configz: NodeStatusUpdateFrequency
    #[arg(long, value_name = "duration", default_value = "5m0s")]
    pub(in crate::options) node_status_update_frequency: GoDuration,
}

#[derive(Args)]
#[command(next_help_heading = "Global flags")]
pub(in crate::options) struct GlobalFlags {
    /// Print this help and exit.
    #[arg(long, short, value_name = "bool", default_value = "false")]
    pub(in crate::options) help: GoBool,
    /// No effect: every line is written at once
    #[arg(long, value_name = "duration", default_value = "5s")]
    pub(in crate::options) log_flush_frequency: GoDuration,
    /// No effect: every line is written at once
    #[arg(long, value_name = "quantity", default_value = "0")]
    pub(in crate::options) log_text_info_buffer_size: Quantity,
    /// Write warnings and errors to standard error, all other lines to standard output; false: all
    /// to standard error.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) log_text_split_stream: GoBool,
    /// Format of log lines: text or json.
    ///
    /// Better: json works too
    #[arg(long, value_name = "string", default_value = "text")]
    pub(in crate::options) logging_format: String,
    /// Verbosity of the log: 4 adds debug lines, 6 trace lines, 8 requests to the API server, 10
    /// trace lines of libraries.
    #[arg(long = "v", short, value_name = "Level", default_value = "0")]
    pub(in crate::options) verbosity: u32,
    /// Print the version and exit; raw: print contract, parity and platform too.
    #[arg(long, value_name = "version", default_value = "false")]
    pub(in crate::options) version: String,
    /// Higher verbosity for some modules: pattern=N, separated by commas. A pattern, with * and ?,
    /// matches a part of a module's path, or the whole path if it has / or ::.
    #[arg(long, value_name = "pattern=N,...", default_value = "")]
    pub(in crate::options) vmodule: String,
}
