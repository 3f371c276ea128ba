//! Command lines near to real ones: each ends in a configuration, a text, or a refusal that says why.

use proptest::{prelude::*, sample::select};

use super::{
    parse_from,
    upstream::{flags, name},
};

/// Texts that are values of some flag, and their neighbours.
const VALUES: [&str; 22] = [
    "",
    "true",
    "T",
    "0",
    "-1",
    "0x10",
    "+5",
    "1e3",
    "NaN",
    "5s",
    "1h1m1s",
    "-1ns",
    "9999999h",
    "10.0.0.0/8",
    "::1",
    "*",
    "-a,b",
    ",",
    "a=b",
    "a=1,b=",
    "a.crt,a.key:*.x",
    "99999999999999999999",
];

fn word() -> impl Strategy<Value = String> {
    let flags = flags();
    let names: Vec<_> = flags.iter().map(|flag| name(flag).to_owned()).collect();
    let value = prop_oneof![
        select(VALUES.to_vec()).prop_map(str::to_owned),
        "[ -~é]{0,10}"
    ];
    (select(names), value, 0..5).prop_map(|(flag, value, form)| match form {
        0 => format!("--{flag}"),
        1 => value,
        _ => format!("--{flag}={value}"),
    })
}

proptest! {
    #[test]
    fn every_command_line_is_understood_or_refused(
        args in prop::collection::vec(word(), 0..6),
        variable in word(),
    ) {
        let args: Vec<String> = args;
        let env = [(variable.replace("--", "OUTRIGGER_").replace('-', "_").to_uppercase(), "5".to_owned())].into();
        match parse_from(&args, &env) {
            Ok(config) => {
                let again = parse_from(&args, &env).unwrap();
                prop_assert_eq!(config.flags, again.flags);
                prop_assert!(config.election.is_none_or(|election| !election.name.is_empty()));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
