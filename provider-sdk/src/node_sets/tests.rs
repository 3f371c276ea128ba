use std::collections::BTreeMap;

use outrigger_api::v1::{
    self, NodeAddress, NodeSetBegin, NodeSetChunk, NodeSetCommit, NodeSetRef, NodeTargets,
    node_targets,
};
use proptest::prelude::*;

use super::*;
use crate::{Address, Error, ErrorReason};

mod travel;

type Content = BTreeMap<String, String>;

fn node(name: &str, address: &str) -> v1::Node {
    v1::Node {
        name: name.to_owned(),
        addresses: vec![NodeAddress {
            r#type: "Hostname".to_owned(),
            address: address.to_owned(),
        }],
        ..v1::Node::default()
    }
}

/// The revision that a controller makes, from the content alone.
fn revision(content: &Content) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn content(targets: &Targets) -> Content {
    targets
        .iter()
        .map(|node| match &node.addresses[0] {
            Address::Hostname(address) => (node.name.clone(), address.clone()),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn resolve(sets: &NodeSets, revision: &str) -> Result<Targets, Error> {
    let targets = Some(node_targets::Targets::Ref(NodeSetRef {
        set_id: "all".to_owned(),
        revision: revision.to_owned(),
    }));
    sets.resolve(Some(NodeTargets { targets }))
}

/// The messages of a controller.
#[derive(Clone, Debug)]
enum Part {
    Chunk(NodeSetChunk),
    Commit(NodeSetCommit),
}

fn parts(base: Option<&Content>, content: &Content, size: usize) -> (NodeSetBegin, Vec<Part>) {
    let nothing = Content::new();
    let from = base.unwrap_or(&nothing);
    let begin = NodeSetBegin {
        context: None,
        set_id: "all".to_owned(),
        base_revision: base.map(revision).unwrap_or_default(),
        revision: revision(content),
        node_count: content.len() as u32,
    };
    let upserts = content
        .iter()
        .filter(|(name, address)| from.get(*name) != Some(address))
        .map(|(name, address)| (name.clone(), Some(node(name, address))));
    let removals = from
        .keys()
        .filter(|name| !content.contains_key(*name))
        .map(|name| (name.clone(), None));
    let changes: Vec<(String, Option<v1::Node>)> = upserts.chain(removals).collect();
    let mut parts: Vec<_> = changes
        .chunks(size)
        .map(|changes| {
            let mut chunk = NodeSetChunk::default();
            for (name, node) in changes {
                match node {
                    Some(node) => chunk.upserts.push(node.clone()),
                    None => chunk.removals.push(name.clone()),
                }
            }
            Part::Chunk(chunk)
        })
        .collect();
    parts.push(Part::Commit(NodeSetCommit {
        change_count: changes.len() as u32,
    }));
    (begin, parts)
}

/// An upload that ends without a commit was cut off, or cancelled.
fn upload(sets: &NodeSets, begin: NodeSetBegin, parts: &[Part]) -> Result<(), Error> {
    let mut upload = Upload::begin(sets, begin)?;
    for part in parts {
        match part {
            Part::Chunk(chunk) => upload.chunk(chunk.clone())?,
            Part::Commit(commit) => return upload.commit(sets, *commit).map(|_| ()),
        }
    }
    Err(Error::invalid_request("no commit"))
}

fn sync(
    sets: &NodeSets,
    base: Option<&Content>,
    content: &Content,
    size: usize,
) -> Result<(), Error> {
    let (begin, parts) = parts(base, content, size);
    upload(sets, begin, &parts)
}

fn named(names: &[&str]) -> Content {
    names
        .iter()
        .map(|name| ((*name).to_owned(), "10.0.0.1".to_owned()))
        .collect()
}

fn numbered(count: usize) -> Content {
    (0..count)
        .map(|index| (format!("node-{index:05}"), format!("10.0.0.{index}")))
        .collect()
}

/// NDS-01.
#[test]
fn chunks_of_any_size_make_the_same_set() {
    let whole = numbered(500);
    for size in [1, 10, 500] {
        let sets = NodeSets::new(1);
        sync(&sets, None, &whole, size).unwrap();
        let held = resolve(&sets, &revision(&whole)).unwrap();
        assert_eq!(content(&held), whole);
        assert_eq!(held.get("node-00042").unwrap().name, "node-00042");
        assert!(held.get("node-0004").is_none());
    }
}

/// NDS-02, NDS-05, NDS-06.
#[test]
fn the_latest_two_revisions_are_held_and_older_ones_are_unknown() {
    let sets = NodeSets::new(1);
    let steps: Vec<Content> = (1..=4).map(numbered).collect();
    sync(&sets, None, &steps[0], 10).unwrap();
    for pair in steps.windows(2) {
        sync(&sets, Some(&pair[0]), &pair[1], 10).unwrap();
        for held in pair {
            assert_eq!(content(&resolve(&sets, &revision(held)).unwrap()), *held);
        }
    }
    let unknown = resolve(&sets, &revision(&steps[1])).unwrap_err();
    assert_eq!(unknown.reason(), Some(ErrorReason::NodeSetUnknown));
    let mismatch = sync(&sets, Some(&steps[0]), &steps[1], 10).unwrap_err();
    assert_eq!(mismatch.reason(), Some(ErrorReason::NodeSetBaseMismatch));
}

#[test]
fn a_held_revision_is_a_success_and_becomes_the_latest() {
    let (sets, steps) = (NodeSets::new(1), [numbered(1), numbered(2), numbered(3)]);
    sync(&sets, None, &steps[0], 10).unwrap();
    sync(&sets, Some(&steps[0]), &steps[1], 10).unwrap();
    sync(&sets, None, &steps[0], 10).unwrap();
    sync(&sets, Some(&steps[0]), &steps[2], 10).unwrap();
    assert!(resolve(&sets, &revision(&steps[0])).is_ok());
    assert!(resolve(&sets, &revision(&steps[1])).is_err());
}

/// NDS-07 and what else a sender may get wrong; the old set stays.
#[test]
fn a_wrong_upload_is_refused_whole() {
    let sets = NodeSets::new(1);
    let old = named(&["a", "b"]);
    sync(&sets, None, &old, 10).unwrap();
    let begin = |count: u32, base: &str| NodeSetBegin {
        set_id: "all".to_owned(),
        base_revision: base.to_owned(),
        revision: "new".to_owned(),
        node_count: count,
        context: None,
    };
    let chunk = |upserts: &[&str], removals: &[&str]| {
        Part::Chunk(NodeSetChunk {
            upserts: upserts.iter().map(|name| node(name, "10.0.0.9")).collect(),
            removals: removals.iter().map(|name| (*name).to_owned()).collect(),
        })
    };
    let commit = |change_count| Part::Commit(NodeSetCommit { change_count });
    let base = revision(&old);
    for (begin, parts, says) in [
        (
            begin(2, ""),
            vec![chunk(&["a"], &[]), commit(1)],
            "node_count is 2",
        ),
        (
            begin(1, ""),
            vec![chunk(&["a", "b"], &[]), commit(2)],
            "node_count is 1",
        ),
        (
            begin(2, ""),
            vec![chunk(&["a"], &[]), chunk(&["a"], &[])],
            "\"a\", which came before",
        ),
        (begin(2, ""), vec![chunk(&[], &["a"])], "removes node \"a\""),
        (
            begin(1, &base),
            vec![chunk(&[], &["c"])],
            "removes node \"c\"",
        ),
        (
            begin(1, &base),
            vec![chunk(&["a"], &["a"])],
            "\"a\", which came before",
        ),
        (
            begin(2, &base),
            vec![chunk(&["a"], &[]), commit(2)],
            "change_count is 2",
        ),
    ] {
        let refused = upload(&sets, begin, &parts).unwrap_err();
        assert_eq!(
            refused.reason(),
            Some(ErrorReason::InvalidRequest),
            "{refused}"
        );
        assert!(
            refused.message().contains(says),
            "{says:?} is missing: {refused}"
        );
        assert_eq!(content(&resolve(&sets, &base).unwrap()), old);
        assert!(resolve(&sets, "new").is_err());
    }
}

#[test]
fn so_many_sets_are_held_as_are_declared() {
    for (max_sets, kept) in [(0, 1), (1, 1), (3, 3)] {
        let sets = NodeSets::new(max_sets);
        for index in 0..10 {
            let (mut begin, parts) = parts(None, &numbered(1), 10);
            begin.set_id = format!("set-{index}");
            upload(&sets, begin, &parts).unwrap();
        }
        let held = |index: usize| sets.held(&format!("set-{index}"), &revision(&numbered(1)));
        let held: Vec<_> = (0..10).filter(|index| held(*index).is_some()).collect();
        assert_eq!(
            held,
            (10 - kept..10).collect::<Vec<_>>(),
            "{max_sets} declared"
        );
    }
}

#[test]
fn inline_nodes_are_sorted() {
    let nodes = ["b", "a"].map(|name| node(name, "")).to_vec();
    let inline = node_targets::Targets::Inline(v1::InlineNodes { nodes });
    let targets = NodeTargets {
        targets: Some(inline),
    };
    let sorted = NodeSets::new(1).resolve(Some(targets)).unwrap();
    let names: Vec<_> = sorted.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(sorted.revision().is_none());
}

/// The revision names addresses and not labels: a sync on itself brings the rest up to date.
#[test]
fn a_sync_of_a_revision_on_itself_applies_its_upserts() {
    let sets = NodeSets::new(1);
    let sync = |base: &str, revision: &str, upserts: Vec<v1::Node>, node_count| {
        let begin = NodeSetBegin {
            context: None,
            set_id: "all".to_owned(),
            base_revision: base.to_owned(),
            revision: revision.to_owned(),
            node_count,
        };
        let change_count = u32::try_from(upserts.len()).unwrap();
        let mut upload = Upload::begin(&sets, begin).unwrap();
        let chunk = NodeSetChunk {
            upserts,
            removals: Vec::new(),
        };
        upload.chunk(chunk).unwrap();
        upload
            .commit(&sets, NodeSetCommit { change_count })
            .unwrap();
    };
    sync("", "one", vec![node("a", "10.0.0.1")], 1);
    sync("one", "two", vec![node("b", "10.0.0.2")], 2);
    let cordoned = v1::Node {
        unschedulable: true,
        ..node("b", "10.0.0.2")
    };
    sync("two", "two", vec![cordoned], 2);
    let latest = resolve(&sets, "two").unwrap();
    assert_eq!(latest.len(), 2);
    assert!(latest.get("b").unwrap().unschedulable);
    // The one before is held as ever.
    assert_eq!(resolve(&sets, "one").unwrap().len(), 1);
}
