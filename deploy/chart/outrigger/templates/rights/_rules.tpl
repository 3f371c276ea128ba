{{- /*
Rules by loop, with the least that each needs. deploy/rights is rendered from here, and the tests of
the controller run with exactly that.
*/ -}}
{{- define "outrigger.clusterRules" -}}
{{- $loops := .Values.loops -}}
# start
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
# stores
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- if $loops.cloudNode }}
# cloud-node
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}
{{- if $loops.cloudNodeLifecycle }}
# cloud-node-lifecycle
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch{{ if .Values.nodeDeletion }}, delete{{ end }}]
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}
{{- if $loops.serviceLb }}
# service-lb
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services/status]
  verbs: [patch]
{{- end }}
{{- if $loops.nodeIpam }}
# node-ipam
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, patch]
{{- end }}
{{- if $loops.nodeRoute }}
# node-route
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list]
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}
# all loops
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# HTTPS server
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
# explain
- nonResourceURLs: ["/explain/*"]
  verbs: [get]
{{- end -}}

{{- define "outrigger.leaseRules" -}}
# leader election
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .Values.leaderElection.leaseName | quote }}]
  verbs: [get, update, watch]
{{- end -}}

{{- define "outrigger.clientCARules" -}}
# HTTPS server
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [extension-apiserver-authentication]
  verbs: [get]
{{- end -}}

{{- /* A role and its binding: (dict "of" . "name" … "namespace" … "rules" …). */ -}}
{{- define "outrigger.role" -}}
{{- $kind := ternary "Role" "ClusterRole" (not (empty .namespace)) -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "outrigger.labels" .of | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "outrigger.labels" .of | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  {{- .subjects | default (include "outrigger.subjects" .of) | nindent 2 }}
{{ end -}}
