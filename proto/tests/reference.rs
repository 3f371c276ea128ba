//! `docs/contract.md` is the contract's comments as a page: one section for each service, with the tables
//! of its RPCs, messages and enums.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

#[path = "reference/text.rs"]
mod text;

use std::{collections::HashMap, env, fmt::Write as _, fs, path::Path, time::Duration};

use outrigger_api::{
    FILE_DESCRIPTOR_SET, METHODS, Method, code_name, code_of,
    v1::{CallClass, ErrorReason},
};
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, ServiceDescriptorProto, field_descriptor_proto::Label,
};

const HEAD: &str = "\
# Contract reference

All of `cloudprovider.v1`, made from the comments in [`proto/cloudprovider/v1`](../proto/cloudprovider/v1), which decide. After a
change of them: `UPDATE_CONTRACT=1 cargo test -p outrigger-api`. To start with a provider, read [providers.md](providers.md).

In the tables of the RPCs, \"the controller\" says what the controller does after such an answer; the numbers of the gRPC codes are
in [`proto/reasons.txt`](../proto/reasons.txt).
";

/// In the order in which one reads them.
const FILES: [&str; 8] = [
    "provider",
    "instances",
    "load_balancers",
    "node_sets",
    "routes",
    "volumes",
    "common",
    "options",
];

/// The comments of one file by the path of their declaration.
struct Comments<'a>(HashMap<&'a [i32], &'a str>);

impl<'a> Comments<'a> {
    fn of(file: &'a FileDescriptorProto) -> Self {
        let info = file.source_code_info.as_ref();
        let locations = &info.expect("the compiler keeps comments").location;
        let leading = |l: &'a prost_types::source_code_info::Location| {
            (&*l.path, l.leading_comments.as_deref().unwrap_or_default())
        };
        Self(locations.iter().map(leading).collect())
    }

    fn at(&self, path: &[i32]) -> &'a str {
        self.0.get(path).copied().unwrap_or_default()
    }
}

fn short(name: &str) -> &str {
    let name = name.trim_start_matches('.');
    name.strip_prefix("cloudprovider.v1.").unwrap_or(name)
}

/// A type as the `.proto` file spells it.
fn type_of(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let scalar = || {
        field
            .r#type()
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_lowercase()
    };
    let name = field
        .type_name
        .as_deref()
        .map_or_else(scalar, |n| short(n).to_owned());
    let entry = message.nested_type.iter().find(|nested| {
        let is_map = nested
            .options
            .as_ref()
            .is_some_and(prost_types::MessageOptions::map_entry);
        is_map && name.ends_with(&format!(".{}", nested.name()))
    });
    if let Some(entry) = entry {
        let kinds: Vec<_> = entry.field.iter().map(|f| type_of(entry, f)).collect();
        return format!("map<{}>", kinds.join(", "));
    }
    if field.label() == Label::Repeated {
        return format!("repeated {name}");
    }
    if field.proto3_optional() {
        return format!("optional {name}");
    }
    match field
        .oneof_index
        .and_then(|at| message.oneof_decl.get(at as usize))
    {
        Some(oneof) => format!("{name}, in {}", oneof.name()),
        None => name,
    }
}

fn service(page: &mut String, comments: &Comments<'_>, at: i32, proto: &ServiceDescriptorProto) {
    let _ = writeln!(page, "\n## {}\n", proto.name());
    page.push_str(&text::markdown(comments.at(&[6, at])));
    for (rpc, method) in (0..).zip(&proto.method) {
        let stream = |on: bool| if on { "stream " } else { "" };
        let _ = writeln!(
            page,
            "\n### {}\n\n`rpc {}({}{}) returns ({}{})`\n",
            method.name(),
            method.name(),
            stream(method.client_streaming()),
            short(method.input_type()),
            stream(method.server_streaming()),
            short(method.output_type()),
        );
        page.push_str(&rules(proto.name(), method.name()));
        page.push_str(&text::markdown(comments.at(&[6, at, 2, rpc])));
    }
}

fn message(page: &mut String, comments: &Comments<'_>, at: i32, proto: &DescriptorProto) {
    let _ = writeln!(page, "\n### {}\n", proto.name());
    page.push_str(&text::markdown(comments.at(&[4, at])));
    for (oneof, decl) in (0..).zip(&proto.oneof_decl) {
        let comment = comments.at(&[4, at, 8, oneof]);
        if !comment.is_empty() {
            let _ = writeln!(page, "\nOne of `{}`: {}", decl.name(), text::line(comment));
        }
    }
    if proto.field.is_empty() {
        return;
    }
    page.push_str("\n| field | type | |\n|---|---|---|\n");
    for (field, decl) in (0..).zip(&proto.field) {
        let (kind, meaning) = (type_of(proto, decl), comments.at(&[4, at, 2, field]));
        let _ = writeln!(
            page,
            "| `{}` | `{kind}` | {} |",
            decl.name(),
            text::line(meaning)
        );
    }
}

