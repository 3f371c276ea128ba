//! Flags with one CIDR for each IP family.

use super::Cidr;
use crate::fault::Excerpt;

/// The defect of a list of CIDRs, without the flag that it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CidrListError {
    /// An item that is no CIDR.
    Malformed {
        /// Its place.
        index: usize,
        /// The item, cut and escaped.
        item: Excerpt,
    },
    /// Two of one family.
    OneFamily(Cidr, Cidr),
    /// Three or more.
    TooMany(usize),
}

/// The CIDRs of a flag: none, one, or one of each family, in the order given, which counts (I-8).
pub fn cidr_list(text: &str) -> Result<Vec<Cidr>, CidrListError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let items = text.split(',').map(str::trim).enumerate();
    let cidrs = items
        .map(|(index, item)| {
            Cidr::parse(item).ok_or_else(|| CidrListError::Malformed {
                index,
                item: Excerpt::of(item),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    match cidrs[..] {
        [_, _, _, ..] => Err(CidrListError::TooMany(cidrs.len())),
        [first, second] if first.family() == second.family() => {
            Err(CidrListError::OneFamily(first, second))
        }
        _ => Ok(cidrs),
    }
}
