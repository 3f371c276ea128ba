//! `docs/flags.md`, made from the declarations. `UPDATE_EXPECT=1 cargo test` writes it.

use std::fmt::Write;

use outrigger_controller::options::{
    flag::{Flag, Parity},
    table::FLAGS,
};

const INTRODUCTION: &str = "\
# Flags

Every flag of upstream's cloud-controller-manager (1.37, with node-ipam-controller) is accepted, with
its type and meaning. The tables say how each one differs from upstream's:

- **same**: type, default and meaning.
- **better**: another default or range, and why. Upstream's value can be set.
- **no effect**: accepted, with one warning in the log when it is set, and why.
- **ours**: upstream has none.

## How they are read

Flags are read as by Go's flag library: `--flag=value` or `--flag value`; switches `--flag` or `--flag=false`; underscores
may stand for hyphens; lists are split at commas, the first mention replaces the default, later ones
add to it; durations are written `10s`, `1m30s` or `1.5h`; whole numbers may have a prefix of their base and
underscores (`0x10`, `1_000`), and a leading 0 means octal (`010` is 8).

Each flag can be set in the environment too: `OUTRIGGER_` and its name in capitals, with underscores,
as in `OUTRIGGER_CLUSTER_NAME`. The command line goes before the environment; an empty variable counts as absent.
`CLOUDPROVIDER_ENDPOINT` stands for `OUTRIGGER_PROVIDER_ENDPOINT`, for the controller and for providers.
`KUBECONFIG` is not read, as by upstream: a program that writes to Nodes must not act on whatever cluster a
shell last worked with. Without `--kubeconfig` and `--master`, the service account of the Pod is used.

An unknown flag, a value of the wrong type and a positional argument end the process with exit code 1 and the
nearest name that exists. Invalid values are reported all together, in upstream's words where it
has some. In these cases upstream goes on, and we do not:

| flag | upstream | here |
|---|---|---|
| `--concurrent-node-syncs` or `--concurrent-service-syncs` below 1 | nothing is ever done, or a panic | refused |
| a period of 0 or below | runs without a pause | refused |
| times of the lease that do not fit together | a panic | refused |
| an invalid CIDR in `--cluster-cidr` or `--service-cluster-ip-range` | ends later, or ignored | refused |
| `--tls-cert-file` without its key, or the other way round | ends later | refused |
| `--version=vX.Y.Z` | pretends to be that version | refused |

TLS is never below 1.2, and only with forward secrecy and authenticated encryption. Values of the TLS flags that
ask for something else are accepted with a warning.

Errors are written to standard error once; upstream repeats them as a log line.

## Credentials and proxies

A kubeconfig's user may have a token, a file with one, a client certificate (of any X.509 version), user and
password, or a credential plugin (`exec`). Legacy `auth-provider` entries are refused.

- The kubeconfig, and the files with tokens, certificates and keys that it names, are looked at every 10 s and after
  a 401. New connections present the new certificate and trust the new CAs. A file that cannot be read, or a key that
  does not fit yet, leaves the former in use.
- A plugin runs once for all clients of the process, when the first request needs it; again shortly before
  its credential expires, or after a 401. After 30 s it is killed with all that it started. It gets no
  terminal, so that `interactiveMode: Always` is refused.

`proxy-url` of the kubeconfig (`http`, `https`, `socks5`) goes before the environment. There `HTTPS_PROXY` counts,
or `HTTP_PROXY` for an API server without TLS, in the cluster too, unless `NO_PROXY` names the API server: by
address, range or domain (`example.com` with all below it, `.example.com` only what is below it), with or without a
port, or `*`. `localhost` and loopback addresses need no entry. A log line at the start tells the proxy.

";

const GATES: &str = "\
## Feature gates

`--feature-gates` accepts any `Name=true` and `Name=false`, so that one list can be set for all components of a
cluster. These have an effect; one warning in the log names the others.

| gate | stage | default | effect |
|---|---|---|---|
| `AllBeta` | beta | off | switches the gates below that are not named |
| `ComponentFlagz` | beta | on | `/flagz` is served |
| `ComponentStatusz` | beta | on | `/statusz` is served |

Always on here: `ContextualLogging`, `ControllerManagerReleaseLeaderElectionLockOnExit`, `LoggingAlphaOptions` and
`LoggingBetaOptions`.
";

const VERBOSITY: &str = "
## Verbosity

`-v` is klog's scale. It can be changed while the process runs: `PUT /debug/flags/v`.

| `-v` | the controller | libraries | requests to the API server |
|---|---|---|---|
| 0–3 | info | warn | off |
| 4–5 | debug | warn | off |
| 6–7 | trace | warn | off |
| 8–9 | trace | debug | debug |
| 10 and more | trace | trace | trace |

From 1 on, all flags are logged at start. `--vmodule` raises the verbosity of some modules: `node=4` that of every
module with a part `node` in its path, `outrigger_loops/node/*=4` by the whole path; `*` and `?` work as
in file names.
";

/// The whole text.
pub(crate) fn flags() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut group = "";
    for flag in FLAGS {
        if flag.group != group {
            group = flag.group;
            write!(
                text,
                "## {group} flags\n\n| flag | type | default | parity | |\n|---|---|---|---|---|\n"
            )
            .unwrap();
        }
        row(&mut text, flag);
        if is_last(flag) {
            text.push('\n');
        }
    }
    text.push_str(GATES);
    text.push_str(VERBOSITY);
    text
}

/// The next flag is of another group.
fn is_last(flag: &Flag) -> bool {
    let last = FLAGS.iter().rfind(|other| other.group == flag.group);
    last.is_some_and(|last| last.name() == flag.name())
}

fn row(text: &mut String, flag: &Flag) {
    let default = match &*flag.default() {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let (parity, why) = match &flag.parity {
        Parity::Same => ("same", ""),
        Parity::Better(why) => ("better", *why),
        Parity::NoEffect(why) => ("no effect", *why),
        Parity::Ours(why) => ("ours", *why),
    };
    let help = flag.help.trim_end_matches('.');
    // A flag without effect needs no text but the reason.
    let note = match (&flag.parity, why) {
        (Parity::NoEffect(_), why) => why.to_owned(),
        (_, "") => help.to_owned(),
        (_, why) => format!("{help}. Why: {why}"),
    };
    let note = note.replace('|', "\\|").replace('*', "\\*");
    let deprecated = if flag.deprecated.is_some() {
        "; deprecated"
    } else {
        ""
    };
    writeln!(
        text,
        "| `--{}` | {} | {default} | {parity}{deprecated} | {note} |",
        flag.name(),
        flag.kind
    )
    .unwrap();
}
