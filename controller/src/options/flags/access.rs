use clap::Args;

use crate::options::values::{GoBool, GoDuration, Strings};

#[derive(Args)]
#[command(next_help_heading = "Authentication flags")]
pub(in crate::options) struct AuthenticationFlags {
    /// Kubeconfig with the right to create tokenreviews.authentication.k8s.io. If empty outside of
    /// a Pod, callers with a token are anonymous, and no client CA is looked up in the cluster.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) authentication_kubeconfig: String,
    /// Do not look up missing authentication configuration in the cluster.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) authentication_skip_lookup: GoBool,
    /// Time for which the answer to a TokenReview is cached.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) authentication_token_webhook_cache_ttl: GoDuration,
    /// Start although the lookup of missing authentication configuration failed. All callers may
    /// then be anonymous.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) authentication_tolerate_lookup_failure: GoBool,
    /// File with CAs of client certificates; a certificate's common name is the user.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) client_ca_file: String,
    /// Common names of client certificates that may set --requestheader-username-headers; empty:
    /// any certificate of --requestheader-client-ca-file.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) requestheader_allowed_names: Strings,
    /// File with CAs that must have signed a client certificate before
    /// --requestheader-username-headers are trusted.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) requestheader_client_ca_file: String,
    /// Prefixes of request headers with further attributes of the user.
    #[arg(long, value_name = "strings", default_value = "x-remote-extra-")]
    pub(in crate::options) requestheader_extra_headers_prefix: Strings,
    /// Request headers with the user's groups.
    #[arg(long, value_name = "strings", default_value = "x-remote-group")]
    pub(in crate::options) requestheader_group_headers: Strings,
    /// Request headers with the user's UID, X-Remote-Uid among them; requires the feature gate
    /// RemoteRequestHeaderUID.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) requestheader_uid_headers: Strings,
    /// Request headers with the user's name.
    #[arg(long, value_name = "strings", default_value = "x-remote-user")]
    pub(in crate::options) requestheader_username_headers: Strings,
}

#[derive(Args)]
#[command(next_help_heading = "Authorization flags")]
pub(in crate::options) struct AuthorizationFlags {
    /// HTTP paths served without authorization; a trailing * matches any suffix.
    #[arg(
        long,
        value_name = "strings",
        default_value = "/healthz,/readyz,/livez"
    )]
    pub(in crate::options) authorization_always_allow_paths: Strings,
    /// Kubeconfig with the right to create subjectaccessreviews.authorization.k8s.io. If empty
    /// outside of a Pod, only --authorization-always-allow-paths are served.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) authorization_kubeconfig: String,
    /// Time for which a SubjectAccessReview that allows is cached.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) authorization_webhook_cache_authorized_ttl: GoDuration,
    /// Time for which a SubjectAccessReview that denies is cached.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) authorization_webhook_cache_unauthorized_ttl: GoDuration,
}
