//! Access to the HTTPS server.

use outrigger_server::settings::{Authentication, Authorization};

use super::{Findings, path};
use crate::options::table::Flags;

pub(super) fn authentication(flags: &Flags, f: &mut Findings) -> Authentication {
    Authentication {
        kubeconfig: path(&flags.authentication_kubeconfig),
        skip_lookup: flags.authentication_skip_lookup.value,
        tolerate_lookup_failure: flags.authentication_tolerate_lookup_failure.value,
        token_cache_ttl: f.duration(&flags.authentication_token_webhook_cache_ttl),
        client_ca_file: path(&flags.client_ca_file),
    }
}

pub(super) fn authorization(flags: &Flags, f: &mut Findings) -> Authorization {
    Authorization {
        kubeconfig: path(&flags.authorization_kubeconfig),
        always_allow_paths: flags.authorization_always_allow_paths.to_vec(),
        authorized_ttl: f.duration(&flags.authorization_webhook_cache_authorized_ttl),
        unauthorized_ttl: f.duration(&flags.authorization_webhook_cache_unauthorized_ttl),
    }
}
