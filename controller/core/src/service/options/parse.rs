//! Values of options, as users write them. Each function reads one annotation, or says in words that follow the value why
//! it cannot be read.

use std::{collections::BTreeSet, net::IpAddr, ops::RangeInclusive};

use super::TCP;
use crate::{
    forbidden_addresses::ForbiddenAddresses, go_duration, service::answer::check_hostname,
    syntax::Complaint,
};

/// Bytes of the name of a reserved address, and of a path.
const MAX_NAME: usize = 255;
const MAX_PATH: usize = 1_024;

pub(super) fn hostname(text: &str) -> Result<Box<str>, Complaint> {
    check_hostname(text, &ForbiddenAddresses::default())?;
    Ok(text.into())
}

pub(super) fn word(text: &str, served: &[&'static str]) -> Result<&'static str, Complaint> {
    let mut words = served.iter().copied();
    words.find(|word| *word == text).ok_or("is not served")
}

pub(super) fn address(text: &str) -> Result<IpAddr, Complaint> {
    let ip: IpAddr = text.trim().parse().map_err(|_| "is no IP address")?;
    ForbiddenAddresses::default().check_ip(ip)?;
    Ok(ip.to_canonical())
}

pub(super) fn addresses(text: &str, most: usize) -> Result<Vec<IpAddr>, Complaint> {
    let addresses = text.split(',').map(address);
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    let families: BTreeSet<_> = addresses.iter().map(IpAddr::is_ipv4).collect();
    if families.len() < addresses.len() {
        return Err("names two addresses of one family");
    }
    few(addresses, most)
}

pub(super) fn names(text: &str, most: usize) -> Result<Vec<Box<str>>, Complaint> {
    let names: Vec<Box<str>> = text.split(',').map(|name| name.trim().into()).collect();
    let is_name = |name: &str| {
        matches!(name.len(), 1..=MAX_NAME) && name.bytes().all(|b| b.is_ascii_graphic())
    };
    if !names.iter().all(|name| is_name(name)) {
        return Err("has a name that is not 1 to 255 visible ASCII characters");
    }
    if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
        return Err("has a name twice");
    }
    few(names, most)
}

fn few<T>(list: Vec<T>, most: usize) -> Result<Vec<T>, Complaint> {
    if list.len() > most {
        return Err("names too many");
    }
    Ok(list)
}

/// A path, which the protocol has to know.
pub(super) fn path(text: &str, protocol: &str) -> Result<Box<str>, Complaint> {
    if protocol == TCP {
        return Err("stands beside the protocol tcp, which has no path");
    }
    let is_visible = text.bytes().all(|b| b.is_ascii_graphic());
    if !text.starts_with('/') || text.len() > MAX_PATH || !is_visible {
        return Err("is no path from / on, of at most 1,024 visible ASCII characters");
    }
    Ok(text.into())
}

pub(super) fn number(text: &str, range: Option<&RangeInclusive<u32>>) -> Result<u32, Complaint> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    within(number.ok_or("is no number from 1 on")?, range)
}

pub(super) fn seconds(text: &str, range: Option<&RangeInclusive<u32>>) -> Result<u32, Complaint> {
    let duration = go_duration::parse(text).map_err(|_| "is no duration such as 10s")?;
    if duration.subsec_nanos() > 0 {
        return Err("has a fraction of a second");
    }
    within(u32::try_from(duration.as_secs()).unwrap_or(u32::MAX), range)
}

fn within(number: u32, range: Option<&RangeInclusive<u32>>) -> Result<u32, Complaint> {
    if range.is_some_and(|range| range.contains(&number)) {
        return Ok(number);
    }
    Err("is out of range")
}
