#!/bin/sh
# Installs the jars that a Spark server needs next to Spark's own, each compared with its checksum.
#   install-spark-jars.sh FOLDER WHEEL    WHEEL is the cdc-assets that merges: decode.jar is its own
# MAVEN_REPOSITORY names a mirror.
set -eu
folder=${1:?the folder to install to} wheel=${2:?the wheel of cdc-assets}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
grep -v '^#' "$here/spark-jars.txt" | while read -r checksum path; do
  jar=$folder/${path##*/}
  curl --fail --silent --show-error --location --retry 5 --output "$jar.partial" \
    "${MAVEN_REPOSITORY:-https://repo1.maven.org/maven2}/$path"
  echo "$checksum  $jar.partial" | sha256sum --check --quiet
  mv "$jar.partial" "$jar"
done
unzip -q -o -j "$wheel" cdc_assets/decode/jvm/decode.jar -d "$folder"
