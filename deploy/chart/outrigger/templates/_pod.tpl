{{- /* The spec of the Pod, whatever makes it. */ -}}
{{- define "outrigger.pod" -}}
{{- if not (include "outrigger.kubeconfig" .) -}}
serviceAccountName: {{ include "outrigger.serviceAccount" . | quote }}
{{ end -}}
# The token is mounted below, in the containers that need it.
automountServiceAccountToken: false
# A variable of a Service could be that of a flag.
enableServiceLinks: false
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
dnsPolicy: {{ .Values.dnsPolicy }}
# For calls in flight and their results, the webhook's preStop, and the provider's own end.
terminationGracePeriodSeconds: {{ add .Values.controller.shutdownGraceSeconds 5 (ternary 5 0 .Values.webhook.enabled) }}
securityContext:
  runAsNonRoot: true
  fsGroup: {{ .Values.socketGroup }}
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if ne .Values.kind "StaticPod" }}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else }}
  {{- include "outrigger.affinity" . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with concat .Values.tolerations .Values.extraTolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.provider.sidecar }}
initContainers:
  - {{ include "outrigger.provider" . | indent 4 | trim }}
{{- end }}
containers:
  - {{ include "outrigger.controller" . | indent 4 | trim }}
  {{- if not .Values.provider.sidecar }}
  - {{ include "outrigger.provider" . | indent 4 | trim }}
  {{- end }}
volumes:
  - name: socket
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- if .Values.leaderElection.enabled }}
  # Of the controller alone: which of its processes are dead.
  - name: leader-election
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- end }}
  {{- if .Values.controller.kubeconfig.secret }}
  - name: kubeconfig
    secret: {secretName: {{ .Values.controller.kubeconfig.secret | quote }}}
  {{- else if .Values.controller.kubeconfig.path }}
  - name: kubeconfig
    hostPath: {path: {{ .Values.controller.kubeconfig.path | quote }}, type: File}
  {{- else }}
  - name: token
    projected:
      sources:
        - serviceAccountToken: {path: token, expirationSeconds: 3607}
        - configMap:
            name: kube-root-ca.crt
            items: [{key: ca.crt, path: ca.crt}]
        - downwardAPI:
            items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
  {{- end }}
  {{- with .Values.httpsTlsSecret }}
  - name: https-certificate
    secret: {secretName: {{ . | quote }}}
  {{- end }}
  {{- if .Values.webhook.enabled }}
  - name: webhook-certificate
    secret: {secretName: {{ .Values.webhook.tlsSecret | default (include "outrigger.webhook" .) | quote }}}
  {{- with .Values.webhook.clientCA.configMap }}
  - name: webhook-clients
    configMap: {name: {{ . | quote }}}
  {{- end }}
  {{- with .Values.webhook.clientCA.secret }}
  - name: webhook-clients
    secret: {secretName: {{ . | quote }}, items: [{key: ca.crt, path: ca.crt}]}
  {{- end }}
  {{- end }}
  {{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "outrigger.affinity" -}}
{{- $controlPlane := dict "matchExpressions" (list (dict "key" "node-role.kubernetes.io/control-plane" "operator" "Exists")) -}}
nodeAffinity:
  {{- if eq .Values.kind "DaemonSet" }}
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - {{ toJson $controlPlane }}
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference: {{ toJson $controlPlane }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "outrigger.selector" . | nindent 12 }}
  {{- end }}
{{- end -}}
