#!/bin/sh
# Runs the Spark Connect server as this process: it gets the signals, and ends in good order.
#   start-spark-connect.sh SETTINGS [OPTIONS OF spark-submit]
set -eu
settings=${1:?the file of settings}
shift
exec "${SPARK_HOME:-/opt/spark}/bin/spark-submit" "$@" --properties-file "$settings" \
  --class org.apache.spark.sql.connect.service.SparkConnectServer spark-internal
