/** Several services in one stack. The roles of two services: permissions.test.ts. */

import { describe, expect, it } from 'vitest';
import { serviceOutputSchema } from '../../lib/settings/stack-output.ts';
import { aSchedule, deployWith, outputsOf, resource, someServices } from '../support/aws/cdk-deployment.ts';

const { template } = deployWith(
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
});
