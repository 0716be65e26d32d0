#!/bin/sh
# The job on a standalone Spark cluster, by spark-submit in client mode. docs/cluster.md says what each option is for.
#   MASTER=spark://spark.example.org:7077 deploy/spark/submit.sh /etc/parallax/parallax.yaml
# SPARK_HOME: Spark 4.2 on this host. ENVIRONMENT: the archive that holds Parallax (docs/cluster.md makes one).
set -eu
config=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
archive=$(readlink -f "${ENVIRONMENT:-environment.tar.gz}")

# Sources are planned on the driver, by the path at which the workers have their Python.
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
mkdir "$run/environment"
tar -xzf "$archive" -C "$run/environment"
cd "$run"

"$SPARK_HOME/bin/spark-submit" \
  --master "$MASTER" --deploy-mode client \
  --archives "$archive#environment" \
  --conf spark.pyspark.python=./environment/bin/python \
  --jars "$(environment/bin/python -m parallax.jars)" \
  --properties-file "${PROPERTIES:-/etc/parallax/spark.properties}" \
  "$here/submit.py" run -c "$config"
