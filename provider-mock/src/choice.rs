//! Values that are written the same on the command line and in JSON.

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

/// Serde of a type whose text is its `Display`, and is read by its `FromStr`.
macro_rules! serde_by_text {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
