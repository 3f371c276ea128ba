// Package rig starts what the bench compares: one control plane with an audit log, and on it the controllers with their
// providers as processes, whose use of memory and CPU the kernel counts. It also has what all commands of the bench share: their
// flags, and the place of their results.
package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"outrigger.dev/bench/audit"
)

// Rig is the control plane of a run, and what the bench watches it with.
type Rig struct {
	// Client is an administrator's, without a limit of its rate.
	Client kubernetes.Interface
	// Nodes are those that the watch of the bench has shown.
	Nodes listers.NodeLister
	// Audit is the log of the API server.
	Audit *audit.Log
	// Kubeconfig is the path of an administrator's.
	Kubeconfig string

	session  *Session
	programs programs
	dir      string
	plane    *Process
	replicas int
	// unwatch ends the watch of the nodes, before its API server ends.
	unwatch func()
}

// newRig starts etcd and kube-apiserver, with an audit log, and machines if --nodes is the first of flags.
func newRig(ctx context.Context, session *Session, paths programs, dir string, flags []string) (*Rig, error) {
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(audit.Policy), 0o644); err != nil {
		return nil, err
	}
	program := paths.testbed
	if len(flags) > 0 && strings.HasPrefix(flags[0], "--nodes=") {
		program = paths.lab
	}
	flags = append([]string{
		"up", "--apiserver-arg=--audit-policy-file=" + policy, "--apiserver-arg=--audit-log-path=" + log,
		"--apiserver-arg=--audit-log-maxsize=100000",
	}, flags...)
	plane, err := start(dir, "testbed", program, nil, flags...)
	if err != nil {
		return nil, err
	}
	r := &Rig{
		session: session, programs: paths, dir: dir, plane: plane,
		unwatch: func() {},
	}
	if err := r.connect(ctx, log); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Rig) connect(ctx context.Context, log string) error {
	plane := []*Process{r.plane}
	err := Until(ctx, "the control plane", plane, func() (ready bool, err error) {
		text, err := os.ReadFile(r.plane.Log)
		r.Kubeconfig, ready = pathIn(string(text))
		return ready, err
	})
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		return fmt.Errorf("the kubeconfig that the testbed printed: %w", err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if r.Client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(r.Client, 0)
	nodes := factory.Core().V1().Nodes()
	informer := nodes.Informer()
	r.Nodes = nodes.Lister()
	watch, cancel := context.WithCancel(ctx)
	r.unwatch = func() { cancel(); factory.Shutdown() }
	factory.Start(watch.Done())
	err = Until(ctx, "the list of nodes", plane, func() (bool, error) { return informer.HasSynced(), nil })
	if err != nil {
		return err
	}
	r.Audit, err = audit.Open(log)
	return err
}

// pathIn is the first complete line that is a path: the testbed's progress is in the same log.
func pathIn(log string) (string, bool) {
	for line := range strings.Lines(log) {
		if path, complete := strings.CutSuffix(line, "\n"); complete && filepath.IsAbs(path) {
			return path, true
		}
	}
	return "", false
}

// Close ends the control plane; what it was started with has ended before or ends with the bench.
func (r *Rig) Close() {
	limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r.unwatch()
	r.plane.Signal(syscall.SIGTERM)
	if err := r.plane.Wait(limit); err != nil {
		r.plane.Signal(syscall.SIGKILL)
	}
}

// APIServer is what kube-apiserver has used since its start.
func (r *Rig) APIServer() (Usage, error) {
	const name = "kube-apiserver"
	pid, err := r.plane.descendant(name)
	if err != nil {
		return Usage{}, err
	}
	return usage(name, pid)
}

// Testbed runs a command of outrigger-testbed on the control plane and returns its output.
func (r *Rig) Testbed(ctx context.Context, arguments ...string) ([]byte, error) {
	return output(ctx, r.programs.testbed, append(arguments, "--kubeconfig", r.Kubeconfig)...)
}

// Lab runs a command of outrigger-lab on the control plane and returns its output.
func (r *Rig) Lab(ctx context.Context, arguments ...string) ([]byte, error) {
	return output(ctx, r.programs.lab, append(arguments, "--kubeconfig", r.Kubeconfig)...)
}

// Machine stops, starts or deletes a machine of the control plane's cloud of namespaces.
func (r *Rig) Machine(ctx context.Context, verb, name string) error {
	cloud, err := r.noted(cloudNote)
	if err == nil {
		_, err = output(ctx, r.programs.linux, "cloud", "machine", verb, "--cloud="+cloud, name)
	}
	return err
}

// The texts of the testbed before the name of its cloud, and before the socket of the cloud's provider.
const (
	cloudNote    = "machine list --cloud="
	endpointNote = "the provider listens at "
)

// noted is the word that follows a text of the testbed's output.
func (r *Rig) noted(text string) (string, error) {
	log, err := os.ReadFile(r.plane.Log)
	if err != nil {
		return "", err
	}
	_, rest, isThere := strings.Cut(string(log), text)
	if !isThere {
		return "", fmt.Errorf("the testbed has not said %q: it runs no machines", text)
	}
	return strings.Trim(strings.Fields(rest)[0], "`"), nil
}

// output runs a program to its end and returns what it printed.
func output(ctx context.Context, path string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, path, arguments...)
	var errs strings.Builder
	command.Stderr = &errs
	printed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(path), arguments[0], err, errs.String())
	}
	return printed, nil
}
