/** Several services in one stack. The roles of two services: permissions.test.ts. */

import { describe, expect, it } from 'vitest';
import { serviceOutputSchema } from '../../lib/settings/stack-output.ts';
import {
  aSchedule,
  deployWith,
  outputsOf,
  resource,
  resourcesOf,
  someServices,
} from '../support/aws/cdk-deployment.ts';

const { template, stack } = deployWith(
  someServices({
    bucket: { prefix: 'team/' },
    services: {
      'eu-reports': { baseUrl: 'https://eu.example.com' },
      us: {
        baseUrl: 'https://us.example.com',
        apiKeySecret: { existing: 'our/key', field: 'us' },
        apiKeyEnv: 'US_KEY',
      },
    },
    exports: [
      { name: 'nightly', service: 'eu-reports', schedule: aSchedule() },
      { name: 'us-nightly', service: 'us' },
      { name: 'monthly', service: 'eu-reports' },
    ],
  }),
);
const outputs = outputsOf(template);

describe('services of a stack', () => {
  it('share the bucket, the table, the alarm topic with its key, and the dashboard', () => {
    for (const type of ['S3::Bucket', 'DynamoDB::Table', 'SNS::Topic', 'KMS::Key', 'CloudWatch::Dashboard']) {
      expect(Object.keys(resourcesOf(template, `AWS::${type}`))).toHaveLength(1);
    }
  });

  it('each have a state machine, four functions, a secret, and what schedules need if there are any', () => {
    const count = (type: string, service: string) =>
      Object.keys(resourcesOf(template, `AWS::${type}`)).filter((id) => id.startsWith(`Services${service}`)).length;
    for (const service of ['eureports', 'us']) {
      expect(count('StepFunctions::StateMachine', service)).toBe(1);
      expect(count('Lambda::Function', service)).toBe(4);
      expect(count('Logs::LogGroup', service)).toBe(5);
    }
    expect(count('Scheduler::ScheduleGroup', 'eureports')).toBe(1);
    expect(count('SQS::Queue', 'eureports')).toBe(1);
    expect(count('Scheduler::ScheduleGroup', 'us')).toBe(0);
    expect(count('SQS::Queue', 'us')).toBe(0);
    // That of the other service exists.
    expect(Object.keys(resourcesOf(template, 'AWS::SecretsManager::Secret'))).toEqual([
      expect.stringMatching(/^ServiceseureportsApiKey/),
    ]);
  });

  it('each have their own name, prefix and secret in the environment of their functions', () => {
    const variablesOf = (service: string) =>
      resource(template, 'AWS::Lambda::Function', `Services${service}ExportPage`).Properties.Environment.Variables;
    expect(variablesOf('eureports')).toMatchObject({
      SERVICE_NAME: 'eu-reports',
      KEY_PREFIX: 'team/eu-reports/',
      BUCKET_KMS_KEY_ARN: '',
      API_KEY_SECRET_ID: { Ref: resource(template, 'AWS::SecretsManager::Secret').id },
      API_KEY_SECRET_FIELD: '',
    });
    expect(variablesOf('us')).toMatchObject({
      SERVICE_NAME: 'us',
      KEY_PREFIX: 'team/us/',
      BUCKET_KMS_KEY_ARN: '',
      API_KEY_SECRET_ID: 'our/key',
      API_KEY_SECRET_FIELD: 'us',
    });
  });

  it('have outputs that begin with their names', () => {
    expect(Object.keys(outputs).sort()).toEqual([
      'AlarmTopicArn',
      'BucketName',
      'DashboardName',
      'EuReportsApiKeySecretId',
      'EuReportsService',
      'EuReportsStartCommand',
      'TableName',
      'UsApiKeySecretId',
      'UsService',
      'UsStartCommand',
    ]);
    const outputOf = (name: string) => serviceOutputSchema.parse(JSON.parse(outputs[name] ?? ''));
    expect(outputOf('EuReportsService')).toMatchObject({
      service: 'eu-reports',
      prefix: 'team/eu-reports/',
      stateMachineId: resource(template, 'AWS::StepFunctions::StateMachine', 'Serviceseureports').id,
    });
    expect(outputOf('UsService')).toMatchObject({ service: 'us', prefix: 'team/us/', apiKeyField: 'us' });
    expect(outputs.UsStartCommand).toMatch(/ --input '\{"export":"us-nightly"\}'$/);
    expect(outputs.UsApiKeySecretId).toBe('our/key');
  });

  it('are constructs of the stack, in the order of the settings', () => {
    expect(stack.services.map(({ serviceName, exportNames }) => [serviceName, exportNames])).toEqual([
      ['eu-reports', ['nightly', 'monthly']],
      ['us', ['us-nightly']],
    ]);
  });
});
