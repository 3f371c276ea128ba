//! `defective-provider-mock`: the mock with defects, for the tests of the conformance suite.

#[path = "main.rs"]
mod mock;

fn main() -> std::process::ExitCode {
    mock::main()
}
