//! The contract may grow, but nothing that a released provider relies on may change.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::Path};

use outrigger_api::{FILE_DESCRIPTOR_SET, code_name, code_of, v1::ErrorReason};
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, ServiceDescriptorProto, field_descriptor_proto::Label,
};

/// The contract as it was committed, one line per name.
const COMMITTED: &str = include_str!("../contract.txt");

/// The reasons with their codes, for people and machines that write a provider.
const REASONS: &str = include_str!("../reasons.txt");

fn files() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the build wrote descriptors");
    let ours = |file: &FileDescriptorProto| file.package() == "cloudprovider.v1";
    set.file.into_iter().filter(ours).collect()
}

fn field(message: &str, field: &FieldDescriptorProto, oneofs: &[String]) -> String {
    let mut line = format!("{message}.{} = {}: ", field.name(), field.number());
    if field.label() == Label::Repeated {
        line.push_str("repeated ");
    }
    if field.proto3_optional() {
        line.push_str("optional ");
    } else if let Some(oneof) = field.oneof_index.and_then(|at| oneofs.get(at as usize)) {
        let _ = write!(line, "oneof {oneof} ");
    }
    match field.type_name.as_deref() {
        Some(name) => line.push_str(name.trim_start_matches('.')),
        None => line.push_str(field.r#type().as_str_name().trim_start_matches("TYPE_")),
    }
    line
}

fn message(lines: &mut BTreeSet<String>, prefix: &str, proto: &DescriptorProto) {
    let name = format!("{prefix}{}", proto.name());
    lines.insert(format!("message {name}"));
    let oneofs: Vec<String> = proto
        .oneof_decl
        .iter()
        .map(|o| o.name().to_owned())
        .collect();
    lines.extend(
        proto
            .field
            .iter()
            .map(|f| format!("field {}", field(&name, f, &oneofs))),
    );
    lines.extend(
        proto
            .reserved_range
            .iter()
            .map(|r| format!("reserved {name} {} to {}", r.start(), r.end() - 1)),
    );
    for nested in &proto.nested_type {
        message(lines, &format!("{name}."), nested);
    }
    for nested in &proto.enum_type {
        enumeration(lines, &format!("{name}."), nested);
    }
}

fn enumeration(lines: &mut BTreeSet<String>, prefix: &str, proto: &EnumDescriptorProto) {
    let name = format!("{prefix}{}", proto.name());
    let values = proto.value.iter();
    lines.extend(values.map(|v| format!("value {name}.{} = {}", v.name(), v.number())));
}

fn service(lines: &mut BTreeSet<String>, proto: &ServiceDescriptorProto) {
    for rpc in &proto.method {
        let stream = |on: bool| if on { "stream " } else { "" };
        lines.insert(format!(
            "rpc {}.{}({}{}) returns ({}{})",
            proto.name(),
            rpc.name(),
            stream(rpc.client_streaming()),
            rpc.input_type().trim_start_matches('.'),
            stream(rpc.server_streaming()),
            rpc.output_type().trim_start_matches('.'),
        ));
    }
}

fn current() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for file in files() {
        file.message_type
            .iter()
            .for_each(|m| message(&mut lines, "", m));
        file.enum_type
            .iter()
            .for_each(|e| enumeration(&mut lines, "", e));
        file.service.iter().for_each(|s| service(&mut lines, s));
    }
    lines
}

#[test]
fn nothing_that_was_promised_has_changed() {
    let current = current();
    if env::var_os("UPDATE_CONTRACT").is_some() {
        let mut text: String = current.into_iter().collect::<Vec<_>>().join("\n");
        text.push('\n');
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/contract.txt");
        fs::write(path, text).expect("proto/contract.txt can be written");
        return;
    }
    let committed: BTreeSet<String> = COMMITTED.lines().map(str::to_owned).collect();
    let broken: Vec<_> = committed.difference(&current).collect();
    assert!(
        broken.is_empty(),
        "a released provider may rely on these, which are gone or different: {broken:#?}\n\
         Before the first release: UPDATE_CONTRACT=1 cargo test -p outrigger-api; from then on\n\
         keep them and add something new beside them, or begin cloudprovider.v2."
    );
    let added: Vec<_> = current.difference(&committed).collect();
    assert!(
        added.is_empty(),
        "new in the contract: {added:#?}\n\
         Raise MINOR in proto/lib.rs if a release is between, then record them with\n\
         UPDATE_CONTRACT=1 cargo test -p outrigger-api"
    );
}

fn reasons() -> String {
    let mut text = String::from(
        "# google.rpc.ErrorInfo.reason (domain cloudprovider.v1), and name and number of the gRPC code\n\
         # that goes with it. Made from ErrorReason of common.proto, which says what each means:\n\
         # UPDATE_CONTRACT=1 cargo test -p outrigger-api\n",
    );
    let reasons = (1..1000).filter_map(|number| ErrorReason::try_from(number).ok());
    for reason in reasons {
        let name = reason.as_str_name().trim_start_matches("ERROR_REASON_");
        let code = code_of(reason);
        let _ = writeln!(text, "{name} {} {}", code_name(code), code as i32);
    }
    text
}

#[test]
fn each_reason_is_listed_with_its_code() {
    if env::var_os("UPDATE_CONTRACT").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/reasons.txt");
        fs::write(path, reasons()).expect("proto/reasons.txt can be written");
        return;
    }
    assert_eq!(
        REASONS,
        reasons(),
        "record the reasons with UPDATE_CONTRACT=1 cargo test -p outrigger-api"
    );
}

#[test]
fn everything_is_documented() {
    for file in files() {
        let info = file
            .source_code_info
            .as_ref()
            .expect("the compiler keeps comments");
        // Paths of declarations: [4, i] message, [4, i, 2, j] field, [5, i] enum, [5, i, 2, j]
        // value, [6, i] service, [6, i, 2, j] rpc; nested messages do not occur except for maps.
        let declaration = |path: &[i32]| matches!(path, [4..=6, _] | [4..=6, _, 2, _]);
        for location in info.location.iter().filter(|l| declaration(&l.path)) {
            let comment = location.leading_comments().trim();
            assert!(
                comment.len() > 3,
                "{}:{}: a declaration without a comment",
                file.name(),
                location.span.first().map_or(0, |line| line + 1)
            );
        }
    }
}

#[test]
fn each_rpc_has_a_table_of_answers() {
    for file in files() {
        let info = file.source_code_info.as_ref();
        let locations = &info.expect("the compiler keeps comments").location;
        for method in locations.iter().filter(|l| matches!(*l.path, [6, _, 2, _])) {
            assert!(
                method.leading_comments().contains("  the controller\n"),
                "{}:{}: an RPC without a table of what the controller does after each answer",
                file.name(),
                method.span.first().map_or(0, |line| line + 1)
            );
        }
    }
}

#[test]
fn the_zero_of_every_enum_is_unspecified() {
    for file in files() {
        for proto in &file.enum_type {
            let zero = proto.value.iter().find(|value| value.number() == 0);
            let name = zero
                .map(prost_types::EnumValueDescriptorProto::name)
                .unwrap_or_default();
            assert!(
                name.ends_with("_UNSPECIFIED"),
                "{}: zero is {name:?}",
                proto.name()
            );
        }
    }
}
