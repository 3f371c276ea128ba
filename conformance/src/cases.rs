//! All cases, one file for each area. To add one: a block in `cases.txt`, and its check in the file of its area.

mod errors;
mod handshake;
mod instances;
mod load_balancers;
mod node_sets;
mod resilience;
mod routes;
mod transport;
pub(crate) mod volumes;

pub use crate::case::Case;

use clap::ValueEnum as _;
use outrigger_api::{CONTROLLER_MAX_MESSAGE_BYTES, ListPage, MethodRequest};

use crate::{
    case::Check,
    subject::Subject,
    verdict::{Verdict, expect},
};

/// The cases but their checks.
const TABLE: &str = include_str!("cases.txt");

/// All cases, in the order in which they are run: that of the table.
pub fn all() -> Vec<Case> {
    let checks = checks();
    let blocks = blocks();
    blocks
        .filter_map(|block| Case::read(block, &checks))
        .collect()
}

/// The blocks of the table, without its head.
fn blocks() -> impl Iterator<Item = &'static str> {
    TABLE.split("\n\n").skip(1)
}

/// A line for each case, its fields separated by tabs.
pub fn table() -> String {
    let line = |case: Case| {
        let (id, level, title) = (case.id, case.level, case.title);
        let capability = case.capability.to_possible_value();
        let capability = capability.map_or_else(String::new, |one| one.get_name().to_owned());
        let mutates = if case.mutates { "changed" } else { "" };
        format!("{id}\t{level}\t{capability}\t{mutates}\t{title}\n")
    };
    all().into_iter().map(line).collect()
}

fn checks() -> Vec<Check> {
    [
        transport::checks(),
        handshake::checks(),
        instances::checks(),
        load_balancers::checks(),
        node_sets::checks(),
        routes::checks(),
        volumes::checks(),
        resilience::checks(),
        errors::checks(),
    ]
    .concat()
}

/// The case that the list of a request ends as it should, and has no message beyond the limit that was named at handshake.
async fn complete<R: MethodRequest<Response: ListPage>>(subject: &Subject) -> Verdict {
    let listed = subject.client.list(R::default()).await?;
    expect(
        listed.is_complete(),
        "complete on the last message and on no other",
        format!("complete by message: {:?}", listed.completes),
    )?;
    expect(
        listed.largest_message <= CONTROLLER_MAX_MESSAGE_BYTES,
        format!("messages of {CONTROLLER_MAX_MESSAGE_BYTES} bytes at most"),
        format!("{} bytes", listed.largest_message),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_a_check_and_each_check_a_block() {
        let ids = blocks().map(|block| block.split(' ').next().unwrap());
        let mut ids: Vec<_> = ids.collect();
        let cases: Vec<_> = all().iter().map(|case| case.id).collect();
        assert_eq!(cases, ids, "a block cannot be read");
        let mut checks: Vec<_> = checks().iter().map(|check| check.id).collect();
        ids.sort_unstable();
        checks.sort_unstable();
        assert_eq!(checks, ids);
    }
}
