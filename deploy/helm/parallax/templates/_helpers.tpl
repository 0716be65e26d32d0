{{- define "parallax.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "parallax.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = include "parallax.name" . -}}
{{- if contains $name .Release.Name -}}
{{- $name = .Release.Name -}}
{{- else -}}
{{- $name = printf "%s-%s" .Release.Name $name -}}
{{- end -}}
{{- end -}}
{{- $name = $name | trunc 52 | trimAll "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "fullnameOverride: %s is no name that a Service can have; give one of a-z, 0-9 and -, with a letter first" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "parallax.selectorLabels" -}}
{{- dict "app.kubernetes.io/name" (include "parallax.name" .) "app.kubernetes.io/instance" .Release.Name | toYaml -}}
{{- end -}}

{{- /* Labels of an object, of a list: the root, and labels of its own, each of which wins over the chart's. */ -}}
{{- define "parallax.labels" -}}
{{- $root := index . 0 -}}
{{- $chart := dict
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- $selected := include "parallax.selectorLabels" $root | fromYaml -}}
{{- merge $selected (index . 1 | default dict | deepCopy) ($root.Values.commonLabels | default dict | deepCopy) $chart | toYaml -}}
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

{{- /* Whether the tables are in an object store, and need no volume. */ -}}
{{- define "parallax.isRemote" -}}
{{- $path := (.Values.config.storage | default dict).path | default "" -}}
{{- if and (contains "://" $path) (not (hasPrefix "file:" $path)) -}}true{{- end -}}
{{- end -}}

{{- define "parallax.scheme" -}}
{{- ternary "HTTPS" "HTTP" (not (empty (.Values.config.alerting | default dict).tls_certificate_file)) -}}
{{- end -}}

{{- define "parallax.probe" -}}
httpGet: {path: {{ .path }}, port: http, scheme: {{ include "parallax.scheme" .root }}}
{{- with .times }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* How Prometheus reads the metrics, by podMonitor or serviceMonitor. */ -}}
{{- define "parallax.endpoint" -}}
{{- $alerting := .root.Values.config.alerting | default dict -}}
{{- if and $alerting.users (not .monitor.basicAuthSecret) -}}
{{- fail (printf "%s.basicAuthSecret: with config.alerting.users /metrics asks for a password; name a Secret with username and password" .name) -}}
{{- end -}}
{{- if and $alerting.tls_certificate_file (not .monitor.tlsConfig) -}}
{{- fail (printf "%s.tlsConfig: with config.alerting.tls_certificate_file Prometheus must know the authority (ca) and the name (serverName)" .name) -}}
{{- end -}}
port: http
path: /metrics
interval: {{ .monitor.interval | quote }}
scheme: {{ include "parallax.scheme" .root | lower }}
{{- with .monitor.basicAuthSecret }}
basicAuth:
  username: {name: {{ . | quote }}, key: username}
  password: {name: {{ . | quote }}, key: password}
{{- end }}
{{- with .monitor.tlsConfig }}
tlsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
