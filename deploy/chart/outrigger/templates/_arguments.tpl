{{- /* Flags of the controller that follow from the values, then those of controller.args. */ -}}
{{- define "outrigger.arguments" -}}
{{- $loops := .Values.loops -}}
{{- $controllers := list "*" -}}
{{- range $value, $name := dict "cloudNode" "cloud-node-controller" "cloudNodeLifecycle" "cloud-node-lifecycle-controller" "serviceLb" "service-lb-controller" "nodeRoute" "node-route-controller" -}}
{{- if not (get $loops $value) -}}
{{- $controllers = append $controllers (print "-" $name) -}}
{{- end -}}
{{- end -}}
{{- if $loops.persistentVolumeLabels -}}
{{- $controllers = append $controllers "persistentvolume-labels-controller" -}}
{{- end -}}
- --cluster-name={{ .Values.clusterName }}
- --controllers={{ join "," $controllers }}
{{- with .Values.clusterCIDR }}
- --cluster-cidr={{ . }}
{{- end }}
{{- if $loops.nodeIpam }}
- --allocate-node-cidrs
{{- end }}
{{- if not .Values.nodeDeletion }}
- --node-deletion-enabled=false
{{- end }}
{{- with .Values.leaderElection }}
{{- if .enabled }}
- --leader-elect-resource-namespace={{ .leaseNamespace }}
- --leader-elect-resource-name={{ .leaseName }}
{{- else }}
- --leader-elect=false
{{- end }}
{{- if .migration }}
- --enable-leader-migration
{{- end }}
{{- end }}
{{- if .Values.controllerAccounts }}
- --use-service-account-credentials
{{- end }}
{{- with .Values.controller.kubeconfig.path }}
- --kubeconfig={{ . }}
- --authentication-kubeconfig={{ . }}
- --authorization-kubeconfig={{ . }}
{{- end }}
- --secure-port={{ .Values.httpsPort }}
{{- if .Values.webhook.enabled }}
- --webhooks=persistentvolume-labels
- --webhook-secure-port={{ .Values.webhook.port }}
- --webhook-service={{ .Release.Namespace }}/{{ include "outrigger.webhook" . }}
{{- if .Values.webhook.tlsSecret }}
- --webhook-tls-cert-file=/etc/outrigger/webhook/tls.crt
- --webhook-tls-private-key-file=/etc/outrigger/webhook/tls.key
{{- end }}
{{- end }}
- --shutdown-grace-period={{ .Values.controller.shutdownGraceSeconds }}s
{{- range .Values.controller.args }}
- {{ . | quote }}
{{- end }}
{{- end -}}
