#!/usr/bin/env bash
# Copies the published runs, bounded ones included, that are not in the copy yet to a directory of the same layout, lowest
# sequence first. Verifies each page. A run becomes visible there at once, after all its pages. An interrupted copy is
# continued by the next start.
# Usage: catch-up.sh SOURCE EXPORT COPY, where SOURCE is s3://BUCKET/PREFIX or a directory. Do not start two at the same
# time.
# Needs jq, sha256sum and, for a bucket, the AWS CLI. Lists all keys of the export, in a bucket 1,000 per request. Stops
# with a status other than 0 at a run that it cannot read or verify.
set -euo pipefail
[[ $# -eq 3 ]] || { echo 'Usage: catch-up.sh SOURCE EXPORT COPY' >&2; exit 2; }
source=$1 export=$2 copy=$3
fail() { echo "$1" >&2; exit 1; }

# keys prints the keys of the export; get prints an object; pages copies the pages and the list of missing parents.
if [[ $source == s3://* ]]; then
  path=${source#s3://}
  path=${path%/}/
  bucket=${path%%/*} prefix=${path#*/}
  keys() {
    aws s3api list-objects-v2 --bucket "$bucket" --prefix "$prefix$export/" --output text --query '[Contents[].Key][]' |
      tr '\t' '\n' | sed '/^None$/d' | cut -c "$((${#prefix} + 1))-"
  }
  get() { aws s3 cp --only-show-errors "s3://$bucket/$prefix$1" -; }
  pages() {
    aws s3 sync --only-show-errors --exclude '*' --include 'page-*' --include 'missing-parents-*' \
      "s3://$bucket/$prefix$1" "$2"
  }
else
  source=$(cd "$source" && pwd) || fail "SOURCE must be s3://BUCKET/PREFIX or a directory."
  keys() { (cd "$source" && find -L "$export" -mindepth 1); }
  get() { cat "$source/$1"; }
  pages() { find "$source/$1" \( -name 'page-*' -o -name 'missing-parents-*' \) -exec sh -c 'cp -p "$@" "$0"' "$2" {} +; }
fi

mkdir -p "$copy/$export" "$copy/.incoming" && cd "$copy"
keys > .incoming/keys || fail "The export $export cannot be listed in $source. Check both names."
[[ -s .incoming/keys ]] || fail "$source has nothing of the export $export. Check both names."

# A run without a summary is in progress, or was abandoned. A run may appear late, and its clock may have been wrong. So
# whatever is not in the copy is new.
sed -nE '\#/run=[^/]+/(run|bounded)\.json$#p' .incoming/keys | while read -r summary; do
  [[ ! -d ${summary%/*} ]] || continue
  get "$summary" | jq -ers --arg summary "$summary" \
    '.[0] | if .runVersion == 1 then "\(.sequence) \($summary)" else error("unknown runVersion") end' ||
    fail "$summary cannot be used. Nothing was copied. Restore this file, or update this script, and start again."
done | sort -n > .incoming/new

# In the end, latest.json points to the newest regular run of the copy.
point() {
  find "$export" -name run.json -exec cat {} + |
    jq -s 'max_by(.sequence) // empty | {export, run, sequence, completedAt, manifest}' > .incoming/latest.json
  [[ ! -s .incoming/latest.json ]] || mv .incoming/latest.json "$export/latest.json"
}
trap point EXIT

while read -r _ summary; do
  run=${summary%/*} staged=.incoming/${summary%/*}
  mkdir -p "$staged" "${run%/*}"
  # What an interrupted download has left.
  find "$staged" \( -name 'page-*.*.*' -o -name 'missing-parents-*.*.*' \) ! -name 'page-*.*.gz' -delete
  pages "$run" "$staged"
  for key in "$run/manifest.json" "$summary"; do
    get "$key" > ".incoming/$key" || fail "$key cannot be read. Restore it, and start again."
  done
  grep -q '^  "manifestVersion": 1,$' "$staged/manifest.json" || fail "$run: unknown manifestVersion"
  # One page per line, so that a manifest of a million pages takes no memory.
  # A compressed page has the checksum of its file, too.
  sed -n 's/^    \({"page":.*}\),*$/\1/p' "$staged/manifest.json" |
    jq -r '"\(.storedSha256 // .sha256)  \(.key)"' > .incoming/checksums
  count=$(wc -l < .incoming/checksums) pages=$(jq .pages ".incoming/$summary")
  ((count == pages)) || fail "$run/manifest.json has $count pages instead of $pages"
  # Before the pages, the manifest may name a list of the parents that have none.
  { sed -E '/^  "(reportsAt|pages)":/,$d' "$staged/manifest.json"; echo '"pages": []}'; } |
    jq -r '.parents.missing // empty | "\(.sha256)  \(.key)"' >> .incoming/checksums
  # A run may have no page, if no parent exists.
  if [[ -s .incoming/checksums ]] && ! (cd .incoming && LC_ALL=C sha256sum --check --quiet checksums > failed); then
    cat .incoming/failed >&2
    # Otherwise, the next start would not fetch it again.
    (cd .incoming && sed -n 's/: FAILED$//p' failed | xargs rm -f)
    fail "$run: an object does not match the manifest. Start again, and restore it if it fails again."
  fi
  # Process the run in the folder $staged here, before it counts as copied.
  mv "$staged" "$run"
  jq -r '"run \(.run): \(.pages) pages"' "$summary"
done < .incoming/new
