#!/usr/bin/env bash
# Processes each regular run once, in order; write-runs.sh reads bounded runs, too. Here, it writes the pages of the run,
# one after the other, to RUN.pages in the working directory. Then it writes the sequence of the run to last-EXPORT there,
# where the next start continues. For a replica, whose runs may appear in another order, use catch-up.sh.
# Usage: process-runs.sh EXPORT (--out DIRECTORY | --stack STACK)
# Needs jq and the package report-exporter. Stops with a status other than 0 at a run that cannot be read, and does not
# skip it.
set -euo pipefail
[[ $# -ge 3 && $1 != -* ]] || { echo 'Usage: process-runs.sh EXPORT (--out DIRECTORY | --stack STACK)' >&2; exit 2; }
record=last-$1 last=0
[[ ! -e $record ]] || last=$(cat "$record")

npx --no -- report-exporter status "$@" --runs --after "$last" --json | while read -r summary; do
  run=$(jq -er .run <<< "$summary")
  # Replace these two lines by your own program. After an interruption, it may get the same run again.
  npx --no -- report-exporter pages "$@" --run "$run" --cat < /dev/null > "$run.new"
  mv "$run.new" "$run.pages"
  jq .sequence <<< "$summary" > "$record.new"
  mv "$record.new" "$record"
done
