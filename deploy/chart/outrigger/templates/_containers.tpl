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
{{- $apiServer := include "outrigger.apiServer" . }}
{{- if or $apiServer .Values.controller.env }}
env:
  {{- with $apiServer }}
  {{- . | nindent 2 }}
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
  {{- if .Values.provider.leaseName }}
  # The provider of a standby does not serve.
  httpGet: {scheme: HTTPS, path: "/readyz?exclude=provider", port: https}
  {{- else }}
  httpGet: {scheme: HTTPS, path: /readyz, port: https}
  {{- end }}
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
  {{- if .Values.leaderElection.enabled }}
  - {name: leader-election, mountPath: /run/leader-election}
  {{- end }}
  {{- if .Values.controller.kubeconfig.secret }}
  - {name: kubeconfig, mountPath: /etc/outrigger/kubeconfig, readOnly: true}
  {{- else if .Values.controller.kubeconfig.path }}
  - {name: kubeconfig, mountPath: {{ .Values.controller.kubeconfig.path | quote }}, readOnly: true}
  {{- else }}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  {{- end }}
  {{- if .Values.httpsTlsSecret }}
  - {name: https-certificate, mountPath: /etc/outrigger/https, readOnly: true}
  {{- end }}
  {{- if .Values.webhook.enabled }}
  - {name: webhook-certificate, mountPath: /etc/outrigger/webhook, readOnly: true}
  {{- end }}
  {{- if and .Values.webhook.enabled (or .Values.webhook.clientCA.configMap .Values.webhook.clientCA.secret) }}
  - {name: webhook-clients, mountPath: /etc/outrigger/webhook-clients, readOnly: true}
  {{- end }}
  {{- with .Values.controller.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- /* Where the API server is, if not at the address of its Service. */ -}}
{{- define "outrigger.apiServer" -}}
{{- with .Values.controller.apiServer -}}
{{- if .host -}}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ .port | quote }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "outrigger.providerProbe" -}}
{{- if .Values.provider.healthPort -}}
httpGet: {scheme: HTTPS, path: /healthz, port: health}
{{- else if .Values.provider.probe -}}
exec:
  command: {{ toJson .Values.provider.probe }}
{{- end -}}
{{- end -}}

{{- define "outrigger.provider" -}}
name: provider
image: {{ include "outrigger.image" (dict "image" .Values.provider.image) | quote }}
imagePullPolicy: {{ .Values.provider.image.pullPolicy }}
{{- if .Values.provider.sidecar }}
restartPolicy: Always
{{- end }}
{{- range $key := list "command" "args" "envFrom" }}
{{- with get $.Values.provider $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- $apiServer := and .Values.provider.serviceAccountToken (include "outrigger.apiServer" .) }}
{{- if or $apiServer .Values.provider.env }}
env:
  {{- with $apiServer }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .Values.provider.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.provider.healthPort }}
ports:
  - name: health
    containerPort: {{ . }}
{{- end }}
{{- with include "outrigger.providerProbe" . }}
{{- if $.Values.provider.sidecar }}
# The controller starts once the provider answers; the cloud need not.
startupProbe:
  {{- . | nindent 2 }}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
{{- end }}
livenessProbe:
  {{- . | nindent 2 }}
  periodSeconds: 20
  timeoutSeconds: 5
{{- end }}
resources:
  {{- toYaml .Values.provider.resources | nindent 2 }}
securityContext:
  {{- include "outrigger.securityContext" .Values.provider.user | nindent 2 }}
volumeMounts:
  - {name: socket, mountPath: /run/outrigger}
  {{- if .Values.provider.serviceAccountToken }}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  {{- end }}
  {{- with .Values.provider.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
