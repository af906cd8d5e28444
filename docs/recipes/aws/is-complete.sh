#!/usr/bin/env bash
# Whether every page of a run has a result. Ends with status 1 if one is missing.
# Usage: is-complete.sh RESULTS < run.json, where RESULTS is the name of the bucket QueueResults
# Needs jq, the AWS CLI, and s3:ListBucket on that bucket. Makes one request for each 1,000 results.
set -euo pipefail
[[ $# -eq 1 ]] || { echo 'Usage: is-complete.sh RESULTS < run.json' >&2; exit 2; }
run=$(cat)
pages=$(jq -e .pages <<< "$run")
prefix=$(jq -er '.manifest | sub("manifest.json$"; "page-")' <<< "$run")
# shellcheck disable=SC2016 # The backticks are JMESPath.
results=$(aws s3api list-objects-v2 --bucket "$1" --prefix "$prefix" --query 'length(Contents || `[]`)' --output json)
echo "$results of $pages pages have a result"
((results == pages))
