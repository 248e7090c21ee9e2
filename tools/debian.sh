#!/bin/sh
# Runs `make smoke` of the last commit in an older or newer Debian, with another Python and glibc.
#
#     sh tools/debian.sh SUITE FOLDER [PYTHON]
#
# PYTHON is a package of that suite (python3.14 of sid). Without it, bookworm's source of Python 3.11 is built there,
# as for bullseye, whose Python is too old. FOLDER must not exist; it stays. Needs root and debootstrap.
set -eu

suite=$1 folder=$2 python=${3:-}
checkout=$(cd "$(dirname "$0")/.." && pwd)
packages=ca-certificates,make,git,gcc,libc6-dev
if [ -n "$python" ]; then
    packages=$packages,$python-dev,$python-venv
else
    python=/opt/python/bin/python3.11
    packages=$packages,dpkg-dev,zlib1g-dev,libffi-dev,libssl-dev,libsqlite3-dev,libbz2-dev,liblzma-dev
fi

mkdir "$folder"
folder=$(cd "$folder" && pwd)
debootstrap --variant=minbase --include="$packages" "$suite" "$folder" > "$folder.log"
trap 'umount -l "$folder/dev" "$folder/proc"' EXIT
mount --rbind --make-rslave /dev "$folder/dev"
mount -t proc proc "$folder/proc"
cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
cp /etc/resolv.conf "$folder/etc/"
mkdir "$folder/root/tilewave"
git -C "$checkout" archive HEAD | tar -x -C "$folder/root/tilewave"

inside() {
    chroot "$folder" env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root \
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt sh -ec "$1"
}

if [ "$python" = /opt/python/bin/python3.11 ]; then
    sed -n 's/^deb \([^ ]*\) .*/deb-src \1 bookworm main/p' "$folder/etc/apt/sources.list" \
        > "$folder/etc/apt/sources.list.d/source.list"
    inside "apt-get update -qq; cd /root; apt-get source -qq --download-only python3.11; tar -xf python3.11_*.orig.tar.*
        cd Python-3.11*; ./configure -q --prefix=/opt/python; make -s -j2; make -s install" >> "$folder.log" 2>&1
fi
inside "ldd --version | head -1; $python -V; cd /root/tilewave; make smoke PYTHON=$python"
