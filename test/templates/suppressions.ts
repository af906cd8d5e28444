/** The findings of the linters that do not apply, each with its reason. One that nothing needs any more is an error. */

export interface Suppression {
  readonly rule: string;
  /** The types of the resources, or the beginning of the logical ID. */
  readonly resource: RegExp;
  readonly reason: string;
}

export const suppressions: readonly Suppression[] = [
  {
    rule: 'W3005',
    resource: /^Services/,
    reason:
      'CDK makes functions, state machines and schedules depend on the policies of their role, and so on the role as well',
  },
  {
    rule: 'CKV_AWS_18',
    resource: /^AWS::S3::Bucket\./,
    reason:
      'CloudTrail data events record access, and are configured per account; for server access logs, import an existing bucket',
  },
  {
    rule: 'CKV_AWS_119',
    resource: /^AWS::DynamoDB::Table\./,
    reason: 'The setting kmsKeyArn selects a customer managed key; without it, the key of DynamoDB encrypts the table',
  },
  {
    rule: 'CKV_AWS_149',
    resource: /^AWS::SecretsManager::Secret\./,
    reason: 'The setting kmsKeyArn selects a customer managed key; without it, aws/secretsmanager encrypts the secret',
  },
  {
    rule: 'CKV_AWS_158',
    resource: /^AWS::Logs::LogGroup\./,
    reason: 'CloudWatch Logs encrypts all logs with a key of its own, and they contain no reports and no API key',
  },
  {
    rule: 'CKV_AWS_116',
    resource: /^AWS::Lambda::Function\./,
    reason:
      'A dead-letter queue receives asynchronous invocations; Step Functions invokes synchronously, retries and records failures',
  },
  {
    rule: 'CKV_AWS_117',
    resource: /^AWS::Lambda::Function\./,
    reason:
      'The functions run in a VPC if one is given; without one they reach no private network that they could expose',
  },
  {
    rule: 'CKV_AWS_115',
    resource: /^AWS::Lambda::Function\./,
    reason:
      'An account with the initial quota cannot reserve concurrency, and each execution invokes one function at a time',
  },
  {
    rule: 'CKV_AWS_173',
    resource: /^AWS::Lambda::Function\./,
    reason: 'Lambda encrypts all variables with a key of its own, and they contain names of resources, but no secret',
  },
  {
    rule: 'CKV_AWS_27',
    resource: /^AWS::SQS::Queue\./,
    reason:
      'SQS encrypts the queue (SqsManagedSseEnabled), which this rule does not know; its messages name an export and a time',
  },
];
