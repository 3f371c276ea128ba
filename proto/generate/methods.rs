//! The table of methods, and what requests and lists need, from the options of the contract.

use std::fmt::Write;

use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ReflectMessage, Value,
};

const PACKAGE: &str = "cloudprovider.v1";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// `METHODS`, and the traits of requests and lists.
pub(crate) fn source(pool: &DescriptorPool) -> Result<String> {
    let rules = pool
        .get_extension_by_name("cloudprovider.v1.rules")
        .ok_or("options.proto has no extension rules")?;
    let services = pool
        .services()
        .filter(|service| service.package_name() == PACKAGE);
    let methods: Vec<_> = services
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .collect();
    let mut table = String::from("pub const METHODS: &[Method] = &[\n");
    let mut traits = String::new();
    for (place, method) in methods.iter().enumerate() {
        let options = method.options();
        let value = options.get_extension(&rules);
        let rules = value.as_message().ok_or("rules is a message")?;
        row(&mut table, method, rules)?;
        request(&mut traits, method, place);
        if method.is_server_streaming() {
            list(&mut traits, method)?;
        }
    }
    Ok(table + "];\n\n" + &traits)
}

/// The arms of a match from a reason to its gRPC code.
pub(crate) fn reasons(pool: &DescriptorPool) -> Result<String> {
    let code = pool
        .get_extension_by_name("cloudprovider.v1.grpc_code")
        .ok_or("options.proto has no extension grpc_code")?;
    let reasons = pool
        .get_enum_by_name("cloudprovider.v1.ErrorReason")
        .ok_or("the contract has no ErrorReason")?;
    let mut source = String::from("match reason {\n");
    for reason in reasons.values() {
        let options = reason.options();
        let value = options.get_extension(&code);
        let number = value.as_enum_number().unwrap_or_default();
        let code = match number {
            0 if reason.number() == 0 => "Unknown".to_owned(),
            0 => return Err(format!("{} has no grpc_code", reason.name()).into()),
            number => {
                let Kind::Enum(codes) = code.kind() else {
                    return Err("grpc_code is an enum".into());
                };
                let name = codes.get_value(number).ok_or("no such gRPC code")?;
                camel(name.name())
            }
        };
        let name = camel(reason.name().trim_start_matches("ERROR_REASON_"));
        writeln!(source, "v1::ErrorReason::{name} => tonic::Code::{code},")?;
    }
    Ok(source + "}")
}

fn row(table: &mut String, method: &MethodDescriptor, rules: &DynamicMessage) -> Result<()> {
    let service = method.parent_service().name();
    let name = method.name();
    let deadline = seconds(rules, "deadline")?.ok_or_else(|| format!("{name} has no deadline"))?;
    let silence = seconds(rules, "max_silence")?;
    let silence = silence.map(|seconds| format!("Duration::from_secs({seconds})"));
    let streams = match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => "Neither",
        (true, false) => "Request",
        (false, true) => "Response",
        (true, true) => return Err(format!("{name} streams both ways").into()),
    };
    let class = rules.get_field_by_name("call_class");
    let class = class.and_then(|class| class.as_enum_number()).unwrap_or(0);
    let classes = method.parent_pool();
    let classes = classes.get_enum_by_name("cloudprovider.v1.CallClass");
    let class = classes.and_then(|classes| classes.get_value(class));
    let class = class.ok_or("no such class of calls")?;
    let class = camel(class.name().trim_start_matches("CALL_CLASS_"));
    let (declared_by, is_declared) = declaration(method, &text(rules, "declared_by")?)?;
    writeln!(
        table,
        "Method {{ service: {service:?}, name: {name:?}, path: \"/{PACKAGE}.{service}/{name}\", \
         response: {:?}, deadline: Duration::from_secs({deadline}), \
         max_silence: {silence}, changes_cloud: {}, class: v1::CallClass::{class}, \
         declared_by: {declared_by:?}, \
         is_declared: {is_declared}, streams: Streams::{streams} }},",
        method.output().name(),
        flag(rules, "changes_cloud")?,
        silence = silence.map_or("None".to_owned(), |silence| format!("Some({silence})")),
    )?;
    Ok(())
}

