use jiff::civil::date;

use super::*;
use crate::cases;

const GOOD: &str = "waivers:\n- {case: TRN-01, reason: r, owner: o, expires: 2027-01-31}\n";

fn read(text: &str) -> anyhow::Result<Waivers> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("waivers.yaml");
    std::fs::write(&path, text)?;
    Waivers::read(&path, &cases::all())
}

#[test]
fn a_waiver_counts_up_to_its_last_day() {
    let waivers = read(GOOD).unwrap();
    let all = cases::all();
    let case = all.iter().find(|case| case.id == "TRN-01").unwrap();
    let counts = |today| waivers.of(case, today).map(|(_, counts)| counts);
    assert_eq!(counts(date(2027, 1, 31)), Some(true));
    assert_eq!(counts(date(2027, 2, 1)), Some(false));
    let other = all.iter().find(|case| case.id != "TRN-01").unwrap();
    assert!(waivers.of(other, date(2027, 1, 1)).is_none());
}

#[test]
fn waivers_that_say_too_little_are_refused() {
    for (text, part) in [
        (GOOD.replace("TRN-01", "no-case"), "is no case"),
        (format!("{GOOD}{}", &GOOD[9..]), "two waivers"),
        (
            GOOD.replace("owner: o", "owner: ''"),
            "no reason or no owner",
        ),
        (GOOD.replace("owner: o, ", ""), "owner"),
        (GOOD.replace("2027-01-31", "soon"), "expires"),
        (GOOD.replace("owner", "ovner"), "ovner"),
    ] {
        let error = format!("{:#}", read(&text).unwrap_err());
        assert!(error.contains(part), "{text}: {error}");
    }
}
