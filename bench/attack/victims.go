// This file starts the controllers that are attacked, the upstream one and Outrigger, and creates the account that
// reads their metrics during the attack.

package attack

import (
	"context"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/bench/attack/flood"
	"outrigger.dev/bench/rig"
)

// victim is a controller that is attacked. Its HTTPS server lets the API server authenticate and authorize requests.
type victim struct {
	title string
	start rig.Starter
	// hasWebhook is true if the controller serves an admission webhook.
	hasWebhook bool
}

var victims = []victim{
	{title: "upstream", start: func(r *rig.Rig, dir string) (*rig.Replica, error) {
		return rig.InProcess(delegatedAuthFlags(r)...)(r, dir)
	}},
	{title: "Outrigger", hasWebhook: true, start: withWebhook},
}

func delegatedAuthFlags(r *rig.Rig) []string {
	return []string{"--authentication-kubeconfig=" + r.Kubeconfig, "--authorization-kubeconfig=" + r.Kubeconfig}
}

func withWebhook(r *rig.Rig, dir string) (*rig.Replica, error) {
	port, err := rig.FreePort()
	if err != nil {
		return nil, err
	}
	flags := append(delegatedAuthFlags(r), "--webhooks=persistentvolume-labels", "--webhook-bind-address=127.0.0.1",
		"--webhook-secure-port="+strconv.Itoa(port), "--webhook-cert-dir="+dir)
	replica, err := rig.WithMock([]string{"--csi-driver", flood.Driver}, flags)(r, dir)
	if err != nil {
		return nil, err
	}
	replica.WebhookPort = port
	return replica, nil
}

// scraper creates a ServiceAccount that may read the metrics, and returns its token.
func scraper(ctx context.Context, r *rig.Rig) (string, error) {
	const name = "scraper"
	meta := metav1.ObjectMeta{Name: name}
	accounts := r.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	if _, err := r.Client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
	}
	if _, err := r.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}
