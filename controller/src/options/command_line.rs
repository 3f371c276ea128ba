//! The words of the command line and the variables of the environment, by the rules of Go's flag library: the
//! text of each flag.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    flag::{Flag, Setting},
    flag_type::FlagType,
};

/// Beginning of the variables that stand for flags.
const PREFIX: &str = "OUTRIGGER_";

/// The texts of the flags that are set.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLine {
    arguments: BTreeMap<&'static str, Argument>,
    /// Words that are neither flags nor their values.
    pub(crate) positional: Vec<String>,
    /// Variables that are probably misspelt.
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct Argument {
    flag: &'static Flag,
    text: String,
    /// The variable that it comes from; absent: it is on the command line.
    variable: Option<String>,
}

impl CommandLine {
    /// Reads the texts of `flags` from both. The command line goes before the environment.
    ///
    /// # Errors
    /// The command line's mistake, in the words of Go's flag library.
    pub(crate) fn read(
        flags: &'static [Flag],
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let mut line = Self::default();
        line.read_args(flags, args)?;
        line.read_env(flags, env);
        Ok(line)
    }

    fn read_args(&mut self, flags: &'static [Flag], args: &[String]) -> Result<(), String> {
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                self.positional.extend(words.cloned());
                break;
            }
            let (flag, text) = if let Some(long) = word.strip_prefix("--") {
                find(flags, word, long)?
            } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
                find_short(flags, short)?
            } else {
                self.positional.push(word.clone());
                continue;
            };
            let text = match text {
                Some(text) => text.to_owned(),
                None if flag.stands_alone => "true".to_owned(),
                None => words
                    .next()
                    .ok_or_else(|| format!("flag needs an argument: --{}", flag.name()))?
                    .clone(),
            };
            self.add(flag, text);
        }
        Ok(())
    }

    /// Sets the flag, or adds to its list.
    fn add(&mut self, flag: &'static Flag, text: String) {
        let before = self.arguments.remove(flag.field).map(|before| before.text);
        let text = match (before.filter(|before| !before.is_empty()), flag.separator) {
            (Some(before), Some(separator)) => format!("{before}{separator}{text}"),
            _ => text,
        };
        let text = Argument {
            flag,
            text,
            variable: None,
        };
        self.arguments.insert(flag.field, text);
    }

    fn read_env(&mut self, flags: &'static [Flag], env: &BTreeMap<String, String>) {
        let names = || flags.iter().map(variable);
        for (flag, own) in flags.iter().zip(names()) {
            let names = match flag.field {
                "help" | "version" => vec![],
                "provider_endpoint" => vec![own, "CLOUDPROVIDER_ENDPOINT".to_owned()],
                _ => vec![own],
            };
            let set = names.into_iter().find(|name| env.contains_key(name));
            if let Some(name) = set
                && !env[&name].is_empty()
            {
                let text = Argument {
                    flag,
                    text: env[&name].clone(),
                    variable: Some(name),
                };
                self.arguments.entry(flag.field).or_insert(text);
            }
        }
        for name in env.keys().filter(|name| name.starts_with(PREFIX)) {
            // Kubernetes adds some for every Service, one of which may be called as we are.
            let of_service = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];
            if names().any(|own| own == *name) || of_service.iter().any(|part| name.contains(part))
            {
                continue;
            }
            if let Some(near) = nearest(name, names()) {
                self.warnings.push(format!(
                    "variable {name} of the environment stands for no flag; did you mean {near}?"
                ));
            }
        }
    }

    /// The flags that are set, with their texts, in order of name.
    pub(crate) fn set_flags(&self) -> impl Iterator<Item = (&'static Flag, &str)> {
        self.arguments.values().map(|text| (text.flag, &*text.text))
    }

    /// The text of the flag, if it is set.
    fn text(&self, field: &str) -> Option<&str> {
        self.arguments.get(field).map(|text| text.text.as_str())
    }

    /// The value of the flag as `/configz` shows it, once all have been read.
    pub(crate) fn show(&self, flag: &Flag) -> Value {
        (flag.show)(self.text(flag.field).unwrap_or(flag.default))
    }

    /// The value of the flag.
    ///
    /// # Errors
    /// The text is none of this type.
    pub(crate) fn setting<T: FlagType>(
        &self,
        field: &'static str,
        default: &str,
    ) -> Result<Setting<T>, String> {
        let text = self.text(field).unwrap_or(default);
        let value = T::read(text).map_err(|reason| {
            let place = self.place(field);
            format!("invalid argument {text:?} for {place}: {reason}")
        })?;
        Ok(Setting { field, value })
    }

    /// The name of the text's place in messages.
    pub(crate) fn place(&self, field: &str) -> String {
        let text = self.arguments.get(field);
        if let Some(variable) = text.and_then(|text| text.variable.as_ref()) {
            return format!("variable {variable} of the environment");
        }
        match field {
            "v" => "\"-v, --v\" flag".into(),
            "help" => "\"-h, --help\" flag".into(),
            _ => format!("\"--{}\" flag", field.replace('_', "-")),
        }
    }
}

fn variable(flag: &Flag) -> String {
    format!("{PREFIX}{}", flag.field.to_uppercase())
}

fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('=')
        .map_or((text, None), |(name, value)| (name, Some(value)))
}

/// `--name`, `--name=value`.
fn find<'a>(
    flags: &'static [Flag],
    word: &str,
    long: &'a str,
) -> Result<(&'static Flag, Option<&'a str>), String> {
    let (name, text) = split(long);
    if name.is_empty() || name.starts_with('-') {
        return Err(format!("bad flag syntax: {word}"));
    }
    let name = name.replace('_', "-");
    let Some(flag) = flags.iter().find(|flag| flag.name() == name) else {
        let near = nearest(&name, flags.iter().map(Flag::name));
        let advice = near.map(|near| format!("; did you mean --{near}?"));
        let advice = advice.unwrap_or_default();
        return Err(format!("unknown flag: --{name}{advice}"));
    };
    Ok((flag, text))
}

/// `-v=4`, `-v4`, `-v`, `-h`.
fn find_short<'a>(
    flags: &'static [Flag],
    word: &'a str,
) -> Result<(&'static Flag, Option<&'a str>), String> {
    let mut rest = word.chars();
    let letter = rest.next().unwrap_or_default();
    let rest = rest.as_str();
    let Some(flag) = flags.iter().find(|flag| flag.short == Some(letter)) else {
        let name = split(word).0;
        let is_long = flags.iter().any(|flag| flag.name() == name);
        let advice = is_long.then(|| format!("; did you mean --{name}?"));
        let advice = advice.unwrap_or_default();
        return Err(format!(
            "unknown shorthand flag: {letter:?} in -{word}{advice}"
        ));
    };
    match rest.strip_prefix('=') {
        Some(text) => Ok((flag, Some(text))),
        None if rest.is_empty() => Ok((flag, None)),
        None if flag.stands_alone => Err(format!(
            "-{letter} takes no value, but got {rest:?} in -{word}"
        )),
        None => Ok((flag, Some(rest))),
    }
}

/// The name that needs the fewest changes of a letter, if they are few.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    names
        .map(|candidate| (strsim::levenshtein(name, &candidate), candidate))
        .min()
        .filter(|(changes, _)| *changes <= 3.min(name.len() / 3))
        .map(|(_, candidate)| candidate)
}
