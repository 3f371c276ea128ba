//! The messages of the contract with the memory that each takes when it is decoded.

use std::{collections::HashMap, fmt::Write};

use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// The messages of the contract with the memory that each takes when it is decoded.
pub(crate) struct Shapes<'a> {
    messages: Vec<(String, &'a DescriptorProto)>,
    places: HashMap<String, usize>,
}

impl<'a> Shapes<'a> {
    pub(crate) fn of(descriptors: &'a FileDescriptorSet) -> Self {
        let mut messages = Vec::new();
        // The messages of options are never received.
        let sent = |name: &str| name != "google/protobuf/descriptor.proto";
        for file in descriptors.file.iter().filter(|file| sent(file.name())) {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                gather(&mut messages, &package, message);
            }
        }
        let names = messages.iter().map(|(name, _)| name.clone());
        let places = names.zip(0..).collect();
        Self { messages, places }
    }

    pub(crate) fn source(&self) -> String {
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
