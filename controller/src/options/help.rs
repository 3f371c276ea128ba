//! `--help`.

use std::fmt::Write;

use super::{flag::Parity, table::FLAGS};

const ABOUT: &str = "Outrigger's cloud-controller-manager: the cloud loops of Kubernetes, with the cloud behind \
                     a gRPC provider.";

const ENVIRONMENT: &str = "Each flag can be set by a variable of the environment too: OUTRIGGER_ and the name in \
                           capitals, with underscores, as in OUTRIGGER_CLUSTER_NAME. The command line goes before \
                           the environment; an empty variable counts as absent. KUBECONFIG is not read, as by \
                           upstream.";

/// Columns of a line.
const WIDTH: usize = 100;

/// Columns before the help text of a flag.
const INDENT: usize = 10;

/// All flags but those that are deprecated.
pub(super) fn text() -> String {
    let mut text = format!(
        "{}\nUsage: cloud-controller-manager [flags]\n",
        wrapped(ABOUT, 0)
    );
    let mut group = "";
    for flag in FLAGS.iter().filter(|flag| flag.deprecated.is_none()) {
        if flag.group != group {
            group = flag.group;
            let _ = writeln!(text, "\n{group} flags:");
        }
        let short = match flag.short {
            Some(letter) => format!("-{letter},"),
            None => "   ".to_owned(),
        };
        let (name, kind) = (flag.name(), flag.kind);
        let value = if flag.stands_alone {
            format!("[=<{kind}>]")
        } else {
            format!(" <{kind}>")
        };
        let _ = writeln!(text, "  {short} --{name}{value}");
        let mut help = match flag.parity {
            Parity::NoEffect(why) => format!("No effect: {why}"),
            _ => flag.help.trim_end_matches('.').to_owned(),
        };
        if !["", "0", "0s", "false"].contains(&flag.default) {
            let _ = write!(help, " [default: {}]", flag.default);
        }
        text.push_str(&wrapped(&help, INDENT));
    }
    text + "\n" + &wrapped(ENVIRONMENT, 0)
}

/// The text in lines of at most [`WIDTH`] columns, each with an indent.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut column = WIDTH;
    for word in text.split(' ') {
        if column + 1 + word.len() > WIDTH {
            let line_end = if lines.is_empty() { "" } else { "\n" };
            let _ = write!(lines, "{line_end}{:indent$}{word}", "");
            column = indent + word.len();
        } else {
            let _ = write!(lines, " {word}");
            column += 1 + word.len();
        }
    }
    lines + "\n"
}
