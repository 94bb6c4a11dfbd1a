{{- define "dragoman.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "dragoman.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "dragoman.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "dragoman.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dragoman.selector" -}}
app.kubernetes.io/name: {{ include "dragoman.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dragoman.labels" -}}
{{ include "dragoman.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "dragoman.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "dragoman.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "dragoman.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "dragoman.file" -}}
/etc/dragoman/config/{{ if .Values.configText }}config.toml{{ else }}config.yaml{{ end }}
{{- end -}}

{{/* The configuration: what is given, the API keys, and in a sidecar its server. */}}
{{- define "dragoman.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.apiKeys -}}
{{- $_ := required "apiKeys names an entry of a Secret: set secret, too" .Values.secret -}}
{{- $keys := dict "api_keys_enabled" true "api_keys_file" (printf "/etc/dragoman/secrets/%s" .Values.apiKeys) -}}
{{- $config = mergeOverwrite $config (dict "security" $keys) -}}
{{- end -}}
{{- if and (eq .Values.mode "sidecar") (not $config.upstreams) -}}
{{- $config = mergeOverwrite $config (dict "upstreams" (dict "server" (dict "url" .Values.server.url))) -}}
{{- end -}}
{{- $upstreams := $config.upstreams | required "there is no server: set config.upstreams.NAME.url" -}}
{{- $security := $config.security | default dict -}}
{{- $jwt := $security.jwt | default dict -}}
{{- $tls := $config.tls | default dict -}}
{{- if not (or $security.api_keys_enabled $jwt.issuer $security.allow_anonymous (has ($tls.client_auth | default "none") (list "optional" "required"))) -}}
{{- fail "nobody is asked who he is: set secret and apiKeys, or config.security.jwt.issuer, or config.security.allow_anonymous if something in front asks" -}}
{{- end -}}
{{ toYaml $config }}
{{- end -}}

{{/* The container, in both modes. */}}
{{- define "dragoman.container" -}}
name: dragoman
image: {{ include "dragoman.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, {{ include "dragoman.file" . }}]
env:
  - { name: DRAGOMAN_LISTEN, value: "0.0.0.0:{{ .Values.listen.port }}" }
  - { name: DRAGOMAN_ADMIN_LISTEN, value: "{{ ternary "0.0.0.0" "127.0.0.1" .Values.admin.expose }}:{{ .Values.admin.port }}" }
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - { name: mcp, containerPort: {{ .Values.listen.port }} }
  {{- if .Values.admin.expose }}
  - { name: admin, containerPort: {{ .Values.admin.port }} }
  {{- end }}
startupProbe:
  exec: { command: [dragoman, health, --live] }
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 30
readinessProbe:
  exec: { command: [dragoman, health{{ if eq .Values.readiness "live" }}, --live{{ end }}] }
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
livenessProbe:
  exec: { command: [dragoman, health, --live] }
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
{{- if and (eq .Values.mode "gateway") .Values.preStopSeconds }}
lifecycle:
  preStop: { sleep: { seconds: {{ .Values.preStopSeconds }} } }
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - { name: config, mountPath: /etc/dragoman/config, readOnly: true }
  {{- if .Values.secret }}
  - { name: secrets, mountPath: /etc/dragoman/secrets, readOnly: true }
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* What that container mounts. */}}
{{- define "dragoman.volumes" -}}
- name: config
  configMap: { name: {{ include "dragoman.fullname" . }} }
{{- if .Values.secret }}
- name: secrets
  secret: { secretName: {{ .Values.secret }}, defaultMode: 288 } # 0440
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
