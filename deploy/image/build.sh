#!/usr/bin/env bash
# Builds the image of Parallax with buildah, from a checkout: deploy/image/build.sh [TAG] [BASE]
# TAG: parallax:VERSION by default, which the chart asks for of the repository that it is given.
# BASE: an image of Debian 12, as docker.io/library/debian:bookworm-slim; without one, debootstrap makes a base (needs root).
# Checked: with debootstrap and buildah, as root. Not run: with another base, without root.
# Everything is inside: jars, compiled kernels, and what lets Spark start quickly. The container needs no network but the brokers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
command -v buildah >/dev/null || { echo "build.sh: buildah is missing; install it" >&2; exit 2; }
command -v "$python" >/dev/null || make -C "$root" setup >&2
version=$("$python" -c 'import sys, tomllib; print(tomllib.load(open(sys.argv[1], "rb"))["project"]["version"])' "$root/pyproject.toml")
tag=${1:-parallax:$version}
base=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m pip wheel -q --no-deps --wheel-dir "$work/wheels" "$root"
# Versions as locked. Hashes go: pip would ask for one of the wheel itself.
grep -oE '^[a-z0-9][^ ;]*==[^ \\]+( ; [^\\]*[^ \\])?' "$root/requirements.lock" >"$work/constraints.txt"
# The jars of this release, and no others that the cache may hold.
mkdir "$work/cache"
"$(dirname "$python")/parallax" fetch-jars --format json |
  "$python" -c 'import json, sys; made = json.load(sys.stdin); print(made["delta"], made["s3"], made["kafka"], sep="\n")' |
  xargs cp -r -t "$work/cache"
cp "$here/entrypoint.sh" "$work/"

if [ -z "$base" ]; then
  debootstrap --variant=minbase bookworm "$work/root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >&2
  rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
  container=$(buildah from scratch)
  buildah add -q "$container" "$work/root" /
  buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd /bin/bash "$container"
  base=localhost/parallax-base:bookworm
  buildah commit -q "$container" "$base"
  buildah rm "$container" >/dev/null
  rm -rf "$work/root"
fi

# BUILDAH_OPTIONS: for example --build-arg PIP_INDEX_URL=..., or --volume and PIP_CERT for an authority of your own.
# shellcheck disable=SC2086
buildah build ${BUILDAH_OPTIONS:-} --build-arg "BASE=$base" --label "org.opencontainers.image.version=$version" --layers -t "$tag" -f "$here/Containerfile" "$work"
