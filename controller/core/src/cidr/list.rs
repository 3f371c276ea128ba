//! Flags with one CIDR for each IP family.

use super::Cidr;
use crate::text;

/// Bytes of a text in an error.
const SHOWN: usize = 80;

/// The CIDRs of a flag: none, one, or one of each family.
///
/// # Errors
/// The defect of the list, without the flag that it stands in.
pub fn cidr_list(text: &str) -> Result<Vec<Cidr>, String> {
    let is_empty = text.trim().is_empty();
    let items = text.split(',').map(str::trim);
    one_of_each_family(items.filter(|_| !is_empty))
}

/// `items` as CIDRs: none, one, or one of each family.
pub(crate) fn one_of_each_family<'a>(
    items: impl Iterator<Item = &'a str>,
) -> Result<Vec<Cidr>, String> {
    let cidrs = items
        .map(|item| {
            Cidr::parse(item).ok_or_else(|| format!("{:?} is no CIDR", text::cut(item, SHOWN)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    match cidrs[..] {
        [_, _, _, ..] => Err(format!(
            "{} CIDRs are more than one for each IP family",
            cidrs.len()
        )),
        [first, second] if first.family() == second.family() => {
            let family = first.family();
            Err(format!("{first} and {second} are both {family}"))
        }
        _ => Ok(cidrs),
    }
}
