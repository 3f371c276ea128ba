//! The output of a sweep: a table, or JSON.

use outrigger_loops::sweep::{Fate, Leftover, Swept};
use serde_json::{Value, json};

use crate::{command::new_table, options::config::OutputForm};

/// Writes to standard output.
pub(super) struct Report {
    output: OutputForm,
    cluster_uid: String,
}

impl Report {
    pub(super) fn new(output: OutputForm, cluster_uid: &str) -> Self {
        Self {
            output,
            cluster_uid: cluster_uid.to_owned(),
        }
    }

    /// Prints what the provider has.
    pub(super) fn listed(&self, listed: &[Leftover]) {
        let objects: Vec<_> = listed
            .iter()
            .map(|object| (object, &Fate::Listed))
            .collect();
        let end = match listed.len() {
            0 => format!("nothing of the cluster {}", self.cluster_uid),
            count => format!(
                "{count} objects of the cluster {}; --yes deletes them",
                self.cluster_uid
            ),
        };
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
            .map(|(object, fate)| (object, fate))
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

    fn print(&self, objects: &[(&Leftover, &Fate)], unfinished: Option<&str>, end: &str) {
        let text = if self.output == OutputForm::Json {
            let objects: Vec<_> = objects
                .iter()
                .map(|(object, fate)| entry(object, fate))
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
            let mut table = new_table(["KIND", "OBJECT", "FOR", "STATE", "WHY"]);
            for (object, fate) in objects {
                table.add_row([
                    object.kind(),
                    &object.name(),
                    &object.owner(),
                    fate.as_str(),
                    fate.why().unwrap_or_default(),
                ]);
            }
            format!("{}\n\n{end}", table.trim_fmt())
        };
        println!("{text}");
    }
}

fn entry(object: &Leftover, fate: &Fate) -> Value {
    json!({
        "kind": object.kind(),
        "name": object.name(),
        "for": object.owner(),
        "state": fate.as_str(),
        "error": fate.why(),
    })
}
