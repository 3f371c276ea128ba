{{- /* Values that do not fit together end the rendering with one sentence. */ -}}
{{- define "outrigger.checks" -}}
{{- $provider := .Values.provider.image -}}
{{- $runs := ne .Values.kind "Rights" -}}
{{- if and $runs (not $provider.repository) -}}
{{- fail "provider.image.repository is empty: name the image of your cloud's provider" -}}
{{- end -}}
{{- if and $runs (not (or $provider.tag $provider.digest)) -}}
{{- fail "provider.image.tag and provider.image.digest are empty: set one of them" -}}
{{- end -}}
{{- if eq (int .Values.controller.user) (int .Values.provider.user) -}}
{{- fail "controller.user and provider.user are the same: give each container a user of its own" -}}
{{- end -}}
{{- $several := or (not (has .Values.kind (list "Deployment" "Rights"))) (gt (int .Values.replicas) 1) -}}
{{- if and (not .Values.leaderElection.enabled) $several -}}
{{- fail "leaderElection.enabled is false: this needs kind=Deployment with replicas=1" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (eq (int .Values.webhook.port) (int .Values.httpsPort)) -}}
{{- fail "webhook.port and httpsPort are the same: give each server a port of its own" -}}
{{- end -}}
{{- /* A flag counts where it stands last: one in controller.args would contradict what the rest of the chart follows. */ -}}
{{- $values := dict "cluster-name" "clusterName" "cluster-uid" "clusterUID" "cluster-cidr" "clusterCIDR" "controllers" "loops" "allocate-node-cidrs" "loops.nodeIpam" "node-deletion-enabled" "nodeDeletion" "leader-elect" "leaderElection.enabled" "leader-elect-resource-name" "leaderElection.leaseName" "leader-elect-resource-namespace" "leaderElection.leaseNamespace" "kubeconfig" "controller.kubeconfig" "provider-user" "provider.user" "provider-effect-prefixes" "provider.effectPrefixes" "secure-port" "httpsPort" "webhooks" "webhook.enabled" "webhook-secure-port" "webhook.port" "shutdown-grace-period" "controller.shutdownGraceSeconds" -}}
{{- if .Values.httpsTlsSecret -}}
{{- $values = merge $values (dict "tls-cert-file" "httpsTlsSecret" "tls-private-key-file" "httpsTlsSecret") -}}
{{- end -}}
{{- if .Values.webhook.enabled -}}
{{- $values = merge $values (dict "webhook-tls-cert-file" "webhook.tlsSecret" "webhook-tls-private-key-file" "webhook.tlsSecret") -}}
{{- end -}}
{{- if or .Values.webhook.clientCA.configMap .Values.webhook.clientCA.secret -}}
{{- $values = merge $values (dict "webhook-client-ca-file" "webhook.clientCA") -}}
{{- end -}}
{{- range .Values.controller.args -}}
{{- $flag := . | toString | trimPrefix "--" | splitList "=" | first | replace "_" "-" -}}
{{- with get $values $flag -}}
{{- fail (printf "controller.args has --%s: set %s instead, since rights, ports and the rollout follow from it" $flag .) -}}
{{- end -}}
{{- end -}}
{{- /* The controller reads flags from its environment too. */ -}}
{{- range .Values.controller.env -}}
{{- if or (hasPrefix "OUTRIGGER_" .name) (eq "CLOUDPROVIDER_ENDPOINT" .name) -}}
{{- fail (printf "controller.env has %s, which stands for a flag: give the flag in controller.args" .name) -}}
{{- end -}}
{{- end -}}
{{- /* Services, the PodDisruptionBudget and the NetworkPolicy find the Pod by these. */ -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- if has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component") -}}
{{- fail (printf "podLabels has %s, which the chart sets, since objects select the Pod by it: give the label another name" $key) -}}
{{- end -}}
{{- end -}}
{{- range .Values.volumes -}}
{{- if has .name (list "socket" "token" "kubeconfig" "https-certificate" "webhook-certificate" "webhook-clients") -}}
{{- fail (printf "volumes has %s, which the chart makes: give the volume another name" .name) -}}
{{- end -}}
{{- end -}}
{{- /* YAML would read true, null or 1e3 as something else. */ -}}
{{- $name := include "outrigger.name" . -}}
{{- if not (kindIs "string" (get (fromYaml (print "name: " $name)) "name")) -}}
{{- fail (printf "the name of all objects is %s, which YAML takes for no text: set fullnameOverride" $name) -}}
{{- end -}}
{{- $kubeconfig := .Values.controller.kubeconfig -}}
{{- if and $kubeconfig.path $kubeconfig.secret -}}
{{- fail "controller.kubeconfig.path and controller.kubeconfig.secret are set: set one of them" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (or $kubeconfig.secret (not $runs)) -}}
{{- fail "webhook.enabled is for a controller in the cluster that it serves: the API server of another one would not reach its Service" -}}
{{- end -}}
{{- with .Values.webhook -}}
{{- if and .tlsSecret (not .caBundle) (not .annotations) -}}
{{- fail "webhook.tlsSecret needs webhook.caBundle, or webhook.annotations by which cert-manager fills in the CA: the API server would refuse the certificate" -}}
{{- end -}}
{{- if and .caBundle (not .tlsSecret) -}}
{{- fail "webhook.caBundle is for the certificate of webhook.tlsSecret: set that, too" -}}
{{- end -}}
{{- end -}}
{{- $code := .Values.provider -}}
{{- if and $code.rules (not $code.serviceAccountToken) -}}
{{- fail "provider.rules are for a provider with the Pod's token: set provider.serviceAccountToken, too" -}}
{{- end -}}
{{- if and $code.serviceAccountToken (include "outrigger.kubeconfig" .) -}}
{{- fail "provider.serviceAccountToken needs a ServiceAccount, and controller.kubeconfig takes its place: give the provider a kubeconfig by volumes and provider.args" -}}
{{- end -}}
{{- if and $code.leaseName (eq $code.leaseName .Values.leaderElection.leaseName) -}}
{{- fail "provider.leaseName is leaderElection.leaseName: the controller and the provider would keep each other from leading" -}}
{{- end -}}
{{- if and $code.leaseName $code.probe (not $code.healthPort) -}}
{{- fail "provider.leaseName leaves the provider of a standby without a socket, and provider.probe would have it restarted: set provider.healthPort, or provider.probe=[]" -}}
{{- end -}}
{{- if and $code.healthPort (or (eq (int $code.healthPort) (int .Values.httpsPort)) (and .Values.webhook.enabled (eq (int $code.healthPort) (int .Values.webhook.port)))) -}}
{{- fail "provider.healthPort is a port of the controller: give each server a port of its own" -}}
{{- end -}}
{{- $clientCA := .Values.webhook.clientCA -}}
{{- if and $clientCA.configMap $clientCA.secret -}}
{{- fail "webhook.clientCA.configMap and webhook.clientCA.secret are set: set one of them" -}}
{{- end -}}
{{- if and (or .Values.loops.nodeIpam .Values.loops.nodeRoute) (not .Values.clusterCIDR) -}}
{{- fail "loops.nodeIpam and loops.nodeRoute need clusterCIDR" -}}
{{- end -}}
{{- if eq .Values.kind "StaticPod" -}}
{{- if not (include "outrigger.kubeconfig" .) -}}
{{- fail "kind=StaticPod needs controller.kubeconfig.path: a static Pod has no ServiceAccount" -}}
{{- end -}}
{{- if or $kubeconfig.secret .Values.webhook.tlsSecret .Values.httpsTlsSecret $clientCA.configMap $clientCA.secret -}}
{{- fail "kind=StaticPod mounts no Secret and no ConfigMap: leave controller.kubeconfig.secret, httpsTlsSecret, webhook.tlsSecret and webhook.clientCA empty, or give files by controller.args and volumes" -}}
{{- end -}}
{{- end -}}
{{- if and $kubeconfig.secret (not .Values.clusterUID) -}}
{{- fail "controller.kubeconfig.secret needs clusterUID: the administrator of the cluster that is served would choose that of kube-system (docs/hosted.md)" -}}
{{- end -}}
{{- end -}}
