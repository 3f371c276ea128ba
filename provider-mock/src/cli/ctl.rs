//! `provider-mock ctl`.

mod fault;
mod resources;

use std::time::Duration;

use clap::{Args, Subcommand};
use outrigger_provider_mock::cloud::Jitter;
use outrigger_provider_mock::control::operations as on;
use outrigger_provider_mock::control::{
    AnnounceMaintenance, ChangeCost, Client, CloseConnections, InjectFault, NewQuota, Targets,
};
use outrigger_provider_mock::duration;
use outrigger_provider_mock::faults::Effect;
use outrigger_provider_mock::instances::{InstanceSpec, LabelKey, LabelValue};

use super::SocketArgs;
use super::show::{Output, Shown, Text, changed, cost, listed, sentence};
use super::values::label;
use fault::{AnswersArgs, ErrorsArgs, HangArgs, WhereArgs};
use resources::{LoadBalancerAction, RouteAction, VolumeAction};

#[derive(Debug, Args)]
pub(crate) struct CtlCommand {
    #[command(flatten)]
    sockets: SocketArgs,

    /// How to print [default: table on a terminal, plain elsewhere]
    #[arg(long, short, value_name = "FORMAT", global = true)]
    output: Option<Output>,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the instances
    List,
    /// Make an instance
    Create(Box<CreateArgs>),
    /// Stop instances: they stay, shut down
    Stop(Targets),
    /// Start instances
    Start(Targets),
    /// Announce maintenance of instances, or its end
    Maintenance(AnnounceMaintenance),
    /// Delete instances for good: they are not synthesised again
    Delete {
        #[command(flatten)]
        targets: Targets,
        /// Only begin: the instances stay, as terminating, until they are deleted again
        #[arg(long)]
        terminating: bool,
    },
    /// List, show, change, delete or make load balancers
    #[command(subcommand, name = "lb")]
    LoadBalancers(LoadBalancerAction),
    /// List, add, change or remove routes
    #[command(subcommand)]
    Routes(RouteAction),
    /// List, make, change or delete volumes
    #[command(subcommand)]
    Volumes(VolumeAction),
    /// Change what a call costs, or let calls fail
    #[command(subcommand)]
    Set(SetAction),
    /// Let calls hang
    Hang(HangArgs),
    /// Serve calls and lose the replies
    Lose(WhereArgs),
    /// Answer nonsense
    Answers(AnswersArgs),
    /// Remove all faults and end each call that hangs
    Clear,
    /// Close every connection of callers, as a broken relay does; the mock lives on
    Disconnect {
        /// How long new connections are left unanswered, for example 3s [default: not at all]
        #[arg(long = "for", value_parser = duration::parse, value_name = "DURATION")]
        hold: Option<Duration>,
    },
    /// Show what was asked of the mock, and what it asked of its cloud
    Counters {
        /// Start again at zero
        #[arg(long)]
        reset: bool,
    },
    /// Show how the mock is set up and which faults are set
    Status,
}

