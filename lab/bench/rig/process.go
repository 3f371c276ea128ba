// This file runs programs, and reads the kernel's account of them.

package rig

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

// Process is a program under measurement, or one that the bench needs.
type Process struct {
	// Log is the path of the file with its output.
	Log string

	command *exec.Cmd
	name    string
	ended   chan struct{}
	// err is the error with which it ended, once ended is closed.
	err error
}

// start starts a program that ends with the bench, however that ends.
func start(dir, name, path string, environment []string, arguments ...string) (*Process, error) {
	p := &Process{name: name, Log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	output, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
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
		p.err = p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Ended is an error with the end of the log if the process no longer runs.
func (p *Process) Ended() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended (%v); its log ends: %s", p.name, p.err, tail(p.Log))
	default:
		return nil
	}
}

// Err is the error with which the process ended; call it after Wait.
func (p *Process) Err() error {
	if p.err == nil {
		return nil
	}
	return p.Ended()
}

// Signal sends a signal to a process that may have ended already.
func (p *Process) Signal(signal os.Signal) { _ = p.command.Process.Signal(signal) }

// Wait returns when the process has ended, or with an error when ctx has.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.name, ctx.Err())
	}
}

// Usage is what a process has used since its start.
type Usage struct{ PeakMiB, CPUSeconds float64 }

// Usage reads the kernel's account of a running process. The peak that wait4 returns would include the bench itself, which the
// child was for a moment.
func (p *Process) Usage() (Usage, error) { return usage(p.name, p.command.Process.Pid) }

func usage(name string, pid int) (Usage, error) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return Usage{}, err
	}
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return Usage{}, err
	}
	peak, err := peakKiB(string(status))
	if err != nil {
		return Usage{}, fmt.Errorf("%s: %w", name, err)
	}
	ticks, err := cpuTicks(string(stat))
	if err != nil {
		return Usage{}, fmt.Errorf("%s: %w", name, err)
	}
	return Usage{PeakMiB: peak / 1024, CPUSeconds: ticks / 100}, nil // USER_HZ is 100 on every Linux
}

// descendant is the process id of a program that this process, or one that it has started, has started.
func (p *Process) descendant(program string) (int, error) {
	parents := []string{strconv.Itoa(p.command.Process.Pid)}
	for len(parents) > 0 {
		lists, err := filepath.Glob(filepath.Join("/proc", parents[0], "task", "*", "children"))
		if err != nil {
			return 0, err
		}
		parents = parents[1:]
		for _, list := range lists {
			children, err := os.ReadFile(list)
			if err != nil {
				continue // that thread has ended
			}
			for child := range strings.FieldsSeq(string(children)) {
				name, err := os.ReadFile(filepath.Join("/proc", child, "comm"))
				if err == nil && strings.TrimSpace(string(name)) == program {
					return strconv.Atoi(child)
				}
				parents = append(parents, child)
			}
		}
	}
	return 0, fmt.Errorf("%s has not started %s", p.name, program)
}

// PeakMiB reads the peak of memory until the context or the process ends: a process that has ended no longer shows it.
func (p *Process) PeakMiB(ctx context.Context) float64 {
	var peak float64
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		usage, err := p.Usage()
		if err != nil {
			return peak
		}
		peak = max(peak, usage.PeakMiB)
		select {
		case <-ctx.Done():
			return peak
		case <-p.ended:
			return peak
		case <-ticker.C:
		}
	}
}

func peakKiB(status string) (float64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		}
	}
	return 0, fmt.Errorf("the status of the process has no VmHWM")
}

// cpuTicks adds the 14th and the 15th field, user and system time; the second field, a name, may have blanks.
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

// tail is the end of a log, for errors.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const limit = 2000
	return string(text[max(0, len(text)-limit):])
}
