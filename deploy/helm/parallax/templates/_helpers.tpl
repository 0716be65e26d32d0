{{- define "parallax.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "parallax.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "parallax.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "parallax.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "parallax.selectorLabels" -}}
app.kubernetes.io/name: {{ include "parallax.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "parallax.labels" -}}
{{ include "parallax.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "parallax.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "parallax.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "parallax.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* parallax.yaml: what is given, with what the pod decides. */ -}}
{{- define "parallax.config" -}}
{{- if not (index (.Values.config.kafka | default dict) "bootstrap.servers") -}}
{{- fail "config.kafka.bootstrap.servers: name the brokers, e.g. my-cluster-kafka-bootstrap:9093" -}}
{{- end -}}
{{- if not .Values.config.topics -}}
{{- fail "config.topics: name the topics, e.g. {include: [orders]} or {pattern: \".*\"}" -}}
{{- end -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository: name where you keep what deploy/image/build.sh has built" -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- $storage := $config.storage | default dict -}}
{{- if not $storage.path -}}{{- $_ := set $storage "path" "/data" -}}{{- end -}}
{{- $_ := set $config "storage" $storage -}}
{{- $alerting := $config.alerting | default dict -}}
{{- $_ := set $alerting "metrics_host" "0.0.0.0" -}}
{{- $_ := set $alerting "metrics_port" 9464 -}}
{{- $_ := set $config "alerting" $alerting -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "parallax.probe" -}}
httpGet: {path: {{ .path }}, port: http, scheme: {{ .scheme }}}
{{ toYaml .times }}
{{- end -}}

{{- define "parallax.endpoint" -}}
port: http
path: /metrics
interval: {{ .interval }}
scheme: {{ .scheme | lower }}
{{- end -}}
