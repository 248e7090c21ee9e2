#!/bin/sh
# Builds the wheel into dist/, installs it into an empty environment in a temporary folder, executes the
# README's kernel there and writes its pages, as a user without a clone does.
set -eu

python=${PYTHON:-python3}
checkout=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH

step() {
    begun=$(date +%s)
    "$@" < /dev/null
    echo "== $*: $(($(date +%s) - begun)) s" >&2
}

rm -f "$checkout"/dist/tilewave-*.whl
step "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps -w "$checkout/dist" "$checkout"
"$python" -m venv "$folder/environment"
cd "$folder"
step environment/bin/python -m pip install --quiet --disable-pip-version-check "$(ls "$checkout"/dist/tilewave-*.whl)[execute]"
mkdir mine
sed -n '/^```cuda$/,/^```$/p' "$checkout/README.md" | sed '1d;$d' > mine/matmul_pair.cu
step environment/bin/tilewave execute mine/matmul_pair.cu --shape 129x67x53 > executed.txt
grep '^matmul_pair@129x67x53: correct' executed.txt
# The second report is warm: the interpreter and the packages' bytecode are compiled.
step environment/bin/tilewave report --kernels mine
rm -r .tilewave tilewave-results tilewave-report
step environment/bin/tilewave report --kernels mine
test -s tilewave-report/kernel/matmul_pair.html
ls -l "$checkout"/dist/tilewave-*.whl