fn enumeration(page: &mut String, comments: &Comments<'_>, at: i32, proto: &EnumDescriptorProto) {
    let _ = writeln!(page, "\n### {}\n", proto.name());
    page.push_str(&text::markdown(comments.at(&[5, at])));
    page.push_str("\n| value | |\n|---|---|\n");
    for (value, decl) in (0..).zip(&proto.value) {
        let mut meaning = text::line(comments.at(&[5, at, 2, value]));
        if let Some(reason) = ErrorReason::from_str_name(decl.name())
            && reason != ErrorReason::Unspecified
        {
            meaning = format!("{}: {meaning}", code_name(code_of(reason)));
        }
        let _ = writeln!(page, "| `{}` | {meaning} |", decl.name());
    }
}

/// The options of a method as a paragraph.
fn rules(service: &str, name: &str) -> String {
    let of = |method: &&Method| method.service == service && method.name == name;
    let method = METHODS.iter().find(of).expect("each method has a row");
    let seconds = |time: Duration| match time.as_secs() {
        seconds if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    };
    let mut text = format!("Deadline {}", seconds(method.deadline));
    if let Some(silence) = method.max_silence {
        let silence = seconds(silence);
        let _ = write!(
            text,
            "; at most {silence} until the first message and between two"
        );
    }
    text.push_str(". ");
    if method.class != CallClass::Unspecified {
        let _ = write!(text, "Class {}. ", method.class.as_str_name());
    }
    text.push_str(if method.changes_cloud {
        "Changes the cloud.\n\n"
    } else {
        "Changes nothing.\n\n"
    });
    text
}

/// The rules stand before the first message of `common.proto`, apart from its own comment.
fn package_rules(page: &mut String, common: &FileDescriptorProto) {
    let info = common.source_code_info.as_ref();
    let locations = &info.expect("the compiler keeps comments").location;
    let first = locations.iter().find(|l| l.path == [4, 0]);
    let detached = first.map(|l| l.leading_detached_comments.as_slice());
    page.push_str("\n## Rules\n\n");
    for comment in detached.unwrap_or_default() {
        page.push_str(&text::sections(comment));
    }
}

fn page() -> String {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the build wrote descriptors");
    let file = |name: &str| {
        let path = format!("cloudprovider/v1/{name}.proto");
        set.file
            .iter()
            .find(|file| file.name() == path)
            .expect("the file is there")
    };
    let mut page = HEAD.to_owned();
    package_rules(&mut page, file("common"));
    for name in FILES {
        let file = file(name);
        let comments = Comments::of(file);
        for (at, proto) in (0..).zip(&file.service) {
            service(&mut page, &comments, at, proto);
        }
        match name {
            "common" => page.push_str("\n## Messages of several services\n"),
            "options" => page.push_str("\n## Options of the methods\n"),
            _ => {}
        }
        for (at, proto) in (0..).zip(&file.message_type) {
            message(&mut page, &comments, at, proto);
        }
        for (at, proto) in (0..).zip(&file.enum_type) {
            enumeration(&mut page, &comments, at, proto);
        }
    }
    page
}

#[test]
fn the_reference_is_made_from_the_comments() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/contract.md");
    let page = page();
    if env::var_os("UPDATE_CONTRACT").is_some() {
        fs::write(path, page).expect("docs/contract.md can be written");
        return;
    }
    let committed = fs::read_to_string(path).expect("docs/contract.md is there");
    let differs = committed
        .lines()
        .zip(page.lines())
        .find(|(old, new)| old != new);
    assert!(
        committed == page,
        "docs/contract.md is not the contract's comments; first difference: {differs:#?}\n\
         Write it with UPDATE_CONTRACT=1 cargo test -p outrigger-api"
    );
}

#[test]
fn each_rpc_has_a_table() {
    let page = page();
    for section in page
        .split("\n### ")
        .filter(|section| section.contains("`rpc "))
    {
        let (name, _) = section.split_once('\n').expect("a heading");
        assert!(
            section.contains("the controller |"),
            "{name} has no table of answers"
        );
    }
}
