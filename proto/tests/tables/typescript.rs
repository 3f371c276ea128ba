//! Writes the rules of each method, and the gRPC code of each reason, as TypeScript for grpc-js.

use std::fmt::Write as _;

use outrigger_api::{METHODS, code_name, code_of};

use super::{ORIGIN, name, reasons};

const METHOD: &str = "\
/** The rules of one method, as options.proto explains them. */
export interface Method {
  /** The path that gRPC has for it. */
  readonly path: string;
  /** Seconds after which the caller takes the outcome as unknown. */
  readonly deadline: number;
  /** Each item of the request has as much time. */
  readonly isDeadlinePerItem: boolean;
  /** It makes, changes or deletes something in the cloud. */
  readonly changesCloud: boolean;
  /** The field of an item that is its key; empty: it is no batch. */
  readonly itemKey: string;
}
";

pub(super) fn table() -> String {
    let mut text = format!(
        "/** Methods and reasons of the contract, {ORIGIN}. */\n\
         import {{ status }} from \"@grpc/grpc-js\";\n\n\
         {METHOD}\n\
         /** The methods that have a context, by their names. */\n\
         export const METHODS = {{\n"
    );
    let methods = METHODS
        .iter()
        .filter(|method| method.service != "ProviderService");
    for method in methods {
        let _ = writeln!(
            text,
            "  {}: {{ path: {:?}, deadline: {}, isDeadlinePerItem: {}, changesCloud: {}, itemKey: {:?} }},",
            method.name,
            method.path,
            method.deadline.as_secs(),
            method.is_deadline_per_item,
            method.changes_cloud,
            camel_case(method.item_key.unwrap_or_default()),
        );
    }
    text.push_str(
        "} as const satisfies Record<string, Method>;\n\n\
         /** The gRPC code that goes with each reason. */\n\
         export const CODES = {\n",
    );
    for reason in reasons() {
        let (name, code) = (name(reason), code_name(code_of(reason)));
        let _ = writeln!(text, "  {name}: status.{code},");
    }
    text.push_str("} as const;\n");
    text
}

/// `destination_cidr` as ts-proto names the field: `destinationCidr`.
fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(1);
        name + &initial.to_uppercase() + rest
    })
}
