//! Compiles the contract in `proto/` with a protobuf compiler written in Rust: nothing to install.

use std::{collections::HashMap, env, fmt::Write, fs, path::PathBuf};

use prost::Message;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

const FILES: &[&str] = &[
    "cloudprovider/v1/common.proto",
    "cloudprovider/v1/instances.proto",
    "cloudprovider/v1/load_balancers.proto",
    "cloudprovider/v1/node_sets.proto",
    "cloudprovider/v1/provider.proto",
    "cloudprovider/v1/routes.proto",
    "cloudprovider/v1/volumes.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=proto");

    let descriptors = protox::compile(FILES, ["proto", "proto/googleapis"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("shapes.rs"), Shapes::of(&descriptors).source())?;

    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        // google.rpc comes from the crate that also knows how to put it into a status.
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .compile_fds(descriptors)?;
    Ok(())
}

/// The messages of the contract with the memory that each takes when it is decoded.
struct Shapes<'a> {
    messages: Vec<(String, &'a DescriptorProto)>,
    places: HashMap<String, usize>,
}

impl<'a> Shapes<'a> {
    fn of(descriptors: &'a FileDescriptorSet) -> Self {
        let mut messages = Vec::new();
        for file in &descriptors.file {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                gather(&mut messages, &package, message);
            }
        }
        let names = messages.iter().map(|(name, _)| name.clone());
        let places = names.zip(0..).collect();
        Self { messages, places }
    }

    fn source(&self) -> String {
        let mut text = String::from("&[\n");
        for (name, message) in &self.messages {
            let size = self.size(message);
            let name = name.trim_start_matches('.');
            let _ = writeln!(
                text,
                "MessageShape {{ name: {name:?}, size: {size}, fields: &["
            );
            for field in &message.field {
                let kind = match self.message_of(field) {
                    Some(at) => format!("Message({at})"),
                    None if is_text(field) => "Text".to_owned(),
                    None => "Number".to_owned(),
                };
                let _ = writeln!(
                    text,
                    "FieldShape {{ number: {}, name: {:?}, is_repeated: {}, kind: FieldKind::{kind} }},",
                    field.number(),
                    field.name(),
                    is_repeated(field),
                );
            }
            text.push_str("] },\n");
        }
        text + "]"
    }

    fn message_of(&self, field: &FieldDescriptorProto) -> Option<usize> {
        (field.r#type() == Type::Message)
            .then(|| self.places.get(field.type_name()).copied())
            .flatten()
    }

    /// Bytes of the Rust type, or some more: each part is as large as its alignment can make it.
    fn size(&self, message: &DescriptorProto) -> usize {
        const COLLECTION: usize = 48;
        const TEXT: usize = 24;
        const NUMBER: usize = 16;
        let of_field = |field: &FieldDescriptorProto| match self.message_of(field) {
            _ if is_repeated(field) => COLLECTION,
            Some(at) => 8 + self.messages.get(at).map_or(0, |(_, of)| self.size(of)),
            None if is_text(field) => TEXT,
            None => NUMBER,
        };
        let mut size = 0;
        let mut choices = vec![0; message.oneof_decl.len()];
        for field in &message.field {
            match field.oneof_index {
                Some(at) if !field.proto3_optional() => {
                    let choice = &mut choices[at as usize];
                    *choice = of_field(field).max(*choice);
                }
                _ => size += of_field(field),
            }
        }
        size + choices.iter().map(|choice| choice + 8).sum::<usize>()
    }
}

fn gather<'a>(
    messages: &mut Vec<(String, &'a DescriptorProto)>,
    scope: &str,
    message: &'a DescriptorProto,
) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        gather(messages, &name, nested);
    }
    messages.push((name, message));
}

fn is_repeated(field: &FieldDescriptorProto) -> bool {
    field.label() == Label::Repeated
}

fn is_text(field: &FieldDescriptorProto) -> bool {
    matches!(field.r#type(), Type::String | Type::Bytes)
}
