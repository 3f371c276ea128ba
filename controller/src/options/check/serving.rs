//! The HTTPS server.

use super::Findings;
use crate::options::{flags::ServingFlags, tls};
use outrigger_server::settings::Serving;

/// Absent if there is none.
pub(super) fn secure(flags: &ServingFlags, f: &mut Findings) -> Option<Serving> {
    let port = f.port(flag!(flags.secure_port));
    let streams = flags.http2_max_streams_per_connection;
    let streams = f.valid(u32::try_from(streams).map_err(|_| {
        format!(
            "--http2-max-streams-per-connection must be between 0 and {}, but got {streams}",
            u32::MAX
        )
    }));
    let tls = tls::TlsFlags {
        prefix: "",
        min_version: &flags.tls_min_version,
        cipher_suites: &flags.tls_cipher_suites,
        curves: &flags.tls_curve_preferences,
    };
    let serving = Serving {
        address: flags.bind_address.0,
        port,
        certificate: tls::certificate(
            "",
            &flags.tls_cert_file,
            &flags.tls_private_key_file,
            &flags.cert_dir,
            &mut f.errors,
        ),
        sni: flags.tls_sni_cert_key.0.clone(),
        tls: tls.policy(&mut f.errors, &mut f.warnings),
        http2: !flags.disable_http2_serving.0,
        http2_max_streams: Some(streams).filter(|streams| *streams > 0),
        permit_port_sharing: flags.permit_port_sharing.0,
        permit_address_sharing: flags.permit_address_sharing.0,
    };
    (port != 0).then_some(serving)
}
