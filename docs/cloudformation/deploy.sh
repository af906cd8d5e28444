#!/usr/bin/env bash
# Uploads what package.sh has collected, and creates or updates the stack with CloudFormation.
# Usage: deploy.sh STACK BUCKET [SOURCE], by default dist. BUCKET is the fileAssetsBucketName of the app, in the region of the stack.
# Needs the AWS CLI, and neither Node.js nor CDK.
set -euo pipefail
[[ $# -ge 2 && $# -le 3 ]] || { echo 'Usage: deploy.sh STACK BUCKET [SOURCE]' >&2; exit 2; }
stack=$1 bucket=$2 source=${3:-dist}

aws s3 sync --only-show-errors --size-only --exclude template.json --exclude tags.json "$source" "s3://$bucket"
aws cloudformation deploy --stack-name "$stack" --template-file "$source/template.json" --s3-bucket "$bucket" \
  --tags "file://$source/tags.json" --capabilities CAPABILITY_IAM --no-fail-on-empty-changeset
