package main

import (
	"context"
	"path/filepath"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/bench/attack"
)

// victim is a controller that is attacked, with access to its HTTPS server by the API server's word.
type victim struct {
	title string
	// start also returns the port of the webhook, 0 without one.
	start func(g *rig, dir string) (*replica, int, error)
	// hasWebhook: it serves one.
	hasWebhook bool
}

var victims = []victim{
	{title: "upstream", start: func(g *rig, dir string) (*replica, int, error) {
		one, err := inProcess(delegated(g)...)(g, dir)
		return one, 0, err
	}},
	{title: "Outrigger", hasWebhook: true, start: withWebhook},
}

func delegated(g *rig) []string {
	return []string{"--authentication-kubeconfig=" + g.kubeconfig, "--authorization-kubeconfig=" + g.kubeconfig}
}

func withWebhook(g *rig, dir string) (*replica, int, error) {
	port, err := freePort()
	if err != nil {
		return nil, 0, err
	}
	socket := filepath.Join(dir, "provider.sock")
	provider, err := launch(dir, "provider", g.programs.mock, nil,
		"serve", "--endpoint", "unix://"+socket, "--csi-driver", attack.Driver, "--latency", g.options.latency.String())
	if err != nil {
		return nil, 0, err
	}
	flags := append(delegated(g), "--webhooks=persistentvolume-labels", "--webhook-bind-address=127.0.0.1",
		"--webhook-secure-port="+strconv.Itoa(port), "--webhook-cert-dir="+dir)
	one, err := besides(g, dir, provider, "unix://"+socket, mockCounters(socket+".ctl"), flags...)
	return one, port, err
}

// scraper makes a ServiceAccount that may see the metrics, and returns its token.
func (g *rig) scraper(ctx context.Context) (string, error) {
	const name = "scraper"
	meta := metav1.ObjectMeta{Name: name}
	accounts := g.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	if _, err := g.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	}
	if _, err := g.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}
