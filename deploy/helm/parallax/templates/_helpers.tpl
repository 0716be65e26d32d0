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
{{- fail "config.topics: name the topics, e.g. {include: [orders]} or {pattern: \"[^_].*\"}" -}}
{{- end -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository: name where you keep what deploy/image/build.sh has built" -}}
{{- end -}}
{{- include "parallax.refuse" . -}}
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

{{- /* Where the tables are: "data" is the volume, "remote" an object store, "extra" a volume of the user's own. */ -}}
{{- define "parallax.storage" -}}
{{- $path := (.Values.config.storage | default dict).path | default "/data" -}}
{{- if and (contains "://" $path) (not (hasPrefix "file:" $path)) -}}
remote
{{- else -}}
{{- $folder := printf "%s/" (regexReplaceAll "^file:(//)?" $path "" | clean) -}}
{{- $found := "" -}}
{{- range .Values.extraVolumeMounts -}}
{{- if hasPrefix (printf "%s/" (clean .mountPath)) $folder -}}{{- $found = "extra" -}}{{- end -}}
{{- end -}}
{{- if $found -}}
{{- $found -}}
{{- else if hasPrefix "/data/" $folder -}}
data
{{- else -}}
{{- fail (printf "config.storage.path: %s is on no volume, and all but volumes is read-only; leave it out (it is /data then), or give a path below /data or below the mountPath of an extraVolumeMounts, or s3a://bucket/prefix" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails where values contradict each other, or would put a secret into a ConfigMap. */ -}}
{{- define "parallax.refuse" -}}
{{- $values := .Values -}}
{{- $config := .Values.config -}}
{{- $alerting := $config.alerting | default dict -}}
{{- $_ := include "parallax.storage" . -}}
{{- $kept := "the settings are in a ConfigMap; put it into a Secret (existingSecret) and name its file by" -}}
{{- range $name, $_ := $config.kafka -}}
{{- if regexMatch "(?i)(password|secret|jaas\\.config|key\\.pem)$" $name -}}
{{- fail (printf "config.kafka.%s: %s config.kafka_files, e.g. {%s: /etc/parallax/secret/%s}" $name $kept $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := ($config.spark | default dict).conf -}}
{{- if regexMatch "(?i)(password|secret|token|access\\.key|account\\.key)" $name -}}
{{- fail (printf "config.spark.conf.%s: the settings are in a ConfigMap; give the store's credentials by extraEnvFrom with a Secret (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), or by a role of serviceAccount.annotations" $name) -}}
{{- end -}}
{{- end -}}
{{- if ($config.read | default dict).hash_key -}}
{{- fail (printf "config.read.hash_key: %s config.read.hash_key_file" $kept) -}}
{{- end -}}
{{- if $alerting.heartbeat_url -}}
{{- fail (printf "config.alerting.heartbeat_url: %s config.alerting.heartbeat_url_file" $kept) -}}
{{- end -}}
{{- range $number, $hook := $alerting.webhooks -}}
{{- range $name := list "url" "secret" "routing_key" -}}
{{- if get $hook $name -}}
{{- fail (printf "config.alerting.webhooks.%d.%s: %s %s_file" $number $name $kept $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $mounted := list -}}
{{- range $values.extraVolumeMounts -}}{{- $mounted = append $mounted (clean .mountPath) -}}{{- end -}}
{{- $named := toJson (list $config $values.extraEnv) -}}
{{- range $value, $folder := dict "existingSecret" "/etc/parallax/secret" "clusterCASecret" "/etc/parallax/cluster-ca" -}}
{{- if and (contains (printf "%s/" $folder) $named) (not (get $values $value)) (not (has $folder $mounted)) -}}
{{- fail (printf "%s: a file below %s is named, where it would be mounted; name the Secret" $value $folder) -}}
{{- end -}}
{{- end -}}
{{- range $path := list "/data" "/tmp" "/etc/parallax/parallax.yaml" -}}
{{- if has $path $mounted -}}
{{- fail (printf "extraVolumeMounts: the chart itself mounts something at %s; choose another mountPath (for a claim of your own at /data: persistence.existingClaim)" $path) -}}
{{- end -}}
{{- end -}}
{{- range $values.extraVolumes -}}
{{- if has .name (list "data" "tmp" "config" "secret" "cluster-ca") -}}
{{- fail (printf "extraVolumes: the chart itself has a volume named %s; choose another name" .name) -}}
{{- end -}}
{{- end -}}
{{- range $values.extraEnv -}}
{{- if regexMatch "^PARALLAX_(ALERTING|STORAGE|ALERTING__METRICS_(HOST|PORT)|ALERTING__TLS_CERTIFICATE_FILE|STORAGE__PATH)$" (upper .name) -}}
{{- fail (printf "extraEnv: %s sets what the chart sets or goes by; leave it out, and use config" .name) -}}
{{- end -}}
{{- end -}}
{{- $context := mergeOverwrite dict (deepCopy ($values.podSecurityContext | default dict)) (deepCopy ($values.securityContext | default dict)) -}}
{{- if and $context.runAsNonRoot (hasKey $context "runAsUser") (eq (int64 $context.runAsUser) 0) -}}
{{- fail "podSecurityContext.runAsUser: 0 is root, and runAsNonRoot is set; give another user, or leave runAsUser at 10001" -}}
{{- end -}}
{{- end -}}

{{- /* A quantity, which may be a number; no number is written with an exponent. */ -}}
{{- define "parallax.quantity" -}}
{{- if kindIs "string" . -}}{{- . -}}{{- else -}}{{- int64 . -}}{{- end -}}
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
