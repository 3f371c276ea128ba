{{- /* Flags of the controller that follow from the values, then those of controller.args. */ -}}
{{- define "outrigger.arguments" -}}
{{- $loops := .Values.loops -}}
{{- $controllers := list "*" -}}
{{- range $value, $name := dict "cloudNode" "cloud-node-controller" "cloudNodeLifecycle" "cloud-node-lifecycle-controller" "serviceLb" "service-lb-controller" "nodeRoute" "node-route-controller" -}}
{{- if not (get $loops $value) -}}
{{- $controllers = append $controllers (print "-" $name) -}}
{{- end -}}
{{- end -}}
{{- if $loops.nodeIpam -}}
{{- $controllers = append $controllers "node-ipam-controller" -}}
{{- end -}}
{{- if $loops.persistentVolumeLabels -}}
{{- $controllers = append $controllers "persistentvolume-labels-controller" -}}
{{- end -}}
{{- if $loops.kubeletServingApproving -}}
{{- $controllers = append $controllers "kubelet-serving-approving-controller" -}}
{{- end -}}
{{- $flags := list (print "--cluster-name=" .Values.clusterName) (print "--controllers=" (join "," $controllers)) -}}
{{- with .Values.clusterUID -}}
{{- $flags = append $flags (print "--cluster-uid=" .) -}}
{{- end -}}
{{- with .Values.clusterCIDR -}}
{{- $flags = append $flags (print "--cluster-cidr=" .) -}}
{{- end -}}
{{- if $loops.nodeIpam -}}
{{- $flags = append $flags "--allocate-node-cidrs" -}}
{{- end -}}
{{- if not .Values.nodeDeletion -}}
{{- $flags = append $flags "--node-deletion-enabled=false" -}}
{{- end -}}
{{- with .Values.leaderElection -}}
{{- if .enabled -}}
{{- $flags = append $flags (print "--leader-elect-resource-namespace=" .leaseNamespace) -}}
{{- $flags = append $flags (print "--leader-elect-resource-name=" .leaseName) -}}
{{- $flags = append $flags "--leader-elect-identity-file=/run/leader-election/identities" -}}
{{- else -}}
{{- $flags = append $flags "--leader-elect=false" -}}
{{- end -}}
{{- end -}}
{{- with include "outrigger.kubeconfig" . -}}
{{- $flags = concat $flags (list (print "--kubeconfig=" .) (print "--authentication-kubeconfig=" .) (print "--authorization-kubeconfig=" .)) -}}
{{- end -}}
{{- $flags = append $flags (printf "--provider-user=%d" (int64 .Values.provider.user)) -}}
{{- with .Values.provider.effectPrefixes -}}
{{- $flags = append $flags (print "--provider-effect-prefixes=" (join "," .)) -}}
{{- end -}}
{{- $flags = append $flags (print "--secure-port=" .Values.httpsPort) -}}
{{- if .Values.httpsTlsSecret -}}
{{- $flags = concat $flags (list "--tls-cert-file=/etc/outrigger/https/tls.crt" "--tls-private-key-file=/etc/outrigger/https/tls.key") -}}
{{- end -}}
{{- if .Values.webhook.enabled -}}
{{- $flags = concat $flags (list "--webhooks=persistentvolume-labels" (print "--webhook-secure-port=" .Values.webhook.port)) -}}
{{- $flags = concat $flags (list "--webhook-tls-cert-file=/etc/outrigger/webhook/tls.crt" "--webhook-tls-private-key-file=/etc/outrigger/webhook/tls.key") -}}
{{- if or .Values.webhook.clientCA.configMap .Values.webhook.clientCA.secret -}}
{{- $flags = append $flags "--webhook-client-ca-file=/etc/outrigger/webhook-clients/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- $flags = append $flags (printf "--shutdown-grace-period=%ds" (int .Values.controller.shutdownGraceSeconds)) -}}
{{- /* Quoted, so that no value begins a comment, a mapping or another flag. */ -}}
{{- range concat $flags .Values.controller.args }}
- {{ . | quote }}
{{- end }}
{{- end -}}
