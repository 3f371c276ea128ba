package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program under measurement, or one that the bench needs. Its output is in a file.
type process struct {
	command *exec.Cmd
	name    string
	log     string
	ended   chan struct{}
	// error of its end, once ended is closed.
	failure error
}

// launch starts a program that ends with the bench, however that ends.
func launch(dir, name, path string, environment []string, arguments ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	p.command = exec.Command(path, arguments...)
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() {
		p.failure = p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// hasEnded is an error with the end of the log if the process runs no more.
func (p *process) hasEnded() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended (%v); its log ends: %s", p.name, p.failure, tail(p.log))
	default:
		return nil
	}
}

// signal one that may have ended already.
func (p *process) signal(signal os.Signal) { _ = p.command.Process.Signal(signal) }

// gone waits until the process has ended, after a signal.
func (p *process) gone(ctx context.Context) error {
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.name, ctx.Err())
	}
}

// usage is the use of a running process so far.
type usage struct{ peakMiB, cpuSeconds float64 }

// usage reads the kernel's account. The peak that wait4 returns would include the bench itself, which the child was
// for a moment.
func (p *process) usage() (usage, error) {
	folder := filepath.Join("/proc", strconv.Itoa(p.command.Process.Pid))
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return usage{}, err
	}
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return usage{}, err
	}
	peak, err := peakKiB(string(status))
	if err != nil {
		return usage{}, fmt.Errorf("%s: %w", p.name, err)
	}
	ticks, err := cpuTicks(string(stat))
	if err != nil {
		return usage{}, fmt.Errorf("%s: %w", p.name, err)
	}
	return usage{peakMiB: peak / 1024, cpuSeconds: ticks / 100}, nil // USER_HZ is 100 on every Linux
}

func peakKiB(status string) (float64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			return strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		}
	}
	return 0, fmt.Errorf("the status of the process has no VmHWM")
}

// cpuTicks are the 14th and 15th field, user and system time; the second, a name, may have blanks.
func cpuTicks(stat string) (float64, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("the stat of the process has too few fields: %q", stat)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return user + system, err
}

// until asks again until the condition holds, the deadline of ctx passes or a process has ended.
func until(ctx context.Context, what string, alive []*process, condition func() bool) error {
	const interval = 10 * time.Millisecond
	for !condition() {
		for _, p := range alive {
			if err := p.hasEnded(); err != nil {
				return err
			}
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
	return nil
}

// tail is the end of a log, for errors.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(text[max(0, len(text)-most):])
}
