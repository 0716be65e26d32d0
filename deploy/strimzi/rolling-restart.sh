#!/usr/bin/env bash
# Restarts the brokers of a cluster of Strimzi one after the other: rolling-restart.sh CLUSTER NAMESPACE [POD-OF-PARALLAX]
# Before each, it waits until Parallax says that the broker may be restarted: everyone who may lead its partitions is
# safe, and it is back before anything that it lacks is cleaned. It then annotates the broker's pod, and the Cluster
# Operator restarts that with its next reconciliation (every two minutes by default).
# What the operator restarts by itself (a new version, a new certificate) waits for nobody: pause it before with
# strimzi.io/pause-reconciliation, restart by this script what is due, and end the pause.
# Checked: by tests with a kubectl that stands in, one of which restarts real brokers. Not run: on a cluster of Strimzi.
set -euo pipefail

usage="usage: rolling-restart.sh CLUSTER NAMESPACE [POD-OF-PARALLAX]"
cluster=${1:?$usage} namespace=${2:?$usage} parallax=${3:-parallax-0}
outage_s=${OUTAGE_S:-600} patience_s=${PATIENCE_S:-3600} pause_s=${PAUSE_S:-30}

k() { kubectl --namespace "$namespace" "$@"; }
uid() { k get "$1" --output 'jsonpath={.metadata.uid}' 2>/dev/null || true; }

wait_for() { # what is waited for, in words, and the command that says so
  local what=$1 until=$((SECONDS + patience_s))
  shift
  until "$@"; do
    if ((SECONDS >= until)); then
      echo "rolling-restart.sh: gave up after $patience_s s: $what" >&2
      exit 1
    fi
    sleep "$pause_s"
  done
}

is_another() { [[ -n $(uid "$1") && $(uid "$1") != "$2" ]]; }

pods=$(k get pods --selector "strimzi.io/cluster=$cluster,strimzi.io/broker-role=true" --output name)
[[ -n $pods ]] || { echo "rolling-restart.sh: no broker of $cluster in $namespace" >&2; exit 1; }
for pod in $pods; do
  broker=${pod##*-} # <cluster>-<pool>-<id>
  wait_for "broker $broker may not be restarted" \
    k exec "$parallax" -- parallax roll "$broker" --outage-s "$outage_s" -c /etc/parallax/parallax.yaml
  before=$(uid "$pod")
  k annotate "$pod" strimzi.io/manual-rolling-update=true --overwrite
  wait_for "the operator has not restarted $pod" is_another "$pod" "$before"
  k wait "$pod" --for=condition=Ready --timeout="${patience_s}s"
done
