// This file builds the programs of a run.

package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Programs of the bench itself, which a run builds where it needs them.
const (
	UpstreamProgram = "./cmd/upstream"
	ProviderProgram = "./cmd/provider"
)

// programs are the paths of all that the bench starts.
type programs struct{ upstream, provider, controller, mock, linux, testbed, lab string }

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
		if err := run(ctx, filepath.Join(root, "lab", "bench"), "go", "build", "-o", dir+"/", command); err != nil {
			return programs{}, err
		}
	}
	paths := programs{
		upstream: filepath.Join(dir, "upstream"), provider: filepath.Join(dir, "provider"),
		controller: filepath.Join(binaries, "cloud-controller-manager"), mock: filepath.Join(binaries, "provider-mock"),
		linux: filepath.Join(binaries, "provider-linux"), testbed: filepath.Join(binaries, "outrigger-testbed"),
		lab: filepath.Join(binaries, "outrigger-lab"),
	}
	for _, path := range []string{paths.controller, paths.mock, paths.linux, paths.testbed, paths.lab} {
		if _, err := os.Stat(path); err != nil {
			return programs{}, fmt.Errorf("%w; leave --binaries out to build it", err)
		}
	}
	return paths, nil
}

// cargo builds the Rust programs and returns their folder.
func cargo(ctx context.Context, root string) (string, error) {
	Note("building the controller, the providers and the testbed; a first build takes some minutes")
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = filepath.Join(root, "target")
	}
	build := []string{"build", "--release", "--locked", "--workspace", "--target-dir", target, "--bin"}
	err := run(ctx, root, "cargo", append(build, "cloud-controller-manager", "--bin", "provider-mock", "--bin", "outrigger-testbed")...)
	if err == nil {
		err = run(ctx, filepath.Join(root, "lab"), "cargo", append(build, "provider-linux", "--bin", "outrigger-lab")...)
	}
	return filepath.Join(target, "release"), err
}

// Image is a server of Kubernetes' end-to-end tests: serve-hostname answers HTTP with the name of its Pod.
const (
	Image        = imagePrefix + "agnhost:" + imageVersion
	imagePrefix  = "registry.k8s.io/e2e-test-images/"
	imageVersion = "2.63.0"
)

// BuildImage builds the archive of Image.
func BuildImage(ctx context.Context) (archive string, err error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	Note("building the image of the Pods")
	output := filepath.Join(root, "target", "images")
	err = run(ctx, root, "lab/images/build", "--version", imageVersion, "--prefix", imagePrefix, "--output", output, "agnhost")
	return filepath.Join(output, "agnhost-"+imageVersion+"-"+runtime.GOARCH+".oci.tar"), err
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
		if _, err := os.Stat(filepath.Join(dir, "lab", "bench", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in the repository of Outrigger", start)
		}
	}
}
