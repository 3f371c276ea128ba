//! The words of the command line and the variables of the environment, by the rules of Go's flag
//! library: what they name, not yet what they mean.
//!
//! clap knows the flags and their types, but not these rules: underscores for hyphens, values that
//! begin with a hyphen, `--switch=false`, lists that grow. So it is handed `--name=value` words
//! only.

use std::collections::BTreeMap;

use clap::Command;

use super::flags::type_of;

/// Beginning of the variables that stand for flags.
const PREFIX: &str = "OUTRIGGER_";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    CommandLine,
    Variable(String),
}

#[derive(Clone, Debug)]
struct Setting {
    value: String,
    origin: Origin,
}

/// The values that are set, by flag.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandLine {
    settings: BTreeMap<String, Setting>,
    /// Words that are neither flags nor their values.
    pub(super) positional: Vec<String>,
    /// Variables that are probably misspelt.
    pub(super) warnings: Vec<String>,
}

/// Facts of a flag.
struct Known {
    name: String,
    short: Option<char>,
    kind: String,
}

impl Known {
    /// Whether the flag may stand alone, and means `true` then.
    fn stands_alone(&self) -> bool {
        matches!(self.kind.as_str(), "bool" | "version")
    }

    /// The separator of the values of a repeated flag; absent: the last one counts.
    fn separator(&self) -> Option<char> {
        match self.kind.as_str() {
            "strings" | "int32Slice" | "mapStringBool" | "pattern=N,..." => Some(','),
            "namedCertKey" => Some(';'),
            _ => None,
        }
    }

    fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase().replace('-', "_"))
    }
}

impl CommandLine {
    /// Reads both. The command line goes before the environment.
    ///
    /// # Errors
    /// The command line's mistake, in the words of Go's flag library.
    pub(super) fn read(
        command: &Command,
        args: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let known: Vec<Known> = command
            .get_arguments()
            .map(|arg| Known {
                name: arg.get_long().unwrap_or_default().to_owned(),
                short: arg.get_short(),
                kind: type_of(arg).to_owned(),
            })
            .collect();
        let mut line = Self::default();
        line.read_args(&known, args)?;
        line.read_env(&known, env);
        Ok(line)
    }

    fn read_args(&mut self, known: &[Known], args: &[String]) -> Result<(), String> {
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                self.positional.extend(words.cloned());
                break;
            }
            let (flag, value) = if let Some(long) = word.strip_prefix("--") {
                let (name, value) = split(long);
                if name.is_empty() || name.starts_with('-') {
                    return Err(format!("bad flag syntax: {word}"));
                }
                let name = name.replace('_', "-");
                (find(known, &name)?, value)
            } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
                find_short(known, short)?
            } else {
                self.positional.push(word.clone());
                continue;
            };
            let value = match value {
                Some(value) => value.to_owned(),
                None if flag.stands_alone() => "true".to_owned(),
                None => words
                    .next()
                    .ok_or_else(|| format!("flag needs an argument: --{}", flag.name))?
                    .clone(),
            };
            self.set(flag, value, Origin::CommandLine);
        }
        Ok(())
    }

    fn set(&mut self, flag: &Known, value: String, origin: Origin) {
        let value = match (self.settings.get(&flag.name), flag.separator()) {
            (Some(before), Some(separator)) if !before.value.is_empty() => {
                format!("{}{separator}{value}", before.value)
            }
            _ => value,
        };
        self.settings
            .insert(flag.name.clone(), Setting { value, origin });
    }

    fn read_env(&mut self, known: &[Known], env: &BTreeMap<String, String>) {
        let variables = |flag: &Known| match flag.name.as_str() {
            "help" | "version" => vec![],
            "provider-endpoint" => vec![flag.variable(), "CLOUDPROVIDER_ENDPOINT".to_owned()],
            _ => vec![flag.variable()],
        };
        for flag in known {
            if self.settings.contains_key(&flag.name) {
                continue;
            }
            let found = variables(flag)
                .into_iter()
                .find_map(|name| Some((env.get(&name)?.clone(), name)))
                .filter(|(value, _)| !value.is_empty());
            if let Some((value, name)) = found {
                self.set(flag, value, Origin::Variable(name));
            }
        }
        let names: Vec<String> = known.iter().map(Known::variable).collect();
        for variable in env.keys().filter(|variable| variable.starts_with(PREFIX)) {
            // Kubernetes adds some for every Service, one of which may be called as we are.
            let of_service = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"];
            if names.contains(variable) || of_service.iter().any(|part| variable.contains(part)) {
                continue;
            }
            if let Some(near) = nearest(variable, names.iter().map(String::as_str)) {
                self.warnings.push(format!(
                    "variable {variable} of the environment stands for no flag; did you mean \
                     {near}?"
                ));
            }
        }
    }

    /// As words that clap reads.
    pub(super) fn words(&self) -> Vec<String> {
        let word = |(name, setting): (&String, &Setting)| format!("--{name}={}", setting.value);
        self.settings.iter().map(word).collect()
    }

    /// Whether the flag is set, and not left to its default.
    pub(super) fn is_set(&self, flag: &str) -> bool {
        self.settings.contains_key(flag)
    }

    /// The value of the flag, if it is set.
    pub(super) fn value(&self, flag: &str) -> Option<&str> {
        self.settings
            .get(flag)
            .map(|setting| setting.value.as_str())
    }

    /// The name of the value's place in messages.
    pub(super) fn place(&self, flag: &str) -> String {
        match self.settings.get(flag).map(|setting| &setting.origin) {
            Some(Origin::Variable(name)) => format!("variable {name} of the environment"),
            _ if flag == "v" => "\"-v, --v\" flag".into(),
            _ if flag == "help" => "\"-h, --help\" flag".into(),
            _ => format!("\"--{flag}\" flag"),
        }
    }
}

fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('=')
        .map_or((text, None), |(name, value)| (name, Some(value)))
}

fn find<'a>(known: &'a [Known], name: &str) -> Result<&'a Known, String> {
    known.iter().find(|flag| flag.name == name).ok_or_else(|| {
        let names = known.iter().map(|flag| flag.name.as_str());
        let advice = nearest(name, names)
            .map_or_else(String::new, |near| format!("; did you mean --{near}?"));
        format!("unknown flag: --{name}{advice}")
    })
}

/// `-v=4`, `-v4`, `-v 4`, `-h`.
fn find_short<'a, 'b>(
    known: &'a [Known],
    word: &'b str,
) -> Result<(&'a Known, Option<&'b str>), String> {
    let mut rest = word.chars();
    let letter = rest.next().unwrap_or_default();
    let rest = rest.as_str();
    let Some(flag) = known.iter().find(|flag| flag.short == Some(letter)) else {
        let name = split(word).0;
        let advice = if known.iter().any(|flag| flag.name == name) {
            format!("; did you mean --{name}?")
        } else {
            String::new()
        };
        return Err(format!(
            "unknown shorthand flag: {letter:?} in -{word}{advice}"
        ));
    };
    match rest.strip_prefix('=') {
        Some(value) => Ok((flag, Some(value))),
        None if rest.is_empty() => Ok((flag, None)),
        None if flag.stands_alone() => Err(format!(
            "-{letter} takes no value, but got {rest:?} in -{word}"
        )),
        None => Ok((flag, Some(rest))),
    }
}

/// The one that needs the fewest changes of a letter, if they are few.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
        .min()
        .filter(|(changes, _)| *changes <= 3.min(name.len() / 3))
        .map(|(_, candidate)| candidate)
}
