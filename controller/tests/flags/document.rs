//! `docs/flags.md`, made from the declarations. `UPDATE_EXPECT=1 cargo test` writes it.

use std::fmt::Write;

use clap::Arg;
use outrigger_controller::options::no_effect::NO_EFFECT;

use super::upstream::{BETTER, OURS, default, flags, kind, name};

const INTRODUCTION: &str = "\
# Flags

Every flag of upstream's cloud-controller-manager (1.37, with node-ipam-controller) is accepted, with
its meaning. A command line that works there works here; where a default is another one, the table says why. Each flag can be set in the environment, too. The tables say
how each one differs from upstream's:

- **same**: default and meaning.
- **better**: another default or range, and why. Upstream's value can be set.
- **ours**: upstream has none.

The last table has flags of upstream's on which [nothing depends](#flags-without-effect).

## How they are read

By [clap](https://docs.rs/clap), with what manifests know from Go: `--flag=value` or `--flag value`; switches `--flag` or `--flag=false`;
a name with underscores for all its hyphens; lists are split at commas, the first mention replaces the default, later ones
add to it, and the last mention of any other flag counts; durations are written `10s`, `1m30s` or `1.5h`. Numbers are decimal.

Each flag can be set in the environment too: `OUTRIGGER_` and its name in capitals, with underscores,
as in `OUTRIGGER_CLUSTER_NAME`. The command line goes before the environment; an empty variable counts as absent.
A variable with this beginning that stands for no flag is a warning in the log.
`CLOUDPROVIDER_ENDPOINT` stands for `OUTRIGGER_PROVIDER_ENDPOINT`, for the controller and for providers.
`KUBECONFIG` is not read, as by upstream: a program that writes to Nodes must not act on whatever cluster a
shell last worked with. Without `--kubeconfig` and `--master`, the service account of the Pod is used.

The first mistake ends the process with exit code 1: an unknown flag, with a name that is near; a value of another type or out of range; a
positional argument; flags that do not fit together. In these cases upstream goes on, and we do not:

| flag | upstream | here |
|---|---|---|
| `--concurrent-node-syncs` or `--concurrent-service-syncs` below 1 | nothing is ever done, or a panic | refused |
| a period of 0 or below | runs without a pause | refused |
| times of the lease that do not fit together | a panic | refused |
| an invalid CIDR in `--cluster-cidr` or `--service-cluster-ip-range` | ends later, or ignored | refused |
| `--tls-cert-file` without its key, or the other way round | ends later | refused |
| `--webhooks` without a certificate | a certificate for localhost | refused |
| `--version=…` | pretends to be that version, or prints more | refused |

TLS is never below 1.2, and only with forward secrecy and authenticated encryption, whatever the flags about it say. Deprecated flags are
accepted with a warning.

## Credentials and proxies

A kubeconfig's user may have a token, a file with one, a client certificate (X.509 version 3), user and password, or a credential plugin
(`exec`).

- The kubeconfig, and the files with tokens, certificates, keys and CAs that it names, are read again every 10 s. New
  connections use what is new in them. A file that cannot be read, or a key that does not fit yet, leaves the former in use.
- A plugin runs at the start, for all clients of the process, and has 30 s then. It runs again a minute before its token or certificate ends, and
  within 10 s of a 401, and once more 30 s or longer after one that hangs; requests wait for another token. It gets no terminal.

`proxy-url` of the kubeconfig (`http`, `https`, `socks5`) goes before the environment. There `HTTPS_PROXY` counts, `HTTP_PROXY` for an API server
without TLS, or else `ALL_PROXY`, in the cluster too, unless `NO_PROXY` names the API server: by address, range or domain (`example.com` and
`.example.com` with all below it), without a port, or `*`. `localhost` and loopback addresses need no entry. A log line at the start tells the proxy;
an address in the environment that is not a URL counts as none.

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

From 1 on, all flags are logged at start.
";

/// The whole text.
pub(crate) fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    let flags = flags();
    let mut headings: Vec<_> = flags.iter().filter_map(Arg::get_help_heading).collect();
    headings.dedup();
    for heading in headings {
        write!(
            text,
            "## {heading} flags\n\n| flag | type | default | parity | |\n|---|---|---|---|---|\n"
        )
        .unwrap();
        let of_heading = flags
            .iter()
            .filter(|flag| flag.get_help_heading() == Some(heading));
        of_heading.for_each(|flag| row(&mut text, flag));
        text.push('\n');
    }
    text.push_str("## Flags without effect\n\nAccepted, with one warning in the log when one is set.\n\n| flags | why |\n|---|---|\n");
    for (names, why) in &NO_EFFECT {
        let names: Vec<_> = names.iter().map(|name| format!("`--{name}`")).collect();
        writeln!(text, "| {} | {why} |", names.join(", ")).unwrap();
    }
    text.push_str(VERBOSITY);
    text
}

fn row(text: &mut String, flag: &Arg) {
    let name = name(flag);
    let reason = |table: &[(&str, &'static str)]| {
        let row = table.iter().find(|(flag, _)| *flag == name);
        row.map(|(_, why)| *why)
    };
    let (parity, why) = match (reason(&BETTER), reason(&OURS)) {
        (Some(why), _) => ("better", why),
        (_, Some(why)) => ("ours", why),
        _ => ("same", ""),
    };
    let default = match &*default(flag) {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let help = flag.get_help().unwrap().to_string();
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(". Why: {why}")
    };
    let note = format!("{help}{why}")
        .replace('|', "\\|")
        .replace('*', "\\*");
    let kind = kind(flag);
    writeln!(
        text,
        "| `--{name}` | {kind} | {default} | {parity} | {note} |"
    )
    .unwrap();
}
