use clap::Args;

use crate::options::values::{GoBool, GoDuration, Strings};

#[derive(Args)]
#[command(next_help_heading = "Authentication flags")]
pub(in crate::options) struct AuthenticationFlags {
    /// Kubeconfig file with the right to create tokenreviews.authentication.k8s.io. If it is
    /// empty, and outside of a Pod, callers with a token are anonymous and no client CA is looked
    /// up in the cluster.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) authentication_kubeconfig: String,
    /// Do not look up in the cluster what these flags leave open.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) authentication_skip_lookup: GoBool,
    /// How long the answer about a token is believed.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) authentication_token_webhook_cache_ttl: GoDuration,
    /// Go on if that look-up fails. Callers may then all be anonymous.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) authentication_tolerate_lookup_failure: GoBool,
    /// CAs: a caller with a client certificate of one of them is the user in its common name.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) client_ca_file: String,
    /// Common names of client certificates that may name a user in the headers of
    /// --requestheader-username-headers. If empty, any certificate of the CAs in
    /// --requestheader-client-ca-file may.
    #[arg(long, value_name = "strings", default_value = "")]
    pub(in crate::options) requestheader_allowed_names: Strings,
    /// CAs that a client certificate is checked against before the headers of
    /// --requestheader-username-headers are trusted.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) requestheader_client_ca_file: String,
    /// Beginnings of request headers with more about the user.
    #[arg(long, value_name = "strings", default_value = "x-remote-extra-")]
    pub(in crate::options) requestheader_extra_headers_prefix: Strings,
    /// Request headers with the user's groups.
    #[arg(long, value_name = "strings", default_value = "x-remote-group")]
    pub(in crate::options) requestheader_group_headers: Strings,
    /// Request headers with the user's UID, X-Remote-Uid among them. Requires the feature gate
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
    /// HTTP paths that anyone may see; a trailing * stands for anything.
    #[arg(
        long,
        value_name = "strings",
        default_value = "/healthz,/readyz,/livez"
    )]
    pub(in crate::options) authorization_always_allow_paths: Strings,
    /// Kubeconfig file with the right to create subjectaccessreviews.authorization.k8s.io. If it
    /// is empty, and outside of a Pod, only --authorization-always-allow-paths may be seen.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) authorization_kubeconfig: String,
    /// How long a yes about a caller's right is believed.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) authorization_webhook_cache_authorized_ttl: GoDuration,
    /// How long a no about a caller's right is believed.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) authorization_webhook_cache_unauthorized_ttl: GoDuration,
}
