//! TypeScript, for grpc-js.

use std::fmt::Write as _;

use outrigger_api::{METHODS, Method, code_name, code_of, v1::CallClass};

use super::{ORIGIN, name, reasons};

const HEAD: &str = r#"import { status } from "@grpc/grpc-js";

/** The rules of one method, as options.proto explains them; times are in seconds. */
export interface Method {
  service: string;
  name: string;
  deadline: number;
  deadlinePerItem?: true;
  maxSilence?: number;
  changesCloud?: true;
  callClass?: string;
  itemKey?: string;
  optional?: true;
}

/** By the path that gRPC calls them. */
export const METHODS: Readonly<Record<string, Method>> = {
"#;

pub(super) fn table() -> String {
    let mut text = format!("/** Methods and reasons, {ORIGIN}. */\n{HEAD}");
    for method in METHODS {
        row(&mut text, method);
    }
    text.push_str(
        "};\n\n/** The gRPC code that goes with each reason. */\nexport const CODES = {\n",
    );
    for reason in reasons() {
        let (name, code) = (name(reason), code_name(code_of(reason)));
        let _ = writeln!(text, "  {name}: status.{code},");
    }
    text.push_str("} as const;\n");
    text
}

fn row(text: &mut String, method: &Method) {
    let (path, service, name) = (method.path, method.service, method.name);
    let deadline = method.deadline.as_secs();
    let _ = write!(
        text,
        "  {path:?}: {{\n    service: {service:?}, name: {name:?}, deadline: {deadline}"
    );
    if method.is_deadline_per_item {
        text.push_str(", deadlinePerItem: true");
    }
    if let Some(silence) = method.max_silence {
        let _ = write!(text, ", maxSilence: {}", silence.as_secs());
    }
    if method.changes_cloud {
        text.push_str(", changesCloud: true");
    }
    if method.class != CallClass::Unspecified {
        let _ = write!(text, ", callClass: {:?}", method.class.as_str_name());
    }
    if let Some(key) = method.item_key {
        let _ = write!(text, ", itemKey: {key:?}");
    }
    if method.is_optional {
        text.push_str(", optional: true");
    }
    text.push_str(",\n  },\n");
}
