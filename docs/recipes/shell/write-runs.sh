#!/usr/bin/env bash
# Writes the pages of each published run, bounded ones included, one after the other, to RUN.pages in the working
# directory, unless that file exists.
# Usage: write-runs.sh EXPORT (--out DIRECTORY | --stack STACK)
# Needs jq and the package report-exporter. Stops with a status other than 0 at a run that cannot be read.
set -euo pipefail
[[ $# -eq 3 && $1 != -* ]] || { echo 'Usage: write-runs.sh EXPORT (--out DIRECTORY | --stack STACK)' >&2; exit 2; }

{
  npx --no -- report-exporter status "$@" --runs --json
  npx --no -- report-exporter status "$@" --runs --bounded --json
} | while read -r summary; do
  run=$(jq -er .run <<< "$summary")
  [[ ! -e $run.pages ]] || continue
  npx --no -- report-exporter pages "$@" --run "$run" --cat < /dev/null > "$run.new"
  mv "$run.new" "$run.pages"
done
