#!/bin/sh
# Starts Parallax, also as a user id that no passwd file knows (OpenShift gives each namespace ids of its own).
set -eu
if ! getent passwd "$(id -u)" >/dev/null; then
  passwd=$(mktemp)
  cat /etc/passwd >"$passwd"
  echo "parallax-$(id -u):x:$(id -u):$(id -g):Parallax:/data:/usr/sbin/nologin" >>"$passwd"
  library=$(find /usr/lib -name libnss_wrapper.so -print -quit)
  export LD_PRELOAD="$library" NSS_WRAPPER_PASSWD="$passwd" NSS_WRAPPER_GROUP=/etc/group
fi
exec parallax "$@"
