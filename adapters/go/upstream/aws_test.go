package upstream

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// awsEnv names a folder for the build of AWS's program, which .ci/upstream keeps for the next run.
const awsEnv = "AWS_FOLDER"

// command runs a command in a folder and returns what it printed.
func command(t *testing.T, folder string, words ...string) string {
	t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Dir = folder
	var errors bytes.Buffer
	command.Stderr = &errors
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, &errors)
	}
	return string(output)
}

// buildAWS builds AWS's published cloud-controller-manager with two lines of its main changed.
func buildAWS(t *testing.T, folder string) (program string) {
	t.Helper()
	adapters, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	const main = "cmd/aws-cloud-controller-manager/main.go"
	published := strings.TrimSpace(command(t, "../../../providers/aws", "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/cloud-provider-aws"))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, folder, "cp", "-r", "--no-preserve=mode", published+"/pkg", published+"/cmd", published+"/go.mod", ".")

	source, err := os.ReadFile(filepath.Join(folder, main))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(
		"\t\"k8s.io/cloud-provider/app\"\n", "\t\"k8s.io/cloud-provider/app\"\n\t\"outrigger.dev/adapters/go/upstream\"\n",
		"app.DefaultInitFuncConstructors", "upstream.InitFuncConstructors",
	).Replace(string(source))
	if err := os.WriteFile(filepath.Join(folder, main), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	diff, _ := exec.Command("diff", "--unified=0", filepath.Join(published, main), filepath.Join(folder, main)).Output()
	t.Logf("%s", diff)
	if added, removed := strings.Count(string(diff), "\n+\t"), strings.Count(string(diff), "\n-\t"); added != 2 || removed != 1 {
		t.Fatalf("%d lines are added and %d removed", added, removed)
	}

	// The bench has built k8s.io of this version, which spares most of the build. The three modules have all sums.
	const bench = "../../../lab/bench"
	newest := strings.TrimSpace(command(t, bench, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/cloud-provider"))
	// The module's replacement is the same source at its new address, which not every proxy has.
	command(t, folder, "go", "mod", "edit", "-dropreplace=github.com/google/cel-go", "-require=k8s.io/cloud-provider@"+newest,
		"-require=outrigger.dev/adapters/go@v0.0.0", "-replace=outrigger.dev/adapters/go="+adapters,
		"-require=outrigger.dev/adapters/go/upstream@v0.0.0", "-replace=outrigger.dev/adapters/go/upstream="+adapters+"/upstream")
	sums := command(t, bench, "cat", filepath.Join(published, "go.sum"), adapters+"/upstream/go.sum", "go.sum")
	if err := os.WriteFile(filepath.Join(folder, "go.sum"), []byte(sums), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	program = filepath.Join(folder, "aws-cloud-controller-manager")
	command(t, folder, "go", "build", "-mod=mod", "-ldflags=-s -w", "-o", program, "./cmd/aws-cloud-controller-manager")
	t.Logf("built in %v", time.Since(begin))
	return program
}

func TestAWSsMainWithTwoLinesChanged(t *testing.T) {
	t.Parallel()
	folder := os.Getenv(awsEnv)
	if folder == "" {
		t.Skipf("%s is not set: .ci/upstream runs this test", awsEnv)
	}
	program := buildAWS(t, folder)
	s := newStage(t)
	simulated, err := filepath.Abs("../../../providers/aws/simulated/provider")
	if err != nil {
		t.Fatal(err)
	}
	pod := s.pod()
	pod.startProvider(simulated, []string{"SIMULATED_AWS_PROGRAM=" + program, "SIMULATED_AWS_PORT=8792"},
		"--cloud-provider=aws", "--leader-elect=false")
	pod.startController("--leader-elect=false")
	const name = "ip-10-0-1-1.ec2.internal"
	s.addNode(name)
	if id := s.initialised(name).Spec.ProviderID; !strings.HasPrefix(id, "aws:///") {
		t.Errorf("provider ID %q", id)
	}
	s.addService("web", nil)
	service, _ := s.served("web", time.Minute)
	t.Logf("Node %s is initialised, Service web has %s", name, service.Status.LoadBalancer.Ingress[0].Hostname)
}
