//! The methods and reasons of the contract as a table for Go, a committed file.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path};

use outrigger_api::{
    FILE_DESCRIPTOR_SET, METHODS, Method, code_of,
    v1::{CallClass, ErrorReason},
};
use prost::Message as _;
use prost_types::FileDescriptorSet;

const ORIGIN: &str =
    "made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api";

/// In the package of the generated code, so that requests know their method.
const HEAD: &str = "
// Package cloudproviderv1 is the contract between Outrigger's controller and a provider, cloudprovider.v1: messages, services, and a
// table of the rules of each method. It is generated from proto/cloudprovider/v1, whose comments say what each
// field means. Package provider serves it; few programs need its clients.
package cloudproviderv1

import (
	\"time\"

	\"google.golang.org/grpc/codes\"
)

// Method has the rules of one method, as options.proto explains them.
type Method struct {
	// Service is the name of its service.
	Service string
	// Name is its own.
	Name string
	// Path is what gRPC calls it.
	Path string
	// Deadline is when the caller takes the outcome as unknown.
	Deadline time.Duration
	// MaxSilence of a stream; 0: it is none.
	MaxSilence time.Duration
	// ChangesCloud says that it makes, changes or deletes something.
	ChangesCloud bool
	// Class that it is limited and paused with.
	Class CallClass
	// IsOptional says that a provider may leave it out.
	IsOptional bool
}

// Methods of the contract, those of one service together.
var Methods = []Method{
";

/// The request of each method, by its path.
fn requests() -> BTreeMap<String, String> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the build wrote descriptors");
    let short = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let services = set.file.iter().flat_map(|file| &file.service);
    services
        .flat_map(|service| service.method.iter().map(move |method| (service, method)))
        .map(|(service, method)| {
            let path = format!("/cloudprovider.v1.{}/{}", service.name(), method.name());
            (path, short(method.input_type()))
        })
        .collect()
}

fn reasons() -> impl Iterator<Item = ErrorReason> {
    (1..1000).filter_map(|number| ErrorReason::try_from(number).ok())
}

fn table() -> String {
    let requests = requests();
    let mut text = format!("// Code generated; DO NOT EDIT: {ORIGIN}\n{HEAD}");
    for method in METHODS {
        row(&mut text, method);
    }
    text.push_str("}\n");
    for (place, method) in METHODS.iter().enumerate() {
        let request = &requests[method.path];
        let _ = writeln!(
            text,
            "\n// Method that this is the request of.\n\
             func (*{request}) Method() *Method {{ return &Methods[{place}] }}"
        );
    }
    text.push_str("\n// Code that goes with this reason.\nfunc (x ErrorReason) Code() codes.Code {\n\tswitch x {\n");
    for reason in reasons() {
        let (name, code) = (reason.as_str_name(), code_of(reason));
        let _ = writeln!(
            text,
            "\tcase ErrorReason_{name}:\n\t\treturn codes.{code:?}"
        );
    }
    text.push_str("\tdefault:\n\t\treturn codes.Unknown\n\t}\n}\n");
    text
}

fn row(text: &mut String, method: &Method) {
    let (service, name, path) = (method.service, method.name, method.path);
    let deadline = method.deadline.as_secs();
    let _ = write!(
        text,
        "\t{{Service: {service:?}, Name: {name:?}, Path: {path:?}, Deadline: {deadline} * time.Second"
    );
    if let Some(silence) = method.max_silence {
        let _ = write!(text, ", MaxSilence: {} * time.Second", silence.as_secs());
    }
    if method.changes_cloud {
        text.push_str(", ChangesCloud: true");
    }
    if method.class != CallClass::Unspecified {
        let _ = write!(text, ", Class: CallClass_{}", method.class.as_str_name());
    }
    if method.is_optional() {
        text.push_str(", IsOptional: true");
    }
    text.push_str("},\n");
}

#[test]
fn go_has_the_table() {
    let (path, table) = ("adapters/go/cloudproviderv1/contract.go", table());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("UPDATE_CONTRACT").is_some() {
        fs::write(file, table).expect("the table can be written");
        return;
    }
    let committed = fs::read_to_string(file).unwrap_or_default();
    let mut lines = committed.lines().zip(table.lines());
    let differs = lines.find(|(old, new)| old != new);
    assert!(
        committed == table,
        "{path} is not the table of the contract; first difference: {differs:#?}\n\
         Write it with UPDATE_CONTRACT=1 cargo test -p outrigger-api"
    );
}
