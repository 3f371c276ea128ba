//! The HTTPS server.

use outrigger_server::settings::{Certificate, Serving};

use super::{Findings, tls};
use crate::options::table::Flags;

/// Absent if there is none.
pub(super) fn serving(flags: &Flags, f: &mut Findings) -> Option<Serving> {
    let port = f.port(&flags.secure_port);
    let streams = &flags.http2_max_streams_per_connection;
    let http2_max_streams = u32::try_from(streams.value).ok();
    let rule = format!("be between 0 and {}", u32::MAX);
    let http2_max_streams = f.in_range(streams, http2_max_streams, &rule);
    let certificate = tls::certificate(
        &flags.tls_cert_file,
        &flags.tls_private_key_file,
        &flags.cert_dir,
        f,
    );
    let serving = Serving {
        address: flags.bind_address.value,
        port,
        certificate: certificate.unwrap_or(Certificate::SelfSigned),
        tls: tls::policy(
            &flags.tls_min_version,
            &flags.tls_cipher_suites,
            &flags.tls_curve_preferences,
            f,
        ),
        http2: !flags.disable_http2_serving.value,
        http2_max_streams: Some(http2_max_streams).filter(|streams| *streams > 0),
        permit_port_sharing: flags.permit_port_sharing.value,
    };
    (port != 0).then_some(serving)
}
