#!/usr/bin/env bash
# Collects what CloudFormation needs from the output of `cdk synth`: the template, as template.json, the tags of the stack, as tags.json, its
# name, as stack.txt, and each asset under the key that the template expects in the bucket. Upload the assets, then create or update the stack.
# Usage: package.sh STACK [ASSEMBLY] [TARGET], by default cdk.out and dist. Needs jq and zip.
set -euo pipefail
[[ $# -ge 1 && $# -le 3 ]] || { echo 'Usage: package.sh STACK [ASSEMBLY] [TARGET]' >&2; exit 2; }
stack=$1 assembly=${2:-cdk.out} target=${3:-dist}
[[ -e $assembly/$stack.assets.json ]] || { echo "$assembly has no stack $stack. Run cdk synth first." >&2; exit 1; }

mkdir -p "$target"
target=$(cd "$target" && pwd)
cp "$assembly/$stack.template.json" "$target/template.json"
jq --arg stack "$stack" '.artifacts[$stack].properties.tags // {} | to_entries | map("\(.key)=\(.value)")' \
  "$assembly/manifest.json" >"$target/tags.json"
jq -r --arg stack "$stack" '.artifacts[$stack].properties.stackName // $stack' "$assembly/manifest.json" >"$target/stack.txt"
jq -r --arg template "$stack.template.json" '.files[] | select(.source.path != $template)
  | [.source.packaging, .source.path, .destinations[].objectKey] | @tsv' "$assembly/$stack.assets.json" |
  while IFS=$'\t' read -r packaging path key; do
    # The key has a hash of the content.
    [[ -e $target/$key ]] && continue
    mkdir -p "$(dirname "$target/$key")"
    rm -f "$target/incomplete.zip"
    case $packaging in
      zip) (cd "$assembly/$path" && zip -q -X -r "$target/incomplete.zip" .) ;;
      *) cp "$assembly/$path" "$target/incomplete.zip" ;;
    esac
    mv "$target/incomplete.zip" "$target/$key"
  done
