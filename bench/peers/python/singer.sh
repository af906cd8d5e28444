#!/usr/bin/env bash
# Tap and target joined by a pipe: https://github.com/singer-io/getting-started/blob/master/docs/RUNNING_AND_DEVELOPING.md
set -o pipefail
tap_python=$1 target_python=$2 base_url=$3 out=$4
here=$(dirname "$0")
printf '{"destination_path": "%s"}' "$out" >"$out/target.json"
"$tap_python" "$here/singer_tap.py" "$base_url" |
  "$target_python" "$here/singer_target.py" --config "$out/target.json" >>"$out/state.jsonl"
