//! The badge of a report, as SVG: a file of its own, which a page shows without any service.

use std::fmt::Write as _;

use crate::{document::Document, report::Counts};

const GREEN: &str = "#2c7a33";
const YELLOW: &str = "#946300";
const RED: &str = "#b3261e";

/// Pixels of a letter, on average, and beside a text.
const LETTER: usize = 7;
const MARGIN: usize = 6;

/// The badge: the minor of the contract, and how many cases ended how.
pub fn svg(report: &Document) -> String {
    let label = format!("Outrigger contract v1.{}", report.contract.minor);
    let (message, colour) = message(report.counts, report.leftovers.len());
    let [label_width, message_width] = [&label, &message].map(|text| text.len() * LETTER);
    let left = label_width + 2 * MARGIN;
    let right = message_width + 2 * MARGIN;
    let (whole, message_at) = (left + right, left + MARGIN);
    // With textLength each font has the width that the badge was made for.
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" aria-label="{label}: {message}">
<title>{label}: {message}</title>
<rect width="{left}" height="20" fill="#444"/>
<rect x="{left}" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{MARGIN}" y="14" textLength="{label_width}">{label}</text>
<text x="{message_at}" y="14" textLength="{message_width}">{message}</text>
</g>
</svg>
"##
    )
}

/// Green: each case that the provider has to pass was run, and passed.
fn message(counts: Counts, leftovers: usize) -> (String, &'static str) {
    let not_run = counts.without_input + counts.read_only + counts.not_selected;
    let mut message = format!("{} passed", counts.passed);
    for (count, words) in [
        (counts.failed, "failed"),
        (counts.waived, "waived"),
        (not_run, "not run"),
        (leftovers, "left in the cloud"),
    ] {
        if count > 0 {
            let _ = write!(message, ", {count} {words}");
        }
    }
    let colour = match (counts.failed + leftovers, counts.waived + not_run) {
        (0, 0) => GREEN,
        (0, _) => YELLOW,
        _ => RED,
    };
    (message, colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(change: impl FnOnce(&mut Counts)) -> (String, &'static str) {
        let mut counts = Counts {
            passed: 150,
            warned: 2,
            undeclared: 40,
            nothing_to_judge: 3,
            ..Counts::default()
        };
        change(&mut counts);
        message(counts, 0)
    }

    #[test]
    fn green_is_for_a_provider_that_was_asked_everything_and_passed() {
        assert_eq!(of(|_| ()), ("150 passed".to_owned(), GREEN));
        let waived = of(|counts| counts.waived = 2);
        assert_eq!(waived, ("150 passed, 2 waived".to_owned(), YELLOW));
        let partial = of(|counts| (counts.read_only, counts.without_input) = (4, 1));
        assert_eq!(partial, ("150 passed, 5 not run".to_owned(), YELLOW));
        let failed = of(|counts| (counts.failed, counts.waived) = (1, 1));
        assert_eq!(failed, ("150 passed, 1 failed, 1 waived".to_owned(), RED));
        let left = message(Counts::default(), 1);
        assert_eq!(left, ("0 passed, 1 left in the cloud".to_owned(), RED));
    }

    #[test]
    fn a_badge_is_xml_and_names_the_minor() {
        let report = r#"{"format": 1, "contract": {"minor": 3}, "leftovers": [], "cases": [],
            "counts": {"passed": 7, "failed": 0, "warned": 0, "noted": 0, "waived": 0, "undeclared": 0,
                "withoutInput": 0, "readOnly": 0, "nothingToJudge": 0, "notSelected": 0}}"#;
        let svg = svg(&Document::parse(report).unwrap());
        assert!(svg.contains("Outrigger contract v1.3: 7 passed"), "{svg}");
        let mut reader = quick_xml::Reader::from_str(&svg);
        while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
    }
}
