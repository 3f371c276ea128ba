{{- /* Security context of a container: the user is the argument. */ -}}
{{- define "outrigger.securityContext" -}}
runAsUser: {{ . }}
runAsGroup: {{ . }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "outrigger.controller" -}}
name: controller
image: {{ include "outrigger.image" (dict "image" .Values.controller.image "tag" .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.controller.image.pullPolicy }}
args:
  {{- include "outrigger.arguments" . | trim | nindent 2 }}
{{- $host := .Values.controller.apiServer.host }}
{{- if or $host .Values.controller.env }}
env:
  {{- if $host }}
  - name: KUBERNETES_SERVICE_HOST
    value: {{ $host | quote }}
  - name: KUBERNETES_SERVICE_PORT
    value: {{ .Values.controller.apiServer.port | quote }}
  {{- end }}
  {{- with .Values.controller.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
ports:
  - name: https
    containerPort: {{ .Values.httpsPort }}
  {{- if .Values.webhook.enabled }}
  - name: webhook
    containerPort: {{ .Values.webhook.port }}
  {{- end }}
livenessProbe:
  httpGet: {scheme: HTTPS, path: /livez, port: https}
  periodSeconds: 10
  timeoutSeconds: 15
  failureThreshold: 8
readinessProbe:
  httpGet: {scheme: HTTPS, path: /readyz, port: https}
  periodSeconds: 5
{{- if .Values.webhook.enabled }}
lifecycle:
  preStop:
    # The Service forgets the Pod before the port is closed.
    sleep: {seconds: 5}
{{- end }}
resources:
  {{- toYaml .Values.controller.resources | nindent 2 }}
securityContext:
  {{- include "outrigger.securityContext" .Values.controller.user | nindent 2 }}
volumeMounts:
  - {name: socket, mountPath: /run/outrigger}
  {{- if .Values.controller.kubeconfig.path }}
  - {name: kubeconfig, mountPath: {{ .Values.controller.kubeconfig.path | quote }}, readOnly: true}
  {{- else }}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  {{- end }}
  {{- if .Values.httpsTlsSecret }}
  - {name: https-certificate, mountPath: /etc/outrigger/https, readOnly: true}
  {{- end }}
  {{- if and .Values.webhook.enabled .Values.webhook.tlsSecret }}
  - {name: webhook-certificate, mountPath: /etc/outrigger/webhook, readOnly: true}
  {{- end }}
  {{- if and .Values.webhook.enabled (or .Values.webhook.clientCA.configMap .Values.webhook.clientCA.secret) }}
  - {name: webhook-clients, mountPath: /etc/outrigger/webhook-clients, readOnly: true}
  {{- end }}
  {{- with .Values.controller.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "outrigger.provider" -}}
name: provider
image: {{ include "outrigger.image" (dict "image" .Values.provider.image) | quote }}
imagePullPolicy: {{ .Values.provider.image.pullPolicy }}
{{- if .Values.provider.sidecar }}
restartPolicy: Always
{{- end }}
{{- range $key := list "command" "args" "env" "envFrom" }}
{{- with get $.Values.provider $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.provider.probe }}
{{- if $.Values.provider.sidecar }}
# The controller starts once the provider answers; the cloud need not.
startupProbe:
  exec:
    command: {{ toJson . }}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
{{- end }}
livenessProbe:
  exec:
    command: {{ toJson . }}
  periodSeconds: 20
  timeoutSeconds: 5
{{- end }}
resources:
  {{- toYaml .Values.provider.resources | nindent 2 }}
securityContext:
  {{- include "outrigger.securityContext" .Values.provider.user | nindent 2 }}
volumeMounts:
  - {name: socket, mountPath: /run/outrigger}
  {{- with .Values.provider.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
