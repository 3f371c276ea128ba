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
        /// Its place.
        index: usize,
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

/// A defect of `--cluster-cidr`. Upstream's texts, and what to do (R-2, R-3, I-3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterCidrError {
    /// There is none.
    #[error(
        "invalid CIDR[0]: <nil> (invalid CIDR address: ): --cluster-cidr is empty; name the range \
         of the Pods, such as 10.244.0.0/16"
    )]
    Empty,
    /// An item that is no CIDR.
    #[error(
        "invalid CIDR[{index}]: <nil> (invalid CIDR address: {item}): --cluster-cidr takes one \
         CIDR, such as 10.244.0.0/16, or two with a comma between them"
    )]
    Malformed {
        /// Its place.
        index: usize,
        /// The item, cut and escaped.
        item: Box<str>,
    },
    /// Two of one family.
    #[error(
        "len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from each \
         IPFamily): --cluster-cidr has {0} and {1}; name one CIDR for each IP family"
    )]
    OneFamily(Cidr, Cidr),
    /// Three or more.
    #[error(
        "length of clusterCIDRs is:{0} more than max allowed of 2: name one CIDR for each IP \
         family in --cluster-cidr"
    )]
    TooMany(usize),
}

impl From<CidrListError> for ClusterCidrError {
    fn from(error: CidrListError) -> Self {
        match error {
            CidrListError::Malformed { index, item } => Self::Malformed { index, item },
            CidrListError::OneFamily(first, second) => Self::OneFamily(first, second),
            CidrListError::TooMany(count) => Self::TooMany(count),
        }
    }
}

/// The CIDRs of `--cluster-cidr`: one, or one of each family, in the order given, which counts (I-8).
pub fn cluster_cidrs(text: &str) -> Result<Vec<Cidr>, ClusterCidrError> {
    match cidr_list(text)? {
        cidrs if cidrs.is_empty() => Err(ClusterCidrError::Empty),
        cidrs => Ok(cidrs),
    }
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
        .enumerate()
        .map(|(index, item)| {
            Cidr::parse(item).ok_or_else(|| CidrListError::Malformed {
                index,
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
