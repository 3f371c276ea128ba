//! Writes the report as `JUnit` XML for CI. Only a MUST that fails counts as a failure, unless it is waived.

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};

use super::{Judged, Outcome, Report};
use crate::{case::Level, verdict::Failure};

/// Returns the whole report as XML.
///
/// # Errors
///
/// A text has characters that XML cannot hold.
pub fn junit(report: &Report) -> std::io::Result<String> {
    let cases = report.judged.len();
    let [passed, failed, warned] =
        ["passed", "failed", "warning (SHOULD)"].map(|end| report.count(end));
    let skipped = cases - passed - failed - warned;
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.create_element("testsuite")
        .with_attributes([
            ("name", "provider-conformance"),
            ("tests", &*cases.to_string()),
            ("failures", &*failed.to_string()),
            ("errors", "0"),
            ("skipped", &*skipped.to_string()),
            ("timestamp", &*report.started.to_string()),
            ("time", &*format!("{:.3}", report.seconds)),
        ])
        .write_inner_content(|xml| {
            report
                .judged
                .iter()
                .try_for_each(|judged| case(xml, judged))
        })?;
    let text = String::from_utf8(xml.into_inner());
    text.map_err(std::io::Error::other)
}

fn case(xml: &mut Writer<Vec<u8>>, judged: &Judged) -> std::io::Result<()> {
    let Judged {
        case,
        outcome,
        seconds,
    } = judged;
    let name = format!("{} {}", case.id, case.title);
    let area = case.id.split('-').next().unwrap_or_default();
    let element = xml
        .create_element("testcase")
        .with_attribute(("classname", area))
        .with_attribute(("name", &*plain(&name)))
        .with_attribute(("time", &*format!("{seconds:.3}")));
    let difference = |failure: &Failure| {
        let Failure { expected, actual } = failure;
        let clause = &case.clause;
        plain(&format!(
            "expected: {expected}\nactual: {actual}\nclause: {clause}"
        ))
    };
    match outcome {
        Outcome::Passed => element.write_empty()?,
        Outcome::Failed(failure) => element.write_inner_content(|xml| {
            let text = difference(failure);
            let text = BytesText::new(&text);
            if case.level == Level::Must {
                xml.create_element("failure")
                    .with_attribute(("message", &*plain(&failure.expected)))
                    .write_text_content(text)?;
            } else {
                xml.create_element("system-out").write_text_content(text)?;
            }
            Ok(())
        })?,
        Outcome::Waived { failure, waiver } => element.write_inner_content(|xml| {
            let message = format!("waived until {waiver}");
            xml.create_element("skipped")
                .with_attribute(("message", &*plain(&message)))
                .write_text_content(BytesText::new(&difference(failure)))?;
            Ok(())
        })?,
        Outcome::Skipped(skip) => element.write_inner_content(|xml| {
            xml.create_element("skipped")
                .with_attribute(("message", &*plain(&skip.to_string())))
                .write_empty()?;
            Ok(())
        })?,
    };
    Ok(())
}

/// Replaces control characters, which XML 1.0 cannot hold even when they are escaped.
fn plain(text: &str) -> String {
    let allowed = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars()
        .map(|c| if allowed(c) { c } else { '\u{fffd}' })
        .collect()
}