#[derive(Debug, Subcommand)]
enum SetAction {
    /// How long each call to the cloud takes
    Latency {
        /// For example 20ms; 0 for an instant cloud
        #[arg(value_parser = duration::parse)]
        latency: Duration,
        /// How much it varies: a part of it (0.2), or a duration (5ms)
        #[arg(long, value_name = "PART|DURATION")]
        jitter: Option<Jitter>,
    },
    /// How many calls per second the cloud accepts
    RateLimit {
        /// Calls per second; 0 for no limit
        #[arg(allow_negative_numbers = true)]
        qps: f64,
        /// Calls at once [default: a second's worth]
        #[arg(long, value_name = "N")]
        burst: Option<u32>,
    },
    /// Let calls, or single items of their answers, fail
    Errors(ErrorsArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    #[command(flatten)]
    spec: InstanceSpec,
    /// A label that it sets on its node; may be repeated
    #[arg(long = "label", value_parser = label, value_name = "KEY=VALUE")]
    labels: Vec<(LabelKey, LabelValue)>,
}

pub(crate) async fn run(args: CtlCommand) -> anyhow::Result<()> {
    let client = Client::new(args.sockets.control()?.path().to_owned());
    let shown = ask(&client, args.action).await?;
    let output = args.output.unwrap_or_else(Output::for_stdout);
    shown
        .print(output, &mut std::io::stdout().lock())
        .or_else(|error| {
            // `ctl list | head` is no failure.
            if error.kind() == std::io::ErrorKind::BrokenPipe {
                Ok(())
            } else {
                Err(error.into())
            }
        })
}

async fn ask(client: &Client, action: Action) -> anyhow::Result<Shown> {
    match action {
        Action::List => listed(&client.ask(on::INSTANCES, &()).await?),
        Action::Create(args) => {
            let spec = InstanceSpec {
                labels: args.labels.into_iter().collect(),
                ..args.spec
            };
            let created = client.ask(on::CREATE_INSTANCE, &spec).await?;
            changed("created", &created)
        }
        Action::Stop(targets) => {
            changed("stopped", &client.ask(on::STOP_INSTANCES, &targets).await?)
        }
        Action::Start(targets) => {
            changed("started", &client.ask(on::START_INSTANCES, &targets).await?)
        }
        Action::Maintenance(announced) => {
            let done = if announced.over { "over" } else { "announced" };
            changed(
                done,
                &client.ask(on::ANNOUNCE_MAINTENANCE, &announced).await?,
            )
        }
        Action::Delete {
            targets,
            terminating,
        } => {
            let done = if terminating {
                "terminating"
            } else {
                "deleted"
            };
            let targets = Targets {
                terminating,
                ..targets
            };
            changed(done, &client.ask(on::DELETE_INSTANCES, &targets).await?)
        }
        Action::LoadBalancers(action) => action.run(client).await,
        Action::Routes(action) => action.run(client).await,
        Action::Volumes(action) => action.run(client).await,
        Action::Set(SetAction::Latency { latency, jitter }) => {
            let change = ChangeCost {
                latency: Some(latency),
                jitter: jitter.map(|jitter| jitter.to_string()),
                rate_limit: None,
            };
            change_cost(client, &change).await
        }
        Action::Set(SetAction::RateLimit { qps, burst }) => {
            let change = ChangeCost {
                rate_limit: Some(NewQuota { qps, burst }),
                ..ChangeCost::default()
            };
            change_cost(client, &change).await
        }
        Action::Set(SetAction::Errors(args)) => set_fault(client, args.into_fault()?).await,
        Action::Hang(args) => set_fault(client, args.into_fault()).await,
        Action::Lose(args) => set_fault(client, args.inject(Effect::LoseReply)).await,
        Action::Answers(args) => set_fault(client, args.into_fault()).await,
        Action::Disconnect { hold } => {
            let close = CloseConnections { hold };
            let closed = client.ask(on::CLOSE_CONNECTIONS, &close).await?;
            Shown::new(
                &closed,
                Text::line(counted(closed.closed, "connection", "closed")),
            )
        }
        Action::Clear => {
            let cleared = client.ask(on::CLEAR_FAULTS, &()).await?;
            Shown::new(
                &cleared,
                Text::line(counted(cleared.cleared, "fault", "removed")),
            )
        }
        Action::Counters { reset: false } => listed(&client.ask(on::COUNTERS, &()).await?),
        Action::Counters { reset: true } => listed(&client.ask(on::RESET_COUNTERS, &()).await?),
        Action::Status => listed(&client.ask(on::STATUS, &()).await?),
    }
}

async fn change_cost(client: &Client, change: &ChangeCost) -> anyhow::Result<Shown> {
    client.ask(on::CHANGE_COST, change).await?;
    let status = client.ask(on::STATUS, &()).await?;
    let (latency, limit) = cost(&status);
    let line = format!("a call to the cloud takes {latency}; rate limit: {limit}");
    Shown::new(&status, Text::line(line))
}

async fn set_fault(client: &Client, fault: InjectFault) -> anyhow::Result<Shown> {
    let fault = client.ask(on::SET_FAULT, &fault).await?;
    Shown::new(&fault, Text::line(format!("set: {}", sentence(&fault))))
}

fn counted(count: usize, noun: &str, done: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural} {done}")
}
