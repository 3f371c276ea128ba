//! Writes the gRPC code of each reason as TypeScript, for grpc-js.

use std::fmt::Write as _;

use outrigger_api::{code_name, code_of};

use super::{ORIGIN, name, reasons};

pub(super) fn table() -> String {
    let mut text = format!(
        "/** The gRPC code that goes with each reason, {ORIGIN}. */\n\
         import {{ status }} from \"@grpc/grpc-js\";\n\nexport const CODES = {{\n"
    );
    for reason in reasons() {
        let (name, code) = (name(reason), code_name(code_of(reason)));
        let _ = writeln!(text, "  {name}: status.{code},");
    }
    text.push_str("} as const;\n");
    text
}
