#!/usr/bin/env bash
# Copies the published runs above the newest one in the copy, in order, to a directory of the same layout. Verifies each
# page. A run becomes visible there at once, after all its pages. An interrupted copy is continued by the next start.
# Usage: catch-up.sh SOURCE EXPORT COPY, where SOURCE is s3://BUCKET/PREFIX or a directory. Do not start two at the same
# time.
# Needs jq, sha256sum and, for a bucket, the AWS CLI. Stops with a status other than 0 at a run that it cannot read or
# verify.
set -euo pipefail
IFS=$'\n'
[[ $# -eq 3 ]] || { echo 'Usage: catch-up.sh SOURCE EXPORT COPY' >&2; exit 2; }
source=$1 export=$2 copy=$3
fail() { echo "$1" >&2; exit 1; }

# list prints the keys that begin with $1, up to the next slash; get prints an object; pages copies those of a run.
if [[ $source == s3://* ]]; then
  path=${source#s3://}
  path=${path%/}/
  bucket=${path%%/*} prefix=${path#*/}
  list() {
    aws s3api list-objects-v2 --bucket "$bucket" --prefix "$prefix$1" --delimiter / --output text \
      --query '[CommonPrefixes[].Prefix, Contents[].Key][]' |
      tr '\t' '\n' | sed '/^None$/d; s|/$||' | cut -c "$((${#prefix} + 1))-"
  }
  get() { aws s3 cp --only-show-errors "s3://$bucket/$prefix$1" -; }
  pages() { aws s3 sync --only-show-errors --exclude '*' --include 'page-*' "s3://$bucket/$prefix$1" "$2"; }
else
  source=$(cd "$source" && pwd) || fail "SOURCE must be s3://BUCKET/PREFIX or a directory."
  # shellcheck disable=SC2012 # Names in an export have no special characters.
  list() { ls "$source/${1%/*}/" | sed -n "s|^${1##*/}|$1|p"; }
  get() { cat "$source/$1"; }
  pages() { find "$source/$1" -name 'page-*' -exec sh -c 'cp -p "$@" "$0"' "$2" {} +; }
fi

found=$(list "$export/") || fail "The export $export cannot be listed in $source. Check both names."
[[ -n $found ]] || fail "$source has nothing of the export $export. Check both names."

mkdir -p "$copy/$export" "$copy/.incoming" && cd "$copy"
latest=$export/latest.json last=0 last_day=''
if [[ -e $latest ]]; then
  last=$(jq -e .sequence "$latest")
  last_day=$(jq -r '.manifest | split("/")[:2] | join("/")' "$latest")
fi

# The runs from the day before the last run's onwards: around midnight, clocks may differ.
new=''
days=$(sed -n '/\/date=/p' <<< "$found" | sort -r)
for day in $days; do
  runs=$(list "$day/run=")
  for run in $runs; do
    # A run without run.json is in progress, or was abandoned.
    names=$(list "$run/run.json")
    grep -qxF "$run/run.json" <<< "$names" || continue
    new+=$(get "$run/run.json" | jq -ers --arg run "$run" \
      '.[0] | if .runVersion == 1 then "\(.sequence) \($run)" else error("unknown runVersion") end')$'\n' ||
      fail "$run/run.json cannot be used. Nothing was copied. Restore this file, or update this script, and start again."
  done
  [[ ! $day < $last_day ]] || break
done

sort -n <<< "$new" | while IFS=' ' read -r sequence run; do
  ((sequence > last)) || continue
  staged=.incoming/$run
  if [[ ! -d $run ]]; then
    mkdir -p "$staged" "${run%/*}"
    # What an interrupted download has left.
    find "$staged" -name 'page-*.*.*' ! -name 'page-*.*.gz' -delete
    pages "$run" "$staged"
    for name in manifest.json run.json; do get "$run/$name" > "$staged/$name"; done
    grep -q '^  "manifestVersion": 1,$' "$staged/manifest.json" || fail "$run: unknown manifestVersion"
    # One page per line, so that a manifest of a million pages takes no memory.
    # A compressed page has the checksum of its file, too.
    sed -n 's/^    \({"page":.*}\),*$/\1/p' "$staged/manifest.json" |
      jq -r '"\(.storedSha256 // .sha256)  \(.key)"' > .incoming/checksums
    count=$(wc -l < .incoming/checksums) pages=$(jq .pages "$staged/run.json")
    ((count == pages)) || fail "$run/manifest.json has $count pages instead of $pages"
    (cd .incoming && sha256sum --check --quiet checksums >&2)
    mv "$staged" "$run"
  fi
  # Process the run in the folder $run here, before it is recorded as processed.
  jq '{export, run, sequence, completedAt, manifest}' "$run/run.json" > .incoming/latest.json
  mv .incoming/latest.json "$latest"
  jq -r '"run \(.run): \(.pages) pages"' "$run/run.json"
done
