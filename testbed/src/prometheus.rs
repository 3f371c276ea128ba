//! Prometheus' reading of a scrape, by its own parser and the linter of `promtool`, built once with Go.
//!
//! A test of `/metrics` calls [`check`] and expects no complaint.

use std::process::Stdio;

use tokio::{io::AsyncWriteExt, process::Command};

use crate::{Error, Result, binaries::Program};

const SCRAPE_CHECK: Program = Program {
    name: "scrape-check",
    package: ".",
    main_go: Some(include_str!("../prometheus/main.go")),
    module: "github.com/prometheus/prometheus",
    go_mod: include_str!("../prometheus/go.mod"),
    go_sum: include_str!("../prometheus/go.sum"),
    version_package: None,
    without_go: "",
};

/// Reads `scrape` with the parser that Prometheus scrapes with, by `content_type`, and one of
/// the older text format with the linter of `promtool` besides. Returns what is wrong with it, as
/// `metric: sentence`.
///
/// Builds the parser on the first call, in less than a minute.
///
/// # Errors
/// [`Error::Scrape`] if Prometheus would refuse all of it; and if the parser cannot be built.
pub async fn check(scrape: &str, content_type: &str) -> Result<Vec<String>> {
    let program = SCRAPE_CHECK.find().await?;
    let run = || Error::io(format!("run {}", program.display()));
    let mut child = Command::new(&program)
        .arg(content_type)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(run())?;
    if let Some(mut stdin) = child.stdin.take() {
        // It reads to the end before it writes, so that neither waits for the other; one that
        // ends before explains it below.
        let _ = stdin.write_all(scrape.as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(run())?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Scrape(reason.trim().to_owned()));
    }
    let problems = String::from_utf8_lossy(&output.stdout);
    Ok(problems.lines().map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

    #[tokio::test]
    async fn good_ones_pass_and_bad_ones_are_explained() {
        let good = "# HELP a_total As.\n# TYPE a_total counter\na_total{x=\"\\\"\"} 1\n";
        assert_eq!(check(good, CLASSIC).await.unwrap(), [""; 0]);
        let good = "# HELP a As.\n# TYPE a counter\na_total 1\n# EOF\n";
        assert_eq!(check(good, OPENMETRICS).await.unwrap(), [""; 0]);

        let odd = "# HELP a As.\n# TYPE a counter\na 1\na 2\nb 1\n";
        let expected = [
            "a: {__name__=\"a\"} is there twice",
            "b: no type is given",
            "a: counter metrics should have \"_total\" suffix",
            "a: metric not unique",
            "b: no help text",
        ];
        assert_eq!(check(odd, CLASSIC).await.unwrap(), expected);

        for (bad, kind) in [
            ("a{x=\"1} 1\n", CLASSIC),
            ("# TYPE a gauge\na 1\n", OPENMETRICS),
            ("", CLASSIC),
        ] {
            let refused = check(bad, kind).await.unwrap_err().to_string();
            assert!(
                refused.starts_with("Prometheus cannot read this scrape: "),
                "{refused}"
            );
        }
    }
}
