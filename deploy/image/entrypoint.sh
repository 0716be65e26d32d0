#!/bin/sh
# `parallax` in the image, for its process and for `kubectl exec` alike, also as a user id that no passwd file knows:
# OpenShift gives each namespace ids of its own, and Hadoop's login fails for one without an entry.
# Checked: as in Containerfile. Not run: on OpenShift.
set -eu
user=$(id -u)
if ! getent passwd "$user" >/dev/null; then
  passwd=${TMPDIR:-/tmp}/parallax-passwd-$user
  if ! [ -r "$passwd" ]; then
    made=$(mktemp)
    cat /etc/passwd >"$made"
    echo "parallax-$user:x:$user:$(id -g):Parallax:/data:/usr/sbin/nologin" >>"$made"
    mv "$made" "$passwd"
  fi
  library=$(find /usr/lib -name libnss_wrapper.so -print -quit)
  export LD_PRELOAD="$library" NSS_WRAPPER_PASSWD="$passwd" NSS_WRAPPER_GROUP=/etc/group
fi
# As a module: commands that it prints then begin with `parallax`, which is this script, and not with a path.
exec /opt/parallax/bin/python -P -m parallax.cli "$@"
