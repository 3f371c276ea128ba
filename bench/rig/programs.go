// This file builds the programs of a run.

package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs of the bench itself, which a run builds where it needs them.
const (
	UpstreamProgram = "./cmd/upstream"
	ProviderProgram = "./cmd/provider"
)

// programs are the paths of all that the bench starts.
type programs struct{ upstream, provider, controller, mock, testbed string }

// build makes the programs of a run in dir, the Rust ones optimised. With a folder of Rust programs, it takes those.
func build(ctx context.Context, binaries, dir string, commands []string) (programs, error) {
	root, err := repository()
	if err != nil {
		return programs{}, err
	}
	if binaries == "" {
		binaries, err = cargo(ctx, root)
		if err != nil {
			return programs{}, err
		}
	}
	for _, command := range commands {
		Note("building %s", command)
		if err := run(ctx, filepath.Join(root, "bench"), "go", "build", "-o", dir+"/", command); err != nil {
			return programs{}, err
		}
	}
	paths := programs{
		upstream: filepath.Join(dir, "upstream"), provider: filepath.Join(dir, "provider"),
		controller: filepath.Join(binaries, "cloud-controller-manager"), mock: filepath.Join(binaries, "provider-mock"),
		testbed: filepath.Join(binaries, "outrigger-testbed"),
	}
	for _, path := range []string{paths.controller, paths.mock, paths.testbed} {
		if _, err := os.Stat(path); err != nil {
			return programs{}, fmt.Errorf("%w; leave --binaries out to build it", err)
		}
	}
	return paths, nil
}

// cargo builds the Rust programs and returns their folder.
func cargo(ctx context.Context, root string) (string, error) {
	Note("building the controller, the mock and the testbed; a first build takes some minutes")
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = filepath.Join(root, "target")
	}
	err := run(ctx, root, "cargo", "build", "--release", "--locked", "--target-dir", target,
		"--bin", "cloud-controller-manager", "--bin", "provider-mock", "--bin", "outrigger-testbed")
	return filepath.Join(target, "release"), err
}

// run runs a tool with its output on standard error.
func run(ctx context.Context, dir, name string, arguments ...string) error {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Stdout, command.Stderr = dir, os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, arguments[0], err)
	}
	return nil
}

// repository is the folder of the whole project, from the working directory upwards.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bench", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in the repository of Outrigger", start)
		}
	}
}
