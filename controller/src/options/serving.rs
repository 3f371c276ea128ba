//! The HTTPS server.

use std::net::IpAddr;

use crate::server::settings::{Certificate, GivenPath, Serving, given_path};
use clap::Args;

use super::tls;

#[derive(Args)]
#[command(next_help_heading = "Secure serving")]
pub(super) struct ServingFlags {
    /// Address to listen on at --secure-port. 0.0.0.0 and :: stand for all interfaces and IP families.
    #[arg(long, default_value = "0.0.0.0")]
    pub(super) bind_address: IpAddr,
    /// Listen with SO_REUSEPORT, so that a second process can share the port.
    #[arg(long)]
    pub(super) permit_port_sharing: bool,
    /// Port of HTTPS with health, metrics and debugging; 0: none.
    #[arg(long, default_value = "10258")]
    pub(super) secure_port: u16,
    /// File with the certificate for HTTPS, followed by its chain; reloaded when it changes. Empty: one is made, in memory.
    #[arg(long, default_value = "", value_parser = given_path)]
    tls_cert_file: GivenPath,
    /// Minimum version of TLS: VersionTLS12 or VersionTLS13; empty: VersionTLS12.
    #[arg(long, default_value = "", value_parser = tls::VERSIONS)]
    tls_min_version: String,
    /// File with the private key of --tls-cert-file.
    #[arg(long, default_value = "", value_parser = given_path)]
    tls_private_key_file: GivenPath,
}

impl ServingFlags {
    /// Absent if there is none.
    pub(super) fn settings(&self) -> Result<Option<Serving>, String> {
        let files = (&self.tls_cert_file, &self.tls_private_key_file);
        let certificate = tls::certificate("", files)?;
        let serving = Serving {
            address: self.bind_address,
            port: self.secure_port,
            certificate: certificate.unwrap_or(Certificate::SelfSigned),
            min_tls: tls::min_version(&self.tls_min_version),
            permit_port_sharing: self.permit_port_sharing,
        };
        Ok((self.secure_port != 0).then_some(serving))
    }
}
