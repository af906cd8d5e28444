#!/usr/bin/env bash
# Sends an event for each run above SEQUENCE, in order, to process the runs whose events were missed.
# Usage: send-missed-runs.sh EXPORT STACK SEQUENCE FUNCTION
# FUNCTION is the name of the function SendPages, or CopyRun.
# Needs jq, the AWS CLI and the package report-exporter. Stops with a status other than 0 at an event it cannot send.
set -euo pipefail
[[ $# -eq 4 ]] || { echo 'Usage: send-missed-runs.sh EXPORT STACK SEQUENCE FUNCTION' >&2; exit 2; }
export=$1 stack=$2 after=$3 function=$4

npx --no -- report-exporter status "$export" --runs --stack "$stack" --json |
  jq -c --argjson after "$after" 'select(.sequence > $after)' | while read -r run; do
  # No execution sends this event, but it has the form of one.
  event=$(jq -c '{
    detail: { eventVersion: 1, export, execution: "arn:aws:states:-:-:execution:missed:\(.run)", result: . }
  }' <<< "$run")
  aws lambda invoke --function-name "$function" --invocation-type Event --payload fileb:///dev/stdin /dev/null <<< "$event"
done
