#!/usr/bin/env bash
# Writes the pages of each published run, one after the other, to RUN.pages in the working directory, unless that file
# exists. With --bounded, it writes those of the bounded runs instead.
# Usage: write-runs.sh EXPORT (--out DIRECTORY | --stack STACK) [--bounded]
# Needs jq and the package report-exporter. Stops with a status other than 0 at a run that cannot be read.
set -euo pipefail
[[ $# -ge 3 && $# -le 4 && $1 != -* && ${4:-} =~ ^(--bounded)?$ ]] || {
  echo 'Usage: write-runs.sh EXPORT (--out DIRECTORY | --stack STACK) [--bounded]' >&2
  exit 2
}

npx --no -- report-exporter runs "$@" --json | while read -r summary; do
  run=$(jq -er .run <<< "$summary")
  [[ ! -e $run.pages ]] || continue
  npx --no -- report-exporter pages "${@:1:3}" --run "$run" --cat < /dev/null > "$run.new"
  mv "$run.new" "$run.pages"
done
