{{- /* Name of all objects. */ -}}
{{- define "outrigger.name" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "outrigger.selector" -}}
app.kubernetes.io/name: outrigger
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "outrigger.labels" -}}
{{ include "outrigger.selector" . }}
app.kubernetes.io/component: cloud-controller-manager
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Reference of an image: (dict "image" … "tag" …). */ -}}
{{- define "outrigger.image" -}}
{{- $tag := .image.tag | default .tag -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ $tag }}
{{- end -}}
{{- end -}}

{{- define "outrigger.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "outrigger.name" .) -}}
{{- end -}}

{{- /* Path of the kubeconfig in the container; empty without one. */ -}}
{{- define "outrigger.kubeconfig" -}}
{{- with .Values.controller.kubeconfig -}}
{{- if .secret -}}
/etc/outrigger/kubeconfig/{{ .key }}
{{- else -}}
{{- .path -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Not empty: Pods of the controller run in this cluster, and are found by a Service. */ -}}
{{- define "outrigger.runsHere" -}}
{{- if has .Values.kind (list "Deployment" "DaemonSet" "None") -}}true{{- end -}}
{{- end -}}

{{- /* Not empty: this is the cluster that is served, so that the rights belong here. */ -}}
{{- define "outrigger.servesHere" -}}
{{- if or (eq .Values.kind "Rights") (and (include "outrigger.runsHere" .) (not .Values.controller.kubeconfig.secret)) -}}true{{- end -}}
{{- end -}}

{{- /* The subjects of each binding: the account, or the user of a kubeconfig. */ -}}
{{- define "outrigger.subjects" -}}
{{- if or (eq .Values.kind "Rights") (include "outrigger.kubeconfig" .) -}}
- kind: User
  apiGroup: rbac.authorization.k8s.io
  name: {{ .Values.controller.kubeconfig.user | quote }}
{{- else -}}
- kind: ServiceAccount
  name: {{ include "outrigger.serviceAccount" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}
{{- end -}}

{{- define "outrigger.webhook" -}}
{{ include "outrigger.name" . }}-webhook
{{- end -}}
