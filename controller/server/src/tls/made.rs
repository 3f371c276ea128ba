//! Certificates for a server that was given none (CLI-52).

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};

/// No client verifies such a certificate, so that an end would only surprise.
const YEARS: i32 = 10;

/// A certificate and its key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The certificate, in PEM.
    pub certificate: String,
    /// Its private key, in PEM.
    pub key: String,
}

/// A self-signed certificate `localhost@<unix time>` for a server at `address`.
pub(super) fn self_signed(address: IpAddr, now: Timestamp) -> Result<Pem, rcgen::Error> {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    if !address.is_unspecified() && address.to_string() != hosts[1] {
        hosts.push(address.to_string());
    }
    let mut params = CertificateParams::new(hosts)?;
    let name = format!("localhost@{}", now.as_second());
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = now.to_zoned(TimeZone::UTC).date();
    // Clocks differ.
    let (year, month, day) = parts(today.saturating_sub(1.day()));
    params.not_before = date_time_ymd(year, month, day);
    // Every year has a first of the month.
    let (year, month, _) = parts(today);
    params.not_after = date_time_ymd(year + YEARS, month, 1);
    let key = KeyPair::generate()?;
    Ok(Pem {
        certificate: params.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}

fn parts(date: Date) -> (i32, u8, u8) {
    (
        i32::from(date.year()),
        date.month().unsigned_abs(),
        date.day().unsigned_abs(),
    )
}

/// Keeps the pair for the next start; the key for the owner's eyes only. Each file is there whole or not
/// at all, and the certificate last, so that a crash leaves no pair that does not fit.
pub(super) fn keep(pem: &Pem, certificate: &Path, key: &Path) -> io::Result<()> {
    if let Some(directory) = certificate.parent() {
        fs::create_dir_all(directory)?;
    }
    write(key, &pem.key, 0o600)?;
    write(certificate, &pem.certificate, 0o644)
}

/// Moves what a crash left of a pair out of the way; the name of the file that it is in now.
pub(super) fn move_aside(half: &Path) -> io::Result<PathBuf> {
    let aside = half.with_added_extension("unpaired");
    fs::rename(half, &aside)?;
    Ok(aside)
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // A fixed name: what a crash leaves behind is overwritten by the next start.
    let aside = path.with_added_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&aside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
