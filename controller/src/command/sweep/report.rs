//! The output of a sweep: a table, or JSON.

use outrigger_loops::sweep::{Fate, Leftover, Swept};
use serde_json::{Value, json};

use super::Refusal;
use crate::command::{is_colored, new_table};

/// Writes to standard output.
pub(super) struct Report {
    is_json: bool,
    cluster_uid: String,
}

impl Report {
    pub(super) fn of(output: &str, cluster_uid: &str) -> Result<Self, Refusal> {
        let is_json = match output {
            "json" => true,
            "table" => false,
            other => {
                return Err(Refusal(format!(
                    "--output must be table or json, but got {other:?}"
                )));
            }
        };
        Ok(Self {
            is_json,
            cluster_uid: cluster_uid.to_owned(),
        })
    }

    /// Prints what would be deleted.
    pub(super) fn listed(&self, listed: &[Leftover]) {
        let objects: Vec<_> = listed.iter().map(|object| (object, None)).collect();
        let end = format!(
            "{} objects of the cluster {}",
            listed.len(),
            self.cluster_uid
        );
        self.print(&objects, None, &end);
    }

    /// Prints what became of it.
    pub(super) fn swept(&self, swept: &Swept) {
        let Swept {
            objects,
            unfinished,
        } = swept;
        let shown: Vec<_> = objects
            .iter()
            .map(|(object, fate)| (object, Some(fate)))
            .collect();
        let deleted = objects
            .iter()
            .filter(|(_, fate)| *fate == Fate::Deleted)
            .count();
        let left = objects.len() - deleted;
        let end = match unfinished {
            Some(why) => format!("{deleted} objects deleted, {left} not; more may be left: {why}"),
            None => format!("{deleted} objects deleted, {left} left"),
        };
        self.print(&shown, unfinished.as_deref(), &end);
    }

    fn print(&self, objects: &[(&Leftover, Option<&Fate>)], unfinished: Option<&str>, end: &str) {
        let text = if self.is_json {
            let objects: Vec<_> = objects
                .iter()
                .map(|(object, fate)| entry(object, *fate))
                .collect();
            let shown = json!({
                "clusterUid": self.cluster_uid,
                "objects": objects,
                "unfinished": unfinished,
            });
            format!("{shown:#}")
        } else if objects.is_empty() {
            end.to_owned()
        } else {
            let mut table = new_table(["KIND", "OBJECT", "FOR", "STATE", "WHY"], is_colored());
            for (object, fate) in objects {
                table.add_row([
                    object.kind(),
                    &object.name(),
                    &object.owner(),
                    state(*fate),
                    why(*fate).unwrap_or_default(),
                ]);
            }
            format!("{}\n\n{end}", table.trim_fmt())
        };
        println!("{text}");
    }
}

fn entry(object: &Leftover, fate: Option<&Fate>) -> Value {
    json!({
        "kind": object.kind(),
        "name": object.name(),
        "for": object.owner(),
        "state": state(fate),
        "error": why(fate),
    })
}

const fn state(fate: Option<&Fate>) -> &'static str {
    match fate {
        None => "listed",
        Some(fate) => fate.as_str(),
    }
}

fn why(fate: Option<&Fate>) -> Option<&str> {
    match fate {
        Some(Fate::Failed(error)) => Some(error),
        _ => None,
    }
}
