#!/bin/bash
# Succeeds if the server listens and its Spark context lives: a server whose context has stopped
# still listens, and refuses every session; the context's UI ends with it.
#   probe-spark-connect.sh [PORT [PORT OF THE UI]]
set -eu
exec 3<>"/dev/tcp/127.0.0.1/${1:-15002}"
exec 4<>"/dev/tcp/127.0.0.1/${2:-4040}"
printf 'GET /api/v1/applications HTTP/1.0\r\n\r\n' >&4
IFS= read -r -t 4 status <&4
[[ $status == *" 200 "* ]]
