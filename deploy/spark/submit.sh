#!/bin/sh
# The job on a standalone Spark cluster, by spark-submit in client mode (docs/operate/install.md).
# Checked: spark-submit with these options on a cluster of one machine, and this script with a spark-submit that only
# waits. Not run: both together, on several machines.
#
#   MASTER=spark://spark.example.org:7077 deploy/spark/submit.sh /etc/parallax/parallax.yaml
#
# SPARK_HOME: Spark 4.2 on this host.
# PROPERTIES: options of Spark, among them spark.authenticate.secret; mode 0600. Default: /etc/parallax/spark.properties.
# ENVIRONMENT: the archive that holds Parallax. Default: environment.tar.gz. In a checkout:
#   python3 -m pip wheel --no-deps -w dist .
#   python3.11 -m venv parallax && parallax/bin/pip install dist/kafka_parallax-*.whl venv-pack
#   parallax/bin/python -c "import parallax.replica.kernels, parallax.compare.quiet"     # compiles them once
#   parallax/bin/venv-pack -p parallax -o environment.tar.gz --exclude '*/pyspark/jars/*'
#
# SIGTERM and Ctrl+C stop the job in order. Commands read the same file: parallax findings -c /etc/parallax/parallax.yaml
set -eu
[ $# -eq 1 ] || { echo "submit.sh: name the settings file, as submit.sh /etc/parallax/parallax.yaml" >&2; exit 2; }
config=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
archive=$(readlink -f "${ENVIRONMENT:-environment.tar.gz}")

# Sources are planned on the driver, by the path at which the workers have their Python.
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
# The job is a child of spark-submit's JVM, which must outlive it. A signal may come as soon as that has begun.
stop() { pkill -TERM -P "$1" -f submit.py || kill -TERM "$1"; }
signalled=
trap 'signalled=yes; [ -z "${!:-}" ] && exit 143 || stop "$!"' TERM
trap 'signalled=yes; [ -z "${!:-}" ] && exit 130 || stop "$!"' INT
mkdir "$run/environment"
tar -xzf "$archive" -C "$run/environment"
jars=$(cd "$run" && environment/bin/python -m parallax.jars)
cd "$run"

"$SPARK_HOME/bin/spark-submit" \
  --master "$MASTER" --deploy-mode client \
  --archives "$archive#environment" \
  --conf spark.pyspark.python=./environment/bin/python \
  --jars "$jars" \
  --properties-file "${PROPERTIES:-/etc/parallax/spark.properties}" \
  "$here/submit.py" run -c "$config" &
submit=$!

# A signal ends `wait` with a code of its own, although the job may have ended meanwhile.
while :; do
  signalled='' code=0
  wait "$submit" || code=$?
  [ -n "$signalled" ] || exit "$code"
done
