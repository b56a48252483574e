#!/bin/sh
# Installs what Dagster's webserver, daemon, code location and runs need: one image for all of them.
#   install-code-location.sh FOLDER [OPTIONS OF PIP]    programs are in FOLDER/bin
# PACKAGE names the version (cdc-assets[alerts,s3]==1.0.0), PIP_CONSTRAINT a file of pinned ones.
set -eu
folder=${1:?the folder to install to}
shift
"${PYTHON:-python3}" -m venv "$folder"
# From 2.1 on SQLAlchemy takes psycopg 3 for postgresql://, which refuses dagster-postgres's NOTIFY.
"$folder/bin/pip" install --quiet --no-cache-dir "$@" \
  "${PACKAGE:-cdc-assets[alerts,s3]}" dagster-k8s dagster-postgres dagster-webserver 'sqlalchemy<2.1'
"$folder/bin/cdc-assets" --help >/dev/null