/// The field of the handshake that declares a method, and a function that reads it: the capability of its service,
/// or the field of that capability which its rules name.
fn declaration(method: &MethodDescriptor, by: &str) -> Result<(String, String)> {
    let service = method.parent_service();
    let name = service.name().trim_end_matches("Service");
    if name == "Provider" {
        return Ok((String::new(), "|_| true".to_owned()));
    }
    let all = method.parent_pool();
    let all = all.get_message_by_name("cloudprovider.v1.Capabilities");
    let all = all.ok_or("the contract has no Capabilities")?;
    let of = snake(name);
    let capability = all.get_field_by_name(&of);
    let capability = capability.ok_or_else(|| format!("Capabilities has no field {of}"))?;
    if by.is_empty() {
        let is_declared = format!("|all| all.{of}.is_some()");
        return Ok((format!("Capabilities.{of}"), is_declared));
    }
    let Kind::Message(capability) = capability.kind() else {
        return Err(format!("Capabilities.{of} is no message").into());
    };
    let field = capability.get_field_by_name(by);
    if !field.is_some_and(|field| field.kind() == Kind::Bool && !field.is_list()) {
        let (name, capability) = (method.name(), capability.name());
        return Err(format!("{capability} has no flag {by}, which declares {name}").into());
    }
    let is_declared = format!("|all| all.{of}.as_ref().is_some_and(|one| one.{by})");
    Ok((format!("{}.{by}", capability.name()), is_declared))
}

fn request(source: &mut String, method: &MethodDescriptor, place: usize) {
    let (request, response) = (method.input(), method.output());
    let context = match request.get_field_by_name("context") {
        Some(_) => "Some(&mut self.context)",
        None => "None",
    };
    let _ = writeln!(
        source,
        "impl MethodRequest for v1::{} {{\n\
         type Response = v1::{};\n\
         const METHOD: &'static Method = &METHODS[{place}];\n\
         fn context_mut(&mut self) -> Option<&mut Option<v1::CallContext>> {{ {context} }}\n\
         }}",
        request.name(),
        response.name(),
    );
}

fn list(source: &mut String, method: &MethodDescriptor) -> Result<()> {
    let response = method.output();
    let item = repeated(&response, "items", 1)?;
    shape(&response, "complete", 2)?;
    writeln!(
        source,
        "impl ListPage for v1::{name} {{\n\
         type Item = v1::{};\n\
         fn page(items: Vec<Self::Item>, complete: bool) -> Self {{ Self {{ items, complete }} }}\n\
         fn into_parts(self) -> (Vec<Self::Item>, bool) {{ (self.items, self.complete) }}\n\
         }}",
        item.name(),
        name = response.name(),
    )?;
    Ok(())
}

/// A field that has this number in each message of its kind.
fn shape(message: &MessageDescriptor, name: &str, number: u32) -> Result<FieldDescriptor> {
    let field = message.get_field_by_name(name);
    let field = field.filter(|field| field.number() == number);
    let of = message.name();
    field.ok_or_else(|| format!("{of} has no field {name} = {number}").into())
}

fn repeated(message: &MessageDescriptor, name: &str, number: u32) -> Result<MessageDescriptor> {
    let field = shape(message, name, number)?;
    match field.kind() {
        Kind::Message(item) if field.is_list() => Ok(item),
        _ => Err(format!("{}.{name} is no list of messages", message.name()).into()),
    }
}

fn field<'a>(rules: &'a DynamicMessage, name: &str) -> Result<std::borrow::Cow<'a, Value>> {
    let value = rules.get_field_by_name(name);
    value.ok_or_else(|| format!("MethodRules has no {name}").into())
}

fn text(rules: &DynamicMessage, name: &str) -> Result<String> {
    let value = field(rules, name)?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}

fn flag(rules: &DynamicMessage, name: &str) -> Result<bool> {
    Ok(field(rules, name)?.as_bool().unwrap_or_default())
}

fn seconds(rules: &DynamicMessage, name: &str) -> Result<Option<i64>> {
    let declared = rules.descriptor().get_field_by_name(name);
    if !declared.is_some_and(|declared| rules.has_field(&declared)) {
        return Ok(None);
    }
    let value = field(rules, name)?;
    let duration = value.as_message().ok_or("a duration is a message")?;
    let seconds = duration.get_field_by_name("seconds");
    Ok(seconds.and_then(|seconds| seconds.as_i64()))
}

/// `RATE_LIMITED` as `RateLimited`.
fn camel(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    words
        .map(|word| word[..1].to_owned() + &word[1..].to_lowercase())
        .collect()
}

/// `InstanceResult` as `instance_result`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
