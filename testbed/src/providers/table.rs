//! The table.

use super::{Cloud, Conformance, Makes, Provider, Step};

const GO: &str = "Go 1.26 or newer";

/// A provider of instances and load balancers that is one process and names no machines.
pub(super) const PLAIN: Provider = Provider {
    name: "",
    requires: "",
    steps: &[],
    cloud: None,
    start: &[],
    effect_prefixes: &[],
    conformance: None,
    machine: None,
    routes: false,
    provided_ips: false,
    is_mock: false,
};

const fn conformance(inputs: &'static str) -> Conformance {
    Conformance {
        inputs,
        waivers: None,
        machines: &[],
    }
}

/// All providers of this repository.
pub static PROVIDERS: &[Provider] = &[
    Provider {
        name: "mock",
        requires: "Rust",
        start: &[
            "provider-mock",
            "serve",
            "--synthesize-instances",
            "--routes",
            "--csi-driver=disk.mock.example",
            "--latency=20ms",
        ],
        conformance: Some(conformance("conformance/examples/mock.yaml")),
        routes: true,
        provided_ips: true,
        is_mock: true,
        ..PLAIN
    },
    // Upstream's fake behind the adapter.
    Provider {
        name: "go",
        requires: GO,
        steps: &[Step {
            action: "building adapters/go/examples/fake",
            folder: "adapters/go",
            command: &[
                "go",
                "build",
                "-o",
                "../../target/providers/go/",
                "./examples/fake",
            ],
            makes: None,
        }],
        start: &["env", "FAKE_MACHINES={nodes}", "target/providers/go/fake"],
        effect_prefixes: &["fake.example/load-balancer-id"],
        conformance: Some(Conformance {
            inputs: "adapters/go/examples/fake/conformance.yaml",
            waivers: Some("adapters/go/examples/fake/waivers.yaml"),
            machines: &[],
        }),
        routes: true,
        ..PLAIN
    },
    Provider {
        name: "digitalocean",
        requires: GO,
        steps: &[Step {
            action: "building providers/digitalocean and the fake of its API",
            folder: "providers/digitalocean",
            command: &[
                "go",
                "build",
                "-o",
                "../../target/providers/digitalocean/",
                ".",
                "./cmd/fake-digitalocean",
            ],
            makes: None,
        }],
        cloud: Some(Cloud {
            command: &[
                "sh",
                "-c",
                "exec target/providers/digitalocean/fake-digitalocean --token a-token-that-no-text-may-have \
                 --droplets {nodes} --provisioning \"${PROVISIONING:-0s}\"",
            ],
            port: 8780,
        }),
        start: &[
            "env",
            "DIGITALOCEAN_ACCESS_TOKEN=a-token-that-no-text-may-have",
            "target/providers/digitalocean/digitalocean",
            "--region=nyc3",
            "--api-url=http://127.0.0.1:8780",
        ],
        effect_prefixes: &["kubernetes.digitalocean.com/load-balancer-id"],
        conformance: Some(Conformance {
            inputs: "providers/digitalocean/conformance/inputs.yaml",
            waivers: None,
            machines: &["worker-1", "worker-2", "stopped-1=off"],
        }),
        ..PLAIN
    },
    Provider {
        name: "python",
        requires: "Python 3.11 or newer, with venv",
        steps: &[
            Step {
                action: "making a virtual environment for examples/python",
                folder: ".",
                command: &["python3", "-m", "venv", "target/providers/python"],
                makes: Some(Makes {
                    file: "target/providers/python/bin/pip",
                    from: &[],
                }),
            },
            Step {
                action: "installing examples/python, and generating the code of the contract",
                folder: ".",
                command: &[
                    "target/providers/python/bin/pip",
                    "install",
                    "--disable-pip-version-check",
                    "--editable",
                    "examples/python",
                ],
                makes: Some(Makes {
                    file: "examples/python/src/cloudprovider/v1/py.typed",
                    from: &[
                        "target/providers/python/pyvenv.cfg",
                        "examples/python/pyproject.toml",
                        "examples/python/setup.py",
                        "proto",
                    ],
                }),
            },
        ],
        start: &[
            "target/providers/python/bin/python",
            "-m",
            "example_provider",
            "--synthesize-instances",
        ],
        conformance: Some(conformance("examples/python/conformance.yaml")),
        ..PLAIN
    },
    Provider {
        name: "node",
        requires: "Node.js 20.19 or newer, with npm",
        steps: &[
            Step {
                action: "installing the packages of sdk/typescript",
                folder: "sdk/typescript",
                command: &["npm", "ci", "--no-audit", "--no-fund"],
                makes: Some(Makes {
                    file: "sdk/typescript/node_modules/.package-lock.json",
                    from: &["sdk/typescript/package-lock.json"],
                }),
            },
            Step {
                action: "compiling sdk/typescript",
                folder: "sdk/typescript",
                command: &["npm", "run", "build"],
                makes: Some(Makes {
                    file: "sdk/typescript/dist/src/index.js",
                    from: &[
                        "sdk/typescript/node_modules/.package-lock.json",
                        "sdk/typescript/src",
                    ],
                }),
            },
            Step {
                action: "installing the packages of examples/node",
                folder: "examples/node",
                command: &["npm", "ci", "--no-audit", "--no-fund"],
                makes: Some(Makes {
                    file: "examples/node/node_modules/.package-lock.json",
                    from: &["examples/node/package-lock.json"],
                }),
            },
            Step {
                action: "compiling examples/node",
                folder: "examples/node",
                command: &["npm", "run", "build"],
                makes: Some(Makes {
                    file: "examples/node/dist/src/main.js",
                    from: &[
                        "examples/node/node_modules/.package-lock.json",
                        "examples/node/src",
                        "sdk/typescript/src",
                    ],
                }),
            },
        ],
        start: &["node", "examples/node/dist/src/main.js", "{nodes...}"],
        conformance: Some(conformance("examples/node/conformance.yaml")),
        ..PLAIN
    },
    // Its folder has a conformance run of its own, with two files of inputs.
    Provider {
        name: "aws",
        requires: "Go 1.26 or newer, and Python 3 with venv",
        steps: &[Step {
            action: "building providers/aws, and installing the simulated AWS (minutes the first time)",
            folder: ".",
            command: &["providers/aws/simulated/build"],
            makes: None,
        }],
        start: &[
            "sh",
            "-c",
            // The last instance is stopped.
            "SIMULATED_AWS_INSTANCES=$(($# + 1)) exec providers/aws/simulated/provider",
            "sh",
            "{nodes...}",
        ],
        machine: Some("ip-10-0-1-{number}.ec2.internal"),
        routes: true,
        ..PLAIN
    },
];
