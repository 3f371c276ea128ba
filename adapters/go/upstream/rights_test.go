package upstream

import (
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// restrictVendor gives the vendor's program no rights but those of its own code and those that deploy/rights has for
// its election.
func (s *stage) restrictVendor() {
	s.t.Helper()
	const name = "example-provider"
	file, err := os.ReadFile("../../../deploy/rights/provider.yaml")
	s.must(err)
	role, _, _ := strings.Cut(string(file), "---\n")
	var election rbacv1.Role
	s.must(yaml.UnmarshalStrict([]byte(role), &election))
	meta := metav1.ObjectMeta{Name: name}
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	ctx, rbac, options := s.t.Context(), s.client.RbacV1(), metav1.CreateOptions{}
	_, err = rbac.Roles(election.Namespace).Create(ctx, &election, options)
	s.must(err)
	_, err = rbac.RoleBindings(election.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: election.Name},
	}, options)
	s.must(err)
	_, err = rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}, options)
	s.must(err)
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, options)
	s.must(err)
	access, err := clientcmd.LoadFromFile(s.kubeconfig)
	s.must(err)
	for _, user := range access.AuthInfos {
		user.Impersonate = name
	}
	s.vendor = filepath.Join(s.t.TempDir(), "kubeconfig")
	s.must(clientcmd.WriteToFile(*access, s.vendor))
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
