package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// programs are the paths of all that the bench starts.
type programs struct{ upstream, provider, controller, mock, testbed string }

// build makes the programs of a run, the Rust ones optimised. With a folder of Rust programs that exist, it takes
// those.
func build(ctx context.Context, chosen options, dir string) (programs, error) {
	binaries := chosen.binaries
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
	for _, one := range chosen.contestants {
		if one.command == "" {
			continue
		}
		note("building %s", one.command)
		if err := run(ctx, filepath.Join(root, "bench"), "go", "build", "-o", dir+"/", one.command); err != nil {
			return programs{}, err
		}
	}
	built := programs{
		upstream: filepath.Join(dir, "upstream"), provider: filepath.Join(dir, "provider"),
		controller: filepath.Join(binaries, "cloud-controller-manager"), mock: filepath.Join(binaries, "provider-mock"),
		testbed: filepath.Join(binaries, "outrigger-testbed"),
	}
	for _, path := range []string{built.controller, built.mock, built.testbed} {
		if _, err := os.Stat(path); err != nil {
			return programs{}, fmt.Errorf("%w; leave --binaries out to build it", err)
		}
	}
	return built, nil
}

// cargo builds the Rust programs and returns their folder.
func cargo(ctx context.Context, root string) (string, error) {
	note("building the controller, the mock and the testbed; a first build takes some minutes")
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
