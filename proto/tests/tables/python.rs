//! Python.

use std::fmt::Write as _;

use outrigger_api::{METHODS, Method, code_name, code_of, v1::CallClass};

use super::{ORIGIN, name, reasons};

const HEAD: &str = r#"
from dataclasses import dataclass

from grpc import StatusCode


@dataclass(frozen=True)
class Method:
    """The rules of one method, as options.proto explains them; times are in seconds."""

    service: str
    name: str
    deadline: int
    deadline_per_item: bool = False
    max_silence: int | None = None
    changes_cloud: bool = False
    call_class: str = ""
    item_key: str = ""
    optional: bool = False


# By the name that gRPC has for them.
METHODS = {
"#;

pub(super) fn table() -> String {
    let mut text = format!("\"\"\"Methods and reasons, {ORIGIN}.\"\"\"\n{HEAD}");
    for method in METHODS {
        row(&mut text, method);
    }
    text.push_str("}\n\n# The gRPC code that goes with each reason.\nCODES = {\n");
    for reason in reasons() {
        let (name, code) = (name(reason), code_name(code_of(reason)));
        let _ = writeln!(text, "    \"{name}\": StatusCode.{code},");
    }
    text.push_str("}\n");
    text
}

fn row(text: &mut String, method: &Method) {
    let (path, service, name) = (method.path, method.service, method.name);
    let deadline = method.deadline.as_secs();
    let _ = writeln!(
        text,
        "    {path:?}: Method(\n        {service:?},\n        {name:?},\n        deadline={deadline},"
    );
    if method.is_deadline_per_item {
        text.push_str("        deadline_per_item=True,\n");
    }
    if let Some(silence) = method.max_silence {
        let _ = writeln!(text, "        max_silence={},", silence.as_secs());
    }
    if method.changes_cloud {
        text.push_str("        changes_cloud=True,\n");
    }
    if method.class != CallClass::Unspecified {
        let _ = writeln!(text, "        call_class={:?},", method.class.as_str_name());
    }
    if let Some(key) = method.item_key {
        let _ = writeln!(text, "        item_key={key:?},");
    }
    if method.is_optional {
        text.push_str("        optional=True,\n");
    }
    text.push_str("    ),\n");
}
