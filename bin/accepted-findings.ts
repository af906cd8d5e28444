/** The findings of cdk-nag that this app accepts, each with its reason. docs/cdk.md lists them for other apps. */

import { type App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';

const accepted: readonly (readonly [finding: RegExp, reason: string])[] = [
  [/-S1$/, 'CloudTrail data events, which are configured per account, record access to the bucket'],
  [/-SMG4$/, 'Only the issuer of the API key can rotate it; the functions read a new key within minutes'],
  [/-SQS3$/, 'The queue is the dead-letter queue of schedules'],
  [/-SF1$/, 'Step Functions keeps each history for 90 days, and the functions write a log line for each page'],
  [/-SF2$/, 'A log line for each page says more than a trace'],
  [/-IAM5\[Resource::\*\]$/, 'Log delivery and the Describe actions of EC2 have no resource-level permissions'],
  [/-IAM5\[Resource::(<\w+\.Arn>|arn:.*:s3:::[^/]*)\/.*\*\]$/, 'The objects of one service, by their prefix'],
  [/-IAM5\[Resource::arn:.*:execution:.*:\*\]$/, 'The executions of one state machine, whose names are generated'],
  [/-IAM5\[Resource::arn:.*:ec2:/, 'Lambda names the network interfaces; another account may share the subnets'],
];

/** Acknowledges the accepted findings. cdk-nag still reports every other one. */
export function acceptFindings(app: App): void {
  for (const { ruleName: id } of new AwsSolutionsChecks(app).validateScope(app).violations) {
    const [, reason] = accepted.find(([finding]) => finding.test(id)) ?? [];
    if (reason !== undefined) Validations.of(app).acknowledge({ id, reason });
  }
}
