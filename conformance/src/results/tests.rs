use serde_json::json;

use super::*;
use crate::{
    cases,
    report::{self, FORMAT, Report},
};

fn case(id: &str) -> Case {
    let mut all = cases::all().into_iter();
    all.find(|case| case.id == id).unwrap()
}

fn column(title: &str, cases: &serde_json::Value) -> Column {
    let report = json!({"format": FORMAT, "contract": {"minor": 2}, "cases": cases});
    Column::new(title, Document::parse(&report.to_string()).unwrap())
}

#[test]
fn a_cell_says_how_a_case_ended_and_no_measurement() {
    let failure = json!({"expected": "a", "actual": "b"});
    let waiver = json!({"case": "LBS-06", "reason": "r", "owner": "o", "expires": "2099-12-31"});
    let ran = column(
        "A",
        &json!([
            {"id": "TRN-01", "result": "passed", "seconds": 0.1, "waiver": null},
            {"id": "TRN-02", "result": "failed", "failure": failure, "waiver": null},
            {"id": "IDN-12", "result": "warning", "failure": failure},
            {"id": "INS-29", "result": "note", "failure": failure},
            {"id": "LBS-06", "result": "waived", "failure": failure, "waiver": waiver},
            {"id": "RTE-01", "result": "skipped", "skip": "capability", "because": "x"},
            {"id": "INS-28", "result": "skipped", "skip": "input", "because": "x"},
            {"id": "ERR-02", "result": "skipped", "skip": "nothing-to-judge", "because": "x"},
        ]),
    );
    for (id, cell) in [
        ("TRN-01", "passed"),
        ("TRN-02", "**failed**"),
        ("IDN-12", "warning"),
        ("INS-29", "reported"),
        ("LBS-06", "waived"),
        ("RTE-01", "not served"),
        ("INS-28", "input missing"),
        ("ERR-02", "nothing to judge"),
        ("TRN-04", "not run"),
    ] {
        assert_eq!(ran.cell(&case(id)), cell, "{id}");
    }
    let table = markdown(&[ran], &[case("TRN-01"), case("LBS-06")]);
    for line in [
        "| cases | A |\n|---|---|\n| contract | v1.2 |\n| passed | 1 |\n| failed | 0 |\n| waived | 1 |\n",
        "### Transport\n\n| case | A |\n|---|---|\n| TRN-01 the socket has mode 0660 | passed |\n",
        "### Waived\n\n- A, LBS-06, until 2099-12-31: r\n",
    ] {
        assert!(table.contains(line), "{line} is not in {table}");
    }
    assert!(!table.contains("### Handshake"), "{table}");
}

#[test]
fn each_report_is_a_column() {
    let passed = |title| column(title, &json!([{"id": "TRN-01", "result": "passed"}]));
    let columns = [passed("A"), column("B", &json!([]))];
    let table = markdown(&columns, &[case("TRN-01")]);
    assert!(
        table.contains("| case | A | B |\n|---|---|---|\n"),
        "{table}"
    );
    assert!(table.contains(" | passed | not run |\n"), "{table}");
    assert!(
        table.contains(
            "| passed | 1 | 0 |\n| failed | 0 | 0 |\n| waived | 0 | 0 |\n| not run | 0 | 1 |\n"
        ),
        "{table}"
    );
}

#[test]
fn a_page_keeps_all_but_its_table() {
    let page = "# Head\n<!-- results -->\nold\n<!-- end of results -->\ntail\n";
    let new_page = into_page(page, "new\n").unwrap();
    assert_eq!(
        new_page,
        "# Head\n<!-- results -->\n\nnew\n\n<!-- end of results -->\ntail\n"
    );
    assert_eq!(into_page(&new_page, "new\n").unwrap(), new_page);
    assert_eq!(difference(page, page), "");
    assert!(
        difference(page, &new_page).starts_with("- old\n"),
        "{}",
        difference(page, &new_page)
    );
    assert!(into_page("# Head\n", "new").is_err());
}

#[test]
fn a_file_that_is_no_report_is_named() {
    let path = std::env::temp_dir().join("no such report.json");
    let error = format!("{:#}", Document::read(&path).unwrap_err());
    assert!(error.contains("no such report.json"), "{error}");
    assert!(Document::parse("{}").is_err());
    let whole = serde_json::to_string(&report::json(&Report::default())).unwrap();
    assert!(Document::parse(&whole).is_ok());
    let later = whole.replace("\"format\":1", "\"format\":2");
    let error = Document::parse(&later).unwrap_err().to_string();
    assert!(
        error.contains("format 2") && error.contains("run the suite again"),
        "{error}"
    );
}
