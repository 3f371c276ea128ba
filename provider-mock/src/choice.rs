//! Values of which there are few, by their names on the command line and in JSON.

use clap::ValueEnum;

/// The name of a value.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The value of a name; `kind` is what it is one of.
pub(crate) fn named<E: ValueEnum>(kind: &str, text: &str) -> Result<E, String> {
    E::from_str(text, false).map_err(|_| {
        let names: Vec<_> = E::value_variants().iter().map(name).collect();
        format!("{text:?} is no {kind}; use {}", names.join(", "))
    })
}
