//! `conformance/templates`: the files of each language, and the commands of its tools.

/// How a project of a language is worked on, and its files beside [`SHARED`].
#[derive(Debug)]
pub(super) struct Template {
    /// The language; its guide has this name, in lower case.
    pub(super) title: &'static str,
    /// The step that installs the language, for a CI file.
    pub(super) setup: &'static str,
    /// Builds it, in its folder.
    pub(super) build: &'static str,
    /// Runs its linter and its tests.
    pub(super) check: &'static str,
    /// Starts it: items of a YAML list.
    pub(super) command: &'static str,
    /// The variable that says how much it logs.
    pub(super) log_level: &'static str,
    /// Path in the project, and text. The manifest is the first.
    pub(super) files: &'static [(&'static str, &'static str)],
}

macro_rules! text {
    ($folder:literal, $path:literal) => {
        include_str!(concat!("../../templates/", $folder, $path))
    };
    ($folder:literal, $path:literal, $template:literal) => {
        text!($folder, $template)
    };
}

/// Files of a folder of templates, each with its path in a project. A template has another path where that one would mean
/// something in this repository.
macro_rules! files {
    ($folder:literal: $($path:literal $(from $template:literal)?),+) => {
        &[$(($path, text!($folder, $path $(, $template)?))),+]
    };
}

pub(super) const SHARED: &[(&str, &str)] = files!("":
    "README.md",
    "inputs.yaml",
    ".github/workflows/conformance.yml" from "conformance.yml");

pub(super) const RUST: Template = Template {
    title: "Rust",
    setup: "run: rustup update stable",
    build: "cargo build",
    check: "cargo fmt --check && cargo clippy --all-targets -- --deny warnings && cargo test",
    command: "target/debug/provider-my-cloud",
    log_level: "RUST_LOG",
    files: files!("rust/":
        "Cargo.toml" from "manifest.toml",
        "src/main.rs",
        "src/instances.rs",
        "Containerfile",
        ".gitignore" from "ignore",
        ".dockerignore" from "ignore"),
};

pub(super) const GO: Template = Template {
    title: "Go",
    setup: "{uses: actions/setup-go@v6, with: {go-version-file: go.mod}}",
    build: "go mod tidy && go build",
    check: "go vet && go test",
    command: "./provider-my-cloud",
    log_level: "LOG_LEVEL",
    files: files!("go/":
        "go.mod",
        "main.go",
        "instances.go",
        "instances_test.go",
        "Containerfile",
        ".gitignore" from "ignore",
        ".dockerignore" from "ignore"),
};

pub(super) const PYTHON: Template = Template {
    title: "Python",
    setup: r#"{uses: actions/setup-python@v6, with: {python-version: "3.13"}}"#,
    build: "python3 -m venv .venv && .venv/bin/pip install --editable '.[dev]'",
    check: ". .venv/bin/activate && ruff check && ruff format --check && mypy && pytest",
    command: ".venv/bin/provider-my-cloud",
    log_level: "LOG_LEVEL",
    files: files!("python/":
        "pyproject.toml",
        "src/provider_my_cloud/__init__.py",
        "src/provider_my_cloud/main.py",
        "src/provider_my_cloud/machines.py",
        "tests/test_machines.py",
        "Containerfile",
        ".gitignore" from "ignore",
        ".dockerignore" from "ignore"),
};

pub(super) const TYPESCRIPT: Template = Template {
    title: "TypeScript",
    setup: "{uses: actions/setup-node@v6, with: {node-version: 22}}",
    build: "npm install && npm run build",
    check: "npm test",
    command: "node, dist/src/main.js",
    log_level: "LOG_LEVEL",
    files: files!("typescript/":
        "package.json",
        "tsconfig.json",
        "eslint.config.js",
        "src/main.ts",
        "src/instances.ts",
        "src/cloud.ts",
        "test/instances.test.ts",
        "Containerfile",
        ".gitignore" from "ignore",
        ".dockerignore" from "ignore"),
};

pub(super) const JAVA: Template = Template {
    title: "Java",
    setup: "{uses: actions/setup-java@v5, with: {distribution: temurin, java-version: 21, cache: maven}}",
    build: "mvn --quiet -DskipTests package",
    check: "mvn --quiet verify",
    command: "java, -jar, target/provider-my-cloud.jar",
    log_level: "LOG_LEVEL",
    files: files!("java/":
        "pom.xml",
        "src/main/java/provider/Main.java",
        "src/main/java/provider/Machines.java",
        "src/test/java/provider/MachinesTest.java",
        "Containerfile",
        ".gitignore" from "ignore",
        ".dockerignore" from "ignore"),
};
