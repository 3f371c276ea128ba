//! Access to the HTTPS server.

use outrigger_server::settings::{Authentication, Authorization, RequestHeader};

use super::{Findings, path};
use crate::options::{features, table::Flags};

pub(super) fn authentication(flags: &Flags, f: &mut Findings) -> Authentication {
    let lists = [
        (&flags.requestheader_username_headers, "X-Remote-User"),
        (&flags.requestheader_group_headers, "X-Remote-Group"),
        (&flags.requestheader_extra_headers_prefix, "X-Remote-Extra-"),
        (&flags.requestheader_allowed_names, ""),
        (&flags.requestheader_uid_headers, "X-Remote-Uid"),
    ];
    for (flag, header) in lists {
        if flag.iter().any(|item| item.trim().is_empty()) {
            f.errors.push(format!("empty value in {:?}", flag.name()));
        }
        let is_uid = header == "X-Remote-Uid";
        let lacks_header = !flag.is_empty()
            && !header.is_empty()
            && !flag.iter().any(|item| item.eq_ignore_ascii_case(header));
        let error = format!(
            "{flag} is set without specifying the standard {header} header - API aggregation will not work"
        );
        if is_uid && !flag.is_empty() && !flags.feature_gates.enabled(features::UID_HEADERS) {
            let gate = features::UID_HEADERS;
            f.errors.push(format!(
                "{flag} requires the \"{gate}\" feature to be enabled"
            ));
        } else if lacks_header && is_uid {
            f.errors.push(error);
        } else if lacks_header {
            f.warnings.push(error);
        }
    }
    Authentication {
        kubeconfig: path(&flags.authentication_kubeconfig),
        skip_lookup: flags.authentication_skip_lookup.value,
        tolerate_lookup_failure: flags.authentication_tolerate_lookup_failure.value,
        token_cache_ttl: f.duration(&flags.authentication_token_webhook_cache_ttl),
        client_ca_file: path(&flags.client_ca_file),
        request_header: RequestHeader {
            client_ca_file: path(&flags.requestheader_client_ca_file),
            allowed_names: flags.requestheader_allowed_names.to_vec(),
            username_headers: flags.requestheader_username_headers.to_vec(),
            group_headers: flags.requestheader_group_headers.to_vec(),
            uid_headers: flags.requestheader_uid_headers.to_vec(),
            extra_header_prefixes: flags.requestheader_extra_headers_prefix.to_vec(),
        },
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
