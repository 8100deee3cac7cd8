{{- define "dlq.name" -}}{{ default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "dlq.fullname" -}}
{{- $name := include "dlq.name" . -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "dlq.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "dlq.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end -}}
{{- end }}

{{/* Only these labels select: those of a selector can never change. */}}
{{- define "dlq.release" -}}
app.kubernetes.io/name: {{ include "dlq.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "dlq.selector" -}}
{{ include "dlq.release" .root }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "dlq.labels" -}}
{{ include "dlq.release" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "dlq.image" -}}
{{- with .Values.image }}{{ if .registry }}{{ .registry }}/{{ end }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end }}

{{/* The files of secrets: by the key of the configuration, their paths. */}}
{{- define "dlq.files" -}}
{{- $files := dict -}}
{{- range $key, $_ := .Values.secretFiles }}{{ $_ := set $files $key (printf "/etc/dlq-manager-secrets/%s" $key) }}{{ end -}}
{{- if .Values.vault.enabled }}{{ range .Values.vault.secrets }}{{ if .config }}{{ $_ := set $files .config .mountPath }}{{ end }}{{ end }}{{ end -}}
{{- toYaml $files -}}
{{- end }}

{{/* Whether migrations have a user of their own. */}}
{{- define "dlq.hasMigrator" -}}
{{- $m := dig "database" "migrations" dict .Values.config -}}
{{- if or $m.user $m.user_file (hasKey (include "dlq.files" . | fromYaml) "database.migrations.user_file") }}true{{ end -}}
{{- end }}

{{/* Whether a program reads a key of the configuration that names a secret file. */}}
{{- define "dlq.reads" -}}
{{- $job := .root.Values.migration.enabled -}}
{{- if hasPrefix "database.migrations." .key }}{{ if eq .part (ternary "migration" "worker" $job) }}true{{ end }}
{{- else if eq .part "migration" }}
  {{- if has .key (list "database.user_file" "database.password_file") }}{{ if not (include "dlq.hasMigrator" .root) }}true{{ end }}
  {{- else if hasPrefix "database." .key }}true{{ end }}
{{- else if or (hasPrefix "auth." .key) (hasPrefix "console." .key) (hasPrefix "server." .key) }}{{ if eq .part "api" }}true{{ end }}
{{- else if or (hasPrefix "targets." .key) (hasPrefix "worker." .key) }}{{ if eq .part "worker" }}true{{ end }}
{{- else }}true{{ end -}}
{{- end }}

