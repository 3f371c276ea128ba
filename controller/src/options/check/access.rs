//! Access to the HTTPS server.

use super::{Findings, path};
use crate::options::{
    features::{Feature, FeatureGates},
    flags::{AuthenticationFlags, AuthorizationFlags},
    values::Strings,
};
use outrigger_server::settings::{Authentication, Authorization, RequestHeader};

pub(super) fn authentication(
    flags: AuthenticationFlags,
    features: &FeatureGates,
    f: &mut Findings,
) -> Authentication {
    let lists = [
        flag!(flags.requestheader_username_headers),
        flag!(flags.requestheader_group_headers),
        flag!(flags.requestheader_extra_headers_prefix),
        flag!(flags.requestheader_allowed_names),
        flag!(flags.requestheader_uid_headers),
    ];
    for (flag, Strings(items)) in &lists {
        if items.iter().any(|item| item.trim().is_empty()) {
            f.errors.push(format!("empty value in {flag:?}"));
        }
    }
    let standard = ["X-Remote-User", "X-Remote-Group", "X-Remote-Extra-"];
    for ((flag, Strings(items)), header) in lists.iter().zip(standard) {
        if lacks(items, header) {
            f.warnings.push(format!(
                "--{flag} is set without specifying the standard {header} header - API \
                 aggregation will not work"
            ));
        }
    }
    let uid_headers = &flags.requestheader_uid_headers.0;
    if !uid_headers.is_empty() && !features.enabled(Feature::RemoteRequestHeaderUid) {
        f.errors.push(
            "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be \
             enabled"
                .into(),
        );
    } else if lacks(uid_headers, "X-Remote-Uid") {
        f.errors.push(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid \
             header - API aggregation will not work"
                .into(),
        );
    }
    Authentication {
        kubeconfig: path(flags.authentication_kubeconfig),
        skip_lookup: flags.authentication_skip_lookup.0,
        tolerate_lookup_failure: flags.authentication_tolerate_lookup_failure.0,
        token_cache_ttl: f.duration(flag!(flags.authentication_token_webhook_cache_ttl)),
        client_ca_file: path(flags.client_ca_file),
        request_header: RequestHeader {
            client_ca_file: path(flags.requestheader_client_ca_file),
            allowed_names: flags.requestheader_allowed_names.0,
            username_headers: flags.requestheader_username_headers.0,
            group_headers: flags.requestheader_group_headers.0,
            uid_headers: flags.requestheader_uid_headers.0,
            extra_header_prefixes: flags.requestheader_extra_headers_prefix.0,
        },
    }
}

/// Whether there are some, but not this one.
fn lacks(items: &[String], header: &str) -> bool {
    !items.is_empty() && !items.iter().any(|item| item.eq_ignore_ascii_case(header))
}

pub(super) fn authorization(flags: AuthorizationFlags, f: &mut Findings) -> Authorization {
    Authorization {
        kubeconfig: path(flags.authorization_kubeconfig),
        always_allow_paths: flags.authorization_always_allow_paths.0,
        authorized_ttl: f.duration(flag!(flags.authorization_webhook_cache_authorized_ttl)),
        unauthorized_ttl: f.duration(flag!(flags.authorization_webhook_cache_unauthorized_ttl)),
    }
}
