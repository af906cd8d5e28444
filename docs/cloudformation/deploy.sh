#!/usr/bin/env bash
# Uploads what package.sh has collected, and creates or updates the stack with CloudFormation.
# Usage: deploy.sh STACK BUCKET [SOURCE], by default dist. BUCKET is the fileAssetsBucketName of the app, in the region of the stack.
# Needs the AWS CLI, and neither Node.js nor CDK.
set -euo pipefail
[[ $# -ge 2 && $# -le 3 ]] || { echo 'Usage: deploy.sh STACK BUCKET [SOURCE]' >&2; exit 2; }
stack=$1 bucket=$2 source=${3:-dist}

# The names of log groups and metrics in the template contain it.
synthesized=$(<"$source/stack.txt")
if [[ $stack != "$synthesized" ]]; then
  echo "The template was synthesized for the stack $synthesized. Set stackName to $stack in the settings, and synthesize again." >&2
  exit 2
fi
status=$(aws cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].StackStatus' --output text 2>/dev/null || true)
if [[ $status == ROLLBACK_COMPLETE ]]; then
  # As the CDK CLI does: such a stack can only be deleted.
  echo "The creation of the stack $stack has failed before. Deleting what is left of it."
  aws cloudformation delete-stack --stack-name "$stack"
  aws cloudformation wait stack-delete-complete --stack-name "$stack"
fi

aws s3 sync --only-show-errors --size-only --exclude template.json --exclude tags.json --exclude stack.txt "$source" "s3://$bucket"
aws cloudformation deploy --stack-name "$stack" --template-file "$source/template.json" --s3-bucket "$bucket" \
  --tags "file://$source/tags.json" --capabilities CAPABILITY_IAM --no-fail-on-empty-changeset
