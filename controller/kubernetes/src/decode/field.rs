//! Which field of a JSON text a position belongs to.

use std::fmt::Write;

/// Where in an object or a list the position is.
enum Step<'a> {
    Field(&'a [u8]),
    Index(usize),
}

/// The path of the value that ends at `offset` or has it inside, such as `status.conditions[3].type`;
/// empty for the whole text. `json` up to `offset` is well-formed.
pub(super) fn at(json: &[u8], offset: usize) -> String {
    let read = json.get(..offset).unwrap_or(json);
    let mut path: Vec<Step<'_>> = Vec::new();
    let mut text: &[u8] = b"";
    let mut at = 0;
    while let Some(byte) = read.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let length = string(&read[at..]);
                text = &read[at..at + length];
                at += length + 1;
            }
            b'{' => path.push(Step::Field(b"")),
            b'[' => path.push(Step::Index(0)),
            b'}' | b']' => drop(path.pop()),
            b':' => {
                if let Some(Step::Field(name)) = path.last_mut() {
                    *name = text;
                }
            }
            b',' => {
                if let Some(Step::Index(index)) = path.last_mut() {
                    *index += 1;
                }
            }
            _ => {}
        }
    }
    let mut out = String::new();
    for step in &path {
        match step {
            Step::Field([]) => {}
            Step::Field(name) => {
                let dot = if out.is_empty() { "" } else { "." };
                let _ = write!(out, "{dot}{}", String::from_utf8_lossy(name));
            }
            Step::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
    out
}

/// How long the string is whose opening quote stands before `rest`.
fn string(rest: &[u8]) -> usize {
    let mut escaped = false;
    let end = rest.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(rest.len())
}
