//! Answers that are lost and processes that die at any moment: at the end cloud and cluster agree.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::service::last_applied::Hash;

/// The fate of the next call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// The cloud did it, and the answer is lost.
    Lost,
    /// The cloud did it, and the controller dies.
    Crashed,
    /// The cloud did it, and the API server accepts no write about it.
    NotWritten,
    /// The cloud did nothing.
    Refused,
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Call(Fate),
    Port(i32),
    Kind(&'static str),
    Nodes(&'static str),
    /// All load balancers that count have the current targets: kept for the next process.
    Checkpoint,
    Delete,
    Pause(bool),
    Class(&'static str),
    Wait,
}

fn turn() -> impl Strategy<Value = Turn> {
    let calls = select(vec![
        Turn::Call(Fate::Answered),
        Turn::Call(Fate::Answered),
        Turn::Call(Fate::Lost),
        Turn::Call(Fate::Crashed),
        Turn::Call(Fate::NotWritten),
        Turn::Call(Fate::Refused),
    ]);
    let edits = select(vec![
        Turn::Port(80),
        Turn::Port(81),
        Turn::Kind("ClusterIP"),
        Turn::Kind("LoadBalancer"),
        Turn::Nodes("n1 n2"),
        Turn::Nodes("n3"),
        Turn::Checkpoint,
        Turn::Checkpoint,
        Turn::Pause(true),
        Turn::Pause(false),
        Turn::Class("none"),
        Turn::Class(""),
        Turn::Wait,
    ]);
    prop_oneof![10 => calls, 12 => edits, 1 => Just(Turn::Delete)]
}

struct World {
    stage: Stage,
    /// Inputs of the load balancer in the cloud.
    cloud: Option<(Hash, Revision)>,
}

impl World {
    fn call(&mut self, fate: Fate) {
        let step = self.stage.step();
        let revision = self.stage.targets.revision().clone();
        let is_done = !matches!(fate, Fate::Refused);
        if matches!(step, Step::Ensure(_) | Step::Update)
            && self.stage.applied.as_ref() != Some(&revision)
        {
            // `ServiceFacts::applied` demands this.
            self.stage.applied = None;
        }
        let had_balancer = self.cloud.is_some();
        match &step {
            Step::Ensure(question) if is_done => {
                self.cloud = Some((question.hash, question.revision.clone()));
            }
            Step::Update if is_done => {
                if let Some((_, targets)) = &mut self.cloud {
                    *targets = revision;
                }
            }
            Step::Delete { .. } if is_done => self.cloud = None,
            _ => {}
        }
        if matches!(fate, Fate::Crashed) {
            self.stage.progress = Progress::default();
            return;
        }
        let before = self.stage.service.clone();
        // This kind of failure leads to nothing but another try.
        let lost = failure(ErrorClass::Unavailable);
        let is_answered = matches!(fate, Fate::Answered | Fate::NotWritten);
        let result = |answer| if is_answered { Ok(answer) } else { Err(&lost) };
        let outcome = match step {
            Step::Ensure(question) => {
                let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
                self.stage.answer(&question, result(&ready))
            }
            Step::Update => {
                let disposition = if had_balancer {
                    Disposition::Ready
                } else {
                    Disposition::Absent
                };
                let updated = answer(LoadBalancerCall::Update, disposition, "");
                self.stage.update(result(&updated))
            }
            Step::Delete { .. } => {
                let absent = answer(LoadBalancerCall::Delete, Disposition::Absent, "");
                self.stage.delete(result(&absent))
            }
            _ => return,
        };
        if matches!(fate, Fate::NotWritten) && outcome.patch.is_some() {
            self.stage.service = before;
            self.stage.progress.not_written();
        }
    }

    fn play(&mut self, turn: Turn) {
        let stage = &mut self.stage;
        match turn {
            Turn::Call(fate) => self.call(fate),
            Turn::Port(port) => stage.service.spec.ports[0].port = port,
            Turn::Kind(kind) => {
                if &*stage.service.spec.kind != kind {
                    stage.service.spec.kind = kind.into();
                    stage.service.ingress = [].into();
                }
            }
            Turn::Nodes(names) => stage.targets = nodes(names),
            Turn::Checkpoint => {
                let facts = stage.facts();
                if !stage
                    .progress
                    .targets
                    .block_lease_revision(&stage.service, &facts)
                {
                    stage.applied = Some(stage.targets.revision().clone());
                }
            }
            Turn::Pause(is_paused) => stage.pause(is_paused),
            Turn::Class(served) => stage.capability.without_default_class = served == "none",
            Turn::Wait => stage.now += Duration::from_secs(31),
            Turn::Delete => stage.service.deleted = Some(stage.now),
        }
    }
}

proptest! {
    // The courses that go wrong are rare: a change, a lost answer, the change taken back.
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn cloud_and_cluster_agree_at_the_end(turns in vec(turn(), 0..14)) {
        let mut world = World { stage: Stage::new(load_balancer("web")), cloud: None };
        world.call(Fate::Answered);
        world.play(Turn::Checkpoint);
        for turn in turns {
            world.play(turn);
        }
        world.stage.pause(false);
        world.stage.capability.without_default_class = false;
        let mut calls = 0;
        while world.stage.step() != Step::Idle {
            world.call(Fate::Answered);
            calls += 1;
            prop_assert!(calls <= 3, "{:?}", world.stage.next());
        }
        let stage = &world.stage;
        let expected = match Ownership::of(&stage.service, Some(&stage.capability)) {
            Ownership::Provide => {
                let hash = Hash::of(&stage.service, &stage.capability);
                Some((hash, stage.targets.revision().clone()))
            }
            _ => None,
        };
        prop_assert_eq!(world.cloud, expected);
    }
}
