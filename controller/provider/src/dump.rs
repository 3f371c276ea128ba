//! The provider as the controller sees it at the moment, for people.

use std::fmt::Write;

use tokio::time::Instant;

use super::{
    Shared,
    admission::{CLASSES, class_label},
};

/// State, session, the status that the provider reports, and pauses.
pub(super) fn dump(shared: &Shared) -> String {
    let mut lines = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut lines, shared);
    lines
}

fn write(lines: &mut String, shared: &Shared) -> std::fmt::Result {
    let now = Instant::now();
    writeln!(lines, "state: {}", *shared.state.borrow())?;
    writeln!(lines, "standby: {}", *shared.standby.borrow())?;
    for class in CLASSES {
        if let Some(until) = shared.admission.paused_until(class) {
            let left = (until - now).as_secs_f64();
            writeln!(lines, "paused: {} for {left:.3}s", class_label(class))?;
        }
    }
    match &*shared.session.borrow() {
        Some(session) => {
            writeln!(lines, "session: {:#?}", &***session)?;
            if let Some(missing) = session.grants_missing() {
                writeln!(lines, "effects: {missing}")?;
            }
        }
        None => writeln!(lines, "session: none")?,
    }
    writeln!(lines, "health: {:#?}", *shared.health.lock())
}
