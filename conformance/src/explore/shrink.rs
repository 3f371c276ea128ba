//! The smallest trace that fails as a longer one does: steps are left out and made simpler as long as it fails.

use super::trace::{Change, Field, Step, Trace, Turn};

/// Tries smaller traces until none of them fails, or `most` were tried. The smallest that failed, and how many were tried.
pub(super) async fn shrink(
    mut trace: Trace,
    most: usize,
    mut fails: impl AsyncFnMut(&Trace) -> bool,
) -> (Trace, usize) {
    let mut tried = 0;
    'smaller: loop {
        for smaller in smaller(&trace) {
            if tried == most {
                return (trace, tried);
            }
            tried += 1;
            if fails(&smaller).await {
                trace = smaller;
                continue 'smaller;
            }
        }
        return (trace, tried);
    }
}

/// Traces that are smaller by one cut, the largest cuts first.
pub(super) fn smaller(trace: &Trace) -> Vec<Trace> {
    let mut all = Vec::new();
    let turns = &trace.0;
    let mut length = turns.len() / 2;
    while length > 0 {
        for start in (0..turns.len()).step_by(length) {
            let end = (start + length).min(turns.len());
            let rest = [&turns[..start], &turns[end..]].concat();
            if !rest.is_empty() {
                all.push(Trace(rest));
            }
        }
        length /= 2;
    }
    for (index, turn) in turns.iter().enumerate() {
        for simpler in simpler_turns(turn) {
            let mut turns = turns.clone();
            turns[index] = simpler;
            all.push(Trace(turns));
        }
    }
    all
}

fn simpler_turns(turn: &Turn) -> Vec<Turn> {
    let mut all = Vec::new();
    for (index, step) in turn.0.iter().enumerate() {
        if turn.0.len() > 1 {
            let mut rest = turn.clone();
            rest.0.remove(index);
            all.push(rest);
        }
        for simpler in simpler_steps(step) {
            let mut rest = turn.clone();
            rest.0[index] = simpler;
            all.push(rest);
        }
    }
    all
}

fn simpler_steps(step: &Step) -> Vec<Step> {
    let without_fault = step.fault.map(|_| Step {
        fault: None,
        ..step.clone()
    });
    let changes = simpler_changes(&step.change).into_iter();
    let changes = changes.map(|change| Step {
        change,
        fault: step.fault,
    });
    without_fault.into_iter().chain(changes).collect()
}

fn simpler_changes(change: &Change) -> Vec<Change> {
    match change {
        Change::Service(name, fields) => {
            let mut all = each_left_out(fields);
            for (index, field) in fields.iter().enumerate() {
                for simpler in simpler_fields(field) {
                    let mut fields = fields.clone();
                    fields[index] = simpler;
                    all.push(fields);
                }
            }
            let service = |fields| Change::Service(*name, fields);
            all.into_iter().map(service).collect()
        }
        Change::Nodes(targets) => {
            let mut all = each_left_out(targets);
            for (index, target) in targets.iter().enumerate() {
                if target.mark.is_some() {
                    let mut plain = targets.clone();
                    plain[index].mark = None;
                    all.push(plain);
                }
            }
            all.into_iter().map(Change::Nodes).collect()
        }
        _ => Vec::new(),
    }
}

fn simpler_fields(field: &Field) -> Vec<Field> {
    match field {
        Field::Ports(ports) => {
            let mut all = each_left_out(ports);
            all.retain(|ports| !ports.is_empty());
            for (index, port) in ports.iter().enumerate() {
                if port.name.is_some() || port.target_port.is_some() {
                    let mut plain = ports.clone();
                    plain[index].name = None;
                    plain[index].target_port = None;
                    all.push(plain);
                }
            }
            all.into_iter().map(Field::Ports).collect()
        }
        Field::Ranges(ranges) if ranges.len() > 1 => each_left_out(ranges)
            .into_iter()
            .map(Field::Ranges)
            .collect(),
        _ => Vec::new(),
    }
}

fn each_left_out<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    let without = |index| {
        let mut rest = all.to_vec();
        rest.remove(index);
        rest
    };
    (0..all.len()).map(without).collect()
}