{{/* The names by which a program is reached: its Service's, the Ingress's and the configured ones. */}}
{{- define "dlq.hosts" -}}
{{- $v := .root.Values -}}
{{- $service := printf "%s-%s" (include "dlq.fullname" .root) .part -}}
{{- $inNamespace := printf "%s.%s" $service .root.Release.Namespace -}}
{{- $hosts := list $service $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.cluster.local" $inNamespace) -}}
{{- if and $v.ingress.enabled (eq .part "api") }}{{ $hosts = concat $hosts (default list $v.ingress.hosts) }}{{ end -}}
{{- concat $hosts (dig "server" "allowed_hosts" list $v.config | default list) | uniq | toYaml -}}
{{- end }}

{{/* Where people reach the console; empty if the values do not tell. */}}
{{- define "dlq.consoleURL" -}}
{{- $console := default dict .Values.config.console -}}
{{- $public := dig "server" "public_url" "" .Values.config | default "" -}}
{{- if .Values.prometheusRule.consoleURL }}{{ .Values.prometheusRule.consoleURL | trimSuffix "/" }}
{{- else if and $public (dig "enabled" true $console) }}{{ $public | trimSuffix "/" }}{{ dig "path" "/" $console | trimSuffix "/" }}
{{- end -}}
{{- end }}

{{/* The configuration of one program. */}}
{{- define "dlq.config" -}}
{{- $v := .root.Values -}}
{{- $part := .part -}}
{{- $c := deepCopy $v.config -}}
{{- range $key, $path := include "dlq.files" .root | fromYaml }}
  {{- if include "dlq.reads" (dict "root" $.root "part" $part "key" $key) }}
    {{- $nested := $path -}}
    {{- range splitList "." $key | reverse }}{{ $nested = dict . $nested }}{{ end }}
    {{- $c = mergeOverwrite $c $nested }}
  {{- end }}
{{- end }}
{{- $_ := required "config.database.host is required" (dig "database" "host" "" $c) -}}
{{- $db := $c.database -}}
{{- if eq $part "migration" }}
  {{- $m := default dict $db.migrations -}}
  {{- if include "dlq.hasMigrator" .root }}{{ $db = merge (omit $m "role") (omit $db "user" "user_file" "password_file") }}{{ end }}
  {{- $db = omit $db "migrations" -}}
  {{- if $m.role }}{{ $_ := set $db "migrations" (dict "role" $m.role) }}{{ end }}
  {{- $c = dict "app" (merge (dict "environment" "migration") (default dict $c.app)) "log" (default dict $c.log) "database" $db }}
{{- else }}
  {{- $_ := required "config.temporal.address is required" (dig "temporal" "address" "" $c) -}}
  {{- if or $v.migration.enabled (eq $part "api") }}{{ $db = omit $db "migrations" "application_role" }}{{ end }}
  {{- $_ := set $c "database" $db -}}
  {{- if $v.kafka.enabled }}
    {{- $brokers := required "kafka.brokers is required; or set kafka.enabled to false" (default "" $v.kafka.brokers) -}}
    {{- $c = mergeOverwrite $c (dict "kafka" (dict "brokers" $brokers)) }}
  {{- end }}
  {{- if eq $part "api" }}
    {{- $_ := required "config.auth.mode is required: token, oidc or none" (dig "auth" "mode" "" $c | default "") -}}
    {{- $c = mergeOverwrite (omit $c "worker") (dict "server" (dict "host" "0.0.0.0" "port" $v.container.port "allowed_hosts" (include "dlq.hosts" . | fromYamlArray))) }}
  {{- else }}
    {{- $url := dig "server" "public_url" "" $c }}
    {{- $c = omit $c "auth" "server" }}
    {{- with $c.console }}{{ $_ := set $c "console" (pick . "enabled" "path") }}{{ end }}
    {{- $_ := set $c "server" (dict "allowed_hosts" (include "dlq.hosts" . | fromYamlArray)) }}
    {{- if $url }}{{ $_ := set $c.server "public_url" $url }}{{ end }}
    {{- $c = mergeOverwrite $c (dict "worker" (dict "host" "0.0.0.0" "metrics_port" $v.worker.container.port)) }}
  {{- end }}
{{- end }}
{{- toYaml $c -}}
{{- end }}

{{/* The variables of a program, without those of sections that its configuration does not have. */}}
{{- define "dlq.env" -}}
{{- $others := dict "api" "DATABASE_MIGRATIONS|WORKER" "worker" "AUTH|SERVER" "migration" "ARCHIVE|AUDIT|AUTH|BULK|CONSOLE|GROUPS|INGEST|KAFKA|SCHEMA_REGISTRY|SERVER|TARGETS|TEMPORAL|TRACING|VERIFY|WORKER" -}}
{{- $env := list -}}
{{- range .root.Values.extraEnv }}
  {{- if not (regexMatch (printf "^DLQ_(%s)_" (get $others $.part)) .name) }}{{ $env = append $env . }}{{ end }}
{{- end }}
{{- toYaml $env -}}
{{- end }}

{{/* Seconds of a duration such as 1m30s; milliseconds are rounded up. */}}
{{- define "dlq.seconds" -}}
{{- $total := ternary 1 0 (contains "ms" .) -}}
{{- range regexFindAll "[0-9]+[smh]" (regexReplaceAll "[0-9]+ms" . "") -1 }}
  {{- $unit := get (dict "s" 1 "m" 60 "h" 3600) (trunc -1 .) -}}
  {{- $total = add $total (mul $unit (trimSuffix (trunc -1 .) . | int)) }}
{{- end }}{{ $total -}}
{{- end }}

{{/* Longer than the program's own stop, with the 23 seconds in which it closes its connections. */}}
{{- define "dlq.grace" -}}
{{- $c := .root.Values.config -}}
{{- if eq .part "api" -}}
{{ add (include "dlq.seconds" (dig "server" "drain_delay" "3s" $c)) (include "dlq.seconds" (dig "server" "shutdown_timeout" "20s" $c)) 30 }}
{{- else -}}
{{ add (div (mul 5 (include "dlq.seconds" (dig "worker" "stop_timeout" "20s" $c))) 4) 60 }}
{{- end -}}
{{- end }}

{{- define "dlq.vaultAnnotations" -}}
{{- $v := .root.Values -}}
{{- if $v.vault.enabled }}
vault.hashicorp.com/agent-inject: "true"
vault.hashicorp.com/role: {{ ternary (default $v.vault.role $v.vault.migrationRole) $v.vault.role (eq .part "migration") | quote }}
{{- if eq .part "migration" }}
vault.hashicorp.com/agent-pre-populate-only: "true"
{{- end }}
{{- range $v.vault.secrets }}
{{- if or (not .config) (include "dlq.reads" (dict "root" $.root "part" $.part "key" .config)) }}
{{- $name := base .mountPath }}
vault.hashicorp.com/agent-inject-secret-{{ $name }}: {{ .path | quote }}
vault.hashicorp.com/agent-inject-file-{{ $name }}: {{ $name | quote }}
vault.hashicorp.com/secret-volume-path-{{ $name }}: {{ dir .mountPath | quote }}
vault.hashicorp.com/agent-inject-template-{{ $name }}: {{ printf "{{- with secret %q -}}{{ index %s %q }}{{- end -}}" .path (ternary ".Data.data" ".Data" (contains "/data/" .path)) .key | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The template of a pod: root, part, command, account, resources. */}}
{{- define "dlq.pod" -}}
{{- $v := .root.Values -}}
{{- $name := printf "%s-%s" (include "dlq.fullname" .root) .part -}}
metadata:
  labels: {{- merge (include "dlq.selector" . | fromYaml) (default dict $v.podLabels) | toYaml | nindent 4 }}
  annotations:
    {{- $agent := ternary (default dict $v.vault.annotations) dict $v.vault.enabled }}
    {{- $checksum := dict "checksum/config" (include "dlq.config" . | sha256sum) }}
    {{- mergeOverwrite (include "dlq.vaultAnnotations" . | fromYaml) $agent (default dict $v.podAnnotations) $checksum | toYaml | nindent 4 }}
spec:
  serviceAccountName: {{ .account | quote }}
  automountServiceAccountToken: {{ $v.vault.enabled }} # the agent logs in with it
  enableServiceLinks: false
  {{- if eq .part "migration" }}
  restartPolicy: Never
  {{- else }}
  terminationGracePeriodSeconds: {{ include "dlq.grace" . }}
  {{- with $v.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{ toYaml (merge (dict "labelSelector" (dict "matchLabels" (include "dlq.selector" $ | fromYaml))) .) | nindent 6 | trim }}
    {{- end }}
  {{- end }}
  {{- end }}
  {{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
  {{- with get $v $field }}
  {{ $field }}: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  securityContext: {{- toYaml $v.podSecurityContext | nindent 4 }}
  containers:
    - name: {{ .part }}
      image: {{ include "dlq.image" .root | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: {{ toJson .command }}
      securityContext: {{- toYaml $v.securityContext | nindent 8 }}
      resources: {{- toYaml .resources | nindent 8 }}
      {{- with include "dlq.env" . | fromYamlArray }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if ne .part "migration" }}
      {{- $c := include "dlq.config" . | fromYaml }}
      {{- $tls := and (eq .part "api") (dig "server" "tls" "cert_file" "" $c) }}
      {{- $mutual := and $tls (dig "server" "tls" "client_ca_file" "" $c) }}
      {{- $port := "http" }}
      ports:
        - {name: http, containerPort: {{ ternary $v.container.port $v.worker.container.port (eq .part "api") }}, protocol: TCP}
      {{- range $probe, $limits := dict "startup" "periodSeconds: 2, failureThreshold: 60" "liveness" "periodSeconds: 10, failureThreshold: 6" "readiness" "periodSeconds: 5, failureThreshold: 2" }}
      {{ $probe }}Probe:
        {{- if and $mutual (eq $probe "readiness") }}
        exec: {command: [/dlq-api, healthcheck]} # Kubernetes has no certificate
        {{- else if $mutual }}
        tcpSocket: {port: http}
        {{- else }}
        httpGet: {path: {{ ternary "/readyz" "/healthz" (eq $probe "readiness") }}, port: http{{ if $tls }}, scheme: HTTPS{{ end }}}
        {{- end }}
        {{- range splitList ", " $limits }}
        {{ . }}
        {{- end }}
        timeoutSeconds: 5
      {{- end }}
      {{- end }}
      volumeMounts:
        - {name: config, mountPath: /etc/dlq-manager, readOnly: true}
        {{- $files := dict }}
        {{- range $key, $file := $v.secretFiles }}
        {{- if include "dlq.reads" (dict "root" $.root "part" $.part "key" $key) }}{{ $_ := set $files $key $file }}{{ end }}
        {{- end }}
        {{- if $files }}
        - {name: secrets, mountPath: /etc/dlq-manager-secrets, readOnly: true}
        {{- end }}
        {{- with $v.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: config
      configMap: {name: {{ $name }}}
    {{- if $files }}
    - name: secrets
      projected: # not subPath, so that a rotated secret arrives
        defaultMode: 0440
        sources:
          {{- range $key, $file := $files }}
          - secret: {name: {{ $file.secret | quote }}, items: [{key: {{ $file.key | quote }}, path: {{ $key }}}]}
          {{- end }}
    {{- end }}
    {{- with $v.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{- define "dlq.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "dlq.fullname" .root }}-{{ .part }}
  labels: {{- include "dlq.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  config.yaml: |
    {{- include "dlq.config" . | nindent 4 }}
{{- end }}
