//! The annotation's syntax: one IP address, or one of each family.

use std::net::{IpAddr, Ipv4Addr};

use super::ParseReason;

/// The addresses of an annotation's value, in its order (N-43).
pub(super) fn parse(value: &str) -> Result<Vec<IpAddr>, ParseReason> {
    let parts = value.split(',');
    let ips: Vec<IpAddr> = parts
        .map(|part| parse_ip(part).ok_or_else(|| ParseReason::NotAnIp(part.into())))
        .collect::<Result<_, _>>()?;
    match *ips {
        [_] => Ok(ips),
        [first, second] if first.is_ipv4() != second.is_ipv4() => {
            if first.is_unspecified() || second.is_unspecified() {
                return Err(ParseReason::UnspecifiedInPair);
            }
            Ok(ips)
        }
        _ => Err(ParseReason::NotAPair),
    }
}

/// One address by its number: `::ffff:10.0.0.1` is `10.0.0.1`. Octets may have leading zeros and
/// are decimal all the same, as everywhere in Kubernetes (H-2).
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip = match text.rsplit_once(':') {
        None => parse_v4(text)?.into(),
        Some((head, tail)) if tail.contains('.') => {
            format!("{head}:{}", parse_v4(tail)?).parse().ok()?
        }
        Some(_) => text.parse::<IpAddr>().ok()?,
    };
    Some(ip.to_canonical())
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}
