package upstream

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"outrigger.dev/adapters/go/provider"
)

// programsEnv names the folder of this project's programs, with which whole-process tests run: .ci/upstream sets it.
const programsEnv = "OUTRIGGER_PROGRAMS"

// process is a program that a test has started.
type process struct {
	log     string
	command *exec.Cmd
	ended   chan struct{}
}

// start starts a program that ends with the test; environment is added to that of the test.
func start(t *testing.T, dir, name, path string, environment []string, arguments ...string) *process {
	t.Helper()
	p := &process{log: filepath.Join(dir, name+".log"), command: exec.Command(path, arguments...), ended: make(chan struct{})}
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			lines := strings.Split(p.text(), "\n")
			t.Logf("%s ends:\n%s", p.log, strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
	return p
}

// kill returns when the process and its children are gone.
func (p *process) kill() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

func (p *process) text() string {
	content, _ := os.ReadFile(p.log)
	return string(content)
}

// exit waits for the process to end by itself.
func (p *process) exit(t *testing.T, limit time.Duration) (code int) {
	t.Helper()
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%s does not end", p.command.Path)
		return 0
	}
}

// eventually calls done until it returns nothing, and fails the test with what it returned last.
func eventually(t *testing.T, limit time.Duration, done func() (missing string)) (took time.Duration) {
	t.Helper()
	begin := time.Now()
	for {
		missing := done()
		if missing == "" {
			return time.Since(begin)
		}
		if time.Since(begin) > limit {
			t.Fatalf("after %v: %s", limit, missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stage is an API server, and the programs that work with it.
type stage struct {
	t          *testing.T
	programs   string
	kubeconfig string
	// vendor is the kubeconfig of the provider.
	vendor string
	client kubernetes.Interface
}

func newStage(t *testing.T) *stage {
	t.Helper()
	programs := os.Getenv(programsEnv)
	if programs == "" {
		t.Skipf("%s is not set: .ci/upstream runs this test", programsEnv)
	}
	command := exec.Command(filepath.Join(programs, "outrigger-testbed"), "up")
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, programs: programs, kubeconfig: strings.TrimSpace(line)}
	s.vendor = s.kubeconfig
	access, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if s.client, err = kubernetes.NewForConfig(access); err != nil {
		t.Fatal(err)
	}
	return s
}

// pod is a provider and the controller beside it, as in one Pod.
type pod struct {
	*stage
	dir        string
	healthPort int
	provider   *process
	controller *process
}

func (s *stage) pod() *pod {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return &pod{stage: s, dir: s.t.TempDir(), healthPort: listener.Addr().(*net.TCPAddr).Port}
}

// waitHealthy asks /healthz, as the kubelet does.
func (p *pod) waitHealthy() {
	p.t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	eventually(p.t, time.Minute, func() string {
		response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/healthz", p.healthPort))
		if err != nil {
			return err.Error()
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return "/healthz answers " + response.Status
		}
		return ""
	})
}

func (p *pod) socket() string { return filepath.Join(p.dir, "provider.sock") }

func (p *pod) startController(arguments ...string) {
	p.t.Helper()
	arguments = append(arguments, "--kubeconfig="+p.kubeconfig, "--provider-endpoint=unix://"+p.socket(), "--secure-port=0",
		"--provider-effect-prefixes=example.test/")
	p.controller = start(p.t, p.dir, "controller", filepath.Join(p.programs, "cloud-controller-manager"), nil, arguments...)
}

// startProvider starts a vendor's cloud-controller-manager.
func (p *pod) startProvider(path string, environment []string, arguments ...string) {
	p.t.Helper()
	environment = append(environment, provider.EndpointEnv+"=unix://"+p.socket())
	arguments = append(arguments, "--kubeconfig="+p.vendor, fmt.Sprint("--secure-port=", p.healthPort))
	p.provider = start(p.t, p.dir, "provider", path, environment, arguments...)
}

// addNode registers a Node as its kubelet does.
func (s *stage) addNode(name string) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	if _, err := s.client.CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// initialised waits until a Node has its provider ID and no taint.
func (s *stage) initialised(name string) *corev1.Node {
	s.t.Helper()
	var node *corev1.Node
	eventually(s.t, time.Minute, func() string {
		var err error
		if node, err = s.client.CoreV1().Nodes().Get(s.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
				return name + " is tainted"
			}
		}
		if node.Spec.ProviderID == "" {
			return name + " has no provider ID"
		}
		return ""
	})
	return node
}

func (s *stage) addService(name string, annotations map[string]string) {
	s.t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	if _, err := s.client.CoreV1().Services("default").Create(s.t.Context(), service, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// served waits until a Service has an address, and says how long it took.
func (s *stage) served(name string, limit time.Duration) (*corev1.Service, time.Duration) {
	s.t.Helper()
	var service *corev1.Service
	took := eventually(s.t, limit, func() string {
		var err error
		if service, err = s.client.CoreV1().Services("default").Get(s.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Sprintf("Service %s has no address", name)
		}
		return ""
	})
	return service, took
}
