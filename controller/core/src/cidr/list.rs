//! Flags with one CIDR for each IP family.

use super::Cidr;
use crate::text;

/// Bytes of a text in an error.
const SHOWN: usize = 80;

/// The defect of a list of CIDRs, without the flag that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrListError {
    /// An item that is no CIDR.
    #[error("{item:?} is no CIDR")]
    Malformed {
        /// The item, cut and escaped.
        item: Box<str>,
    },
    /// Two of one family.
    #[error("{0} and {1} are both {family}", family = .0.family())]
    OneFamily(Cidr, Cidr),
    /// Three or more.
    #[error("{0} CIDRs are more than one for each IP family")]
    TooMany(usize),
}

/// The CIDRs of a flag: none, one, or one of each family.
pub fn cidr_list(text: &str) -> Result<Vec<Cidr>, CidrListError> {
    let is_empty = text.trim().is_empty();
    let items = text.split(',').map(str::trim);
    one_of_each_family(items.filter(|_| !is_empty))
}

/// `items` as CIDRs: none, one, or one of each family.
pub(crate) fn one_of_each_family<'a>(
    items: impl Iterator<Item = &'a str>,
) -> Result<Vec<Cidr>, CidrListError> {
    let cidrs = items
        .map(|item| {
            Cidr::parse(item).ok_or_else(|| CidrListError::Malformed {
                item: text::cut(item, SHOWN).into(),
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
