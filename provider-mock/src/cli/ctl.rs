//! `provider-mock ctl`.

use std::io::Write as _;

use clap::{Args, Subcommand};
use outrigger_provider_mock::control::{Client, Command};
use outrigger_provider_mock::faults::Effect;

use super::SocketArgs;
use super::fault::{AnswersArgs, ErrorsArgs, HangArgs, WhereArgs};

#[derive(Debug, Args)]
pub(crate) struct CtlCommand {
    #[command(flatten)]
    sockets: SocketArgs,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    #[command(flatten)]
    Command(Command),
    /// Let calls, or single items of their answers, fail
    Errors(ErrorsArgs),
    /// Let calls hang
    Hang(HangArgs),
    /// Serve calls and lose the replies
    Lose(WhereArgs),
    /// Answer nonsense
    Answers(AnswersArgs),
}

/// Sends the command, and prints the answer as it came: JSON.
pub(crate) async fn run(args: CtlCommand) -> anyhow::Result<()> {
    let client = Client::new(args.sockets.control()?.path().to_owned());
    let command = match args.action {
        Action::Command(command) => command,
        Action::Errors(args) => Command::SetFault(args.into_fault()?),
        Action::Hang(args) => Command::SetFault(args.into_fault()),
        Action::Lose(args) => Command::SetFault(args.inject(Effect::LoseReply)),
        Action::Answers(args) => Command::SetFault(args.into_fault()),
    };
    let answer = client.send(&command).await?;
    match std::io::stdout().write_all(&answer) {
        // `ctl list | head` is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
