#!/bin/sh
# The job on a standalone Spark cluster, by spark-submit in client mode (docs/operate/install.md).
#   MASTER=spark://spark.example.org:7077 deploy/spark/submit.sh /etc/parallax/parallax.yaml
# SPARK_HOME: Spark 4.2 on this host. ENVIRONMENT: the archive that holds Parallax, a .tar.gz, made by
#   python3.11 -m venv parallax && parallax/bin/pip install kafka-parallax venv-pack
#   parallax/bin/python -c "import parallax.replica.kernels, parallax.compare.quiet"     # compiles them once
#   parallax/bin/venv-pack -p parallax -o environment.tar.gz --exclude '*/pyspark/jars/*'
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
