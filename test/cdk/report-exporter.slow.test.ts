/** The construct in the stack of another app. */

import { Aws, Duration, Fn, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AttributeType, Table, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { ReportExporter, type ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { isExportError } from '../../lib/core/errors.ts';
import { readServiceMetadata, serviceMetadataKey, serviceOutputSchema } from '../../lib/settings/stack-output.ts';
import { anApp, aSchedule, deploy, outputsOf, resource, resourcesOf } from '../support/aws/cdk-deployment.ts';

type Stores = { readonly [Store in 'bucket' | 'table' | 'secret']: NonNullable<ReportExporterProps[Store]> };

function anotherStack(app = anApp(), id = 'Another') {
  const stack = new Stack(app, id);
  const stores = {
    bucket: new Bucket(stack, 'Bucket'),
    // TableV2 works as well.
    table: new TableV2(stack, 'Table', {
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      sortKey: { name: 'sk', type: AttributeType.STRING },
    }),
    secret: new Secret(stack, 'Secret'),
  } as Stores;
  return { app, stack, stores };
}

const service = { baseUrl: 'https://reports.example.com' };
const nightly = { name: 'nightly', schedule: aSchedule() };

/** The problems in the ConfigurationError that creating the construct throws. */
function problemsOf(create: () => ReportExporter): string[] {
  try {
    create();
    return [];
  } catch (error) {
    if (isExportError(error, 'ConfigurationError')) return error.message.split('\n');
    throw error;
  }
}

describe('a ReportExporter in another stack', () => {
  it('is found by report-exporter --stack: the stack has the output of the service', () => {
    const stack = new Stack(anApp(), 'Another');
    const parent = new Construct(stack, 'Team');
    new ReportExporter(parent, 'EuReports', { service, exports: [nightly], name: 'eu-reports', secretField: 'key' });
    const template = Template.fromStack(stack);
    const machine = resource(template, 'AWS::StepFunctions::StateMachine');
    const output = serviceOutputSchema.parse(JSON.parse(outputsOf(template)['EuReportsService'] ?? ''));
    expect(output).toMatchObject({ service: 'eu-reports', stateMachineId: machine.id, apiKeyField: 'key' });
    expect(readServiceMetadata(machine.Metadata?.[serviceMetadataKey])).toMatchObject({
      schedules: { nightly: { enabled: true } },
    });
  });

  it('needs only the service and its exports, and creates the bucket, the table and the secret', () => {
    const stack = new Stack(anApp(), 'Another');
    const reports = new ReportExporter(stack, 'Reports', { service, exports: [nightly] });
    expect(reports).toMatchObject({ serviceName: 'reports', prefix: '', exportNames: ['nightly'] });
    const template = Template.fromStack(stack);
    const bucket = resource(template, 'AWS::S3::Bucket');
    const table = resource(template, 'AWS::DynamoDB::Table');
    const secret = resource(template, 'AWS::SecretsManager::Secret');
    expect(
      resource(template, 'AWS::Lambda::Function', 'ReportsExportPage').Properties.Environment.Variables,
    ).toMatchObject({
      SERVICE_NAME: 'reports',
      BUCKET_NAME: { Ref: bucket.id },
      KEY_PREFIX: '',
      BUCKET_KMS_KEY_ARN: '',
      TABLE_NAME: { Ref: table.id },
      API_KEY_SECRET_ID: { Ref: secret.id },
      API_KEY_SECRET_FIELD: '',
    });
    expect(stack.resolve([reports.bucket.bucketName, reports.table.tableName, reports.secret?.secretArn])).toEqual(
      [bucket, table, secret].map(({ id }) => ({ Ref: id })),
    );
    expect([bucket, table, secret].map(({ DeletionPolicy }) => DeletionPolicy)).toEqual([
      'RetainExceptOnCreate',
      'Retain',
      'RetainExceptOnCreate',
    ]);
    const alarms = Object.keys(resourcesOf(template, 'AWS::CloudWatch::Alarm')).map((id) => id.slice(0, -8));
    expect(alarms).toEqual(expect.arrayContaining(['ReportsTableReadsThrottled', 'ReportsTableWritesThrottled']));
  });

  it('creates the same bucket, table and secret as the stack', () => {
    const stack = new Stack(anApp(), 'Another');
    new ReportExporter(stack, 'Reports', { service, exports: [nightly], name: 'acme' });
    const template = Template.fromStack(stack);
    const fromStack = deploy().template;
    for (const type of ['AWS::S3::Bucket', 'AWS::DynamoDB::Table', 'AWS::SecretsManager::Secret']) {
      const [own, stacks] = [resource(template, type), resource(fromStack, type)];
      expect(own.Properties).toEqual(stacks.Properties);
      expect(own.DeletionPolicy).toBe(stacks.DeletionPolicy);
    }
    // It refers to the bucket, which has another ID.
    expect(resource(template, 'AWS::S3::BucketPolicy').DeletionPolicy).toBe('RetainExceptOnCreate');
  });

  it('creates none that is given, and no alarms of a table that is given', () => {
    const { stack, stores } = anotherStack();
    const reports = new ReportExporter(stack, 'Reports', { service, exports: [nightly], ...stores });
    expect(reports).toMatchObject({ bucket: stores.bucket, table: stores.table, secret: stores.secret });
    const template = Template.fromStack(stack);
    for (const type of ['AWS::S3::Bucket', 'AWS::SecretsManager::Secret']) {
      expect(resource(template, type).id).not.toMatch(/^Reports/);
    }
    template.resourceCountIs('AWS::DynamoDB::Table', 0);
    const alarms = Object.keys(resourcesOf(template, 'AWS::CloudWatch::Alarm'));
    expect(alarms.filter((id) => id.includes('Table'))).toEqual([]);
    expect(alarms.length).toBeGreaterThan(5);
  });

  it('writes to a given bucket with its key, or with the one that is given for it', () => {
    const keyArn = (digit: string) =>
      `arn:aws:kms:eu-central-1:123456789012:key/${'11111111-2222-3333-4444-555555555555'.replaceAll(/\d/g, digit)}`;
    const keyOf = (props: (given: IKey) => object) => {
      const stack = new Stack(anApp(), 'Another');
      const [ofBucket, given] = ['1', '2'].map((digit) => Key.fromKeyArn(stack, `Key${digit}`, keyArn(digit))) as [
        IKey,
        IKey,
      ];
      const bucket = Bucket.fromBucketAttributes(stack, 'Bucket', {
        bucketName: 'our-bucket',
        encryptionKey: ofBucket,
      });
      new ReportExporter(stack, 'Reports', { service, exports: [nightly], bucket, ...props(given) });
      const { Environment } = resource(
        Template.fromStack(stack),
        'AWS::Lambda::Function',
        'ReportsExportPage',
      ).Properties;
      return Environment.Variables.BUCKET_KMS_KEY_ARN as unknown;
    };
    expect(keyOf((encryptionKey) => ({ encryptionKey }))).toBe(keyArn('1'));
    expect(keyOf((bucketEncryptionKey) => ({ bucketEncryptionKey }))).toBe(keyArn('2'));
  });

  it('has a name from its path in the stack, which fits into 30 characters', () => {
    const app = anApp();
    let stackCount = 0;
    const nameOf = (...ids: readonly string[]) => {
      const stack: Construct = new Stack(app, `Stack${(stackCount += 1)}`);
      const scope = ids.slice(0, -1).reduce((parent, id) => new Construct(parent, id), stack);
      return new ReportExporter(scope, ids.at(-1) ?? '', { service, exports: [nightly] }).serviceName;
    };
    expect(nameOf('Reports')).toBe('reports');
    expect(nameOf('Data', 'EU_Reports')).toBe('data-eu-reports');
    expect(nameOf('2026')).toBe('default');
    const [first, second] = [nameOf(`${'a'.repeat(40)}1`), nameOf(`${'a'.repeat(40)}2`)];
    for (const name of [first, second]) expect(name).toMatch(/^a{21}-[0-9a-f]{8}$/);
    expect(first).not.toBe(second);
  });

  it('has the schedules by export, their group and the dead-letter queue, if there are schedules', () => {
    const { stack, stores } = anotherStack();
    const reports = new ReportExporter(stack, 'Reports', {
      service,
      exports: [nightly, { name: 'manual' }],
      ...stores,
    });
    expect([...reports.schedules.keys()]).toEqual(['nightly']);
    const template = Template.fromStack(stack);
    const idOf = (type: string) => resource(template, type).id;
    expect(stack.resolve(reports.schedules.get('nightly')?.scheduleName)).toEqual({
      Ref: idOf('AWS::Scheduler::Schedule'),
    });
    expect(reports.scheduleGroup?.scheduleGroupName).toBe(
      resource(template, 'AWS::Scheduler::ScheduleGroup').Properties.Name,
    );
    expect(stack.resolve(reports.deadLetterQueue?.queueArn)).toEqual({
      'Fn::GetAtt': [idOf('AWS::SQS::Queue'), 'Arn'],
    });

    const manual = new ReportExporter(anotherStack().stack, 'Manual', { service, exports: [{ name: 'a' }], ...stores });
    expect(manual.schedules.size).toBe(0);
    expect(manual.scheduleGroup).toBeUndefined();
    expect(manual.deadLetterQueue).toBeUndefined();
  });

  it('has its name, prefix, secret field, alarms and log retention from the props', () => {
    const { stack, stores } = anotherStack();
    const props = { name: 'acme', prefix: 'acme/', secretField: 'apiKey', alarmsPerExport: false, logRetention: 7 };
    new ReportExporter(stack, 'Acme', { service, exports: [nightly], ...props, ...stores });
    const template = Template.fromStack(stack);
    expect(
      resource(template, 'AWS::Lambda::Function', 'AcmeExportPage').Properties.Environment.Variables,
    ).toMatchObject({
      SERVICE_NAME: 'acme',
      KEY_PREFIX: 'acme/',
      BUCKET_KMS_KEY_ARN: '',
      API_KEY_SECRET_FIELD: 'apiKey',
    });
    const alarms = Object.keys(resourcesOf(template, 'AWS::CloudWatch::Alarm'));
    expect(alarms.filter((id) => id.startsWith('AcmeExports'))).toEqual([expect.stringContaining('nightlyNotFresh')]);
    expect(resource(template, 'AWS::Logs::LogGroup', 'AcmeStateMachineLogs').Properties.RetentionInDays).toBe(7);
  });

  it('rejects invalid settings, with all problems', () => {
    const { stack, stores } = anotherStack();
    const exports = [{ name: 'a b', size: 11 }, { name: 'ok' }, { name: 'ok' }];
    const names = { name: 'Reports', prefix: '/a', lifecycle: { expireAfterDays: 90 } };
    expect(
      problemsOf(
        () => new ReportExporter(stack, 'Invalid', { service: { baseUrl: 'x' }, exports, ...names, ...stores }),
      ),
    ).toEqual([
      expect.stringMatching(/^Another\/Invalid name: must be 1 to 30 lower-case letters/),
      expect.stringMatching(/^Another\/Invalid prefix: must be empty, or end with a slash/),
      expect.stringMatching(/^Another\/Invalid service\.baseUrl: must be a URL/),
      expect.stringMatching(/^Another\/Invalid exports\[0\]\.name: /),
      expect.stringMatching(/^Another\/Invalid exports\[0\]\.size: /),
      'Another/Invalid exports[2].name: is the same as exports[1].name: names must be unique',
      expect.stringMatching(/^Another\/Invalid lifecycle: must not be set with bucket/),
    ]);
    expect(problemsOf(() => new ReportExporter(stack, 'Empty', { service, exports: [], ...stores }))).toEqual([
      'Another/Empty exports: must have at least one export',
    ]);
  });

  it('rejects exports with similar names, and exports that Lambda cannot run', () => {
    const { stack, stores } = anotherStack();
    const exports = [{ name: 'daily' }, { name: 'slow', maxInlineWait: 'PT14M' }, { name: 'Daily' }, { name: 'daily' }];
    expect(problemsOf(() => new ReportExporter(stack, 'Reports', { service, exports, ...stores }))).toEqual([
      expect.stringMatching(/^Another\/Reports exports\[2\]\.name: is too similar to exports\[0\]\.name/),
      'Another/Reports exports[3].name: is the same as exports[0].name: names must be unique',
      expect.stringMatching(/^Another\/Reports exports\[1\]: one page may take/),
    ]);
  });

  it('rejects settings that are known only at deployment, wherever they are', () => {
    const { stack, stores } = anotherStack();
    const exports = [
      { name: 'first', maxPages: Duration.days(1).toSeconds() },
      { name: 'nightly', filter: { accounts: ['1', Aws.ACCOUNT_ID], ids: Fn.split(',', Aws.ACCOUNT_ID) } },
      { name: 'daily', schedule: aSchedule({ timeZone: Fn.importValue('TimeZone') }) },
    ];
    const tokens = {
      service: { baseUrl: `https://${stores.bucket.bucketName}.example.com` },
      prefix: `${Aws.REGION}/`,
    };
    const problems = problemsOf(() => new ReportExporter(stack, 'Reports', { exports, ...tokens, ...stores }));
    expect(
      problems.map((problem) => problem.split(': is a CDK token, whose value is known only at deployment.')[0]),
    ).toEqual([
      'Another/Reports prefix',
      'Another/Reports service.baseUrl',
      'Another/Reports exports[1].filter.ids',
      'Another/Reports exports[2].schedule.timeZone',
      'Another/Reports exports[1].filter.accounts[1]',
    ]);
  });
});

describe('two ReportExporters', () => {
  const create = (stack: Stack, id: string, stores: Stores, props: object) => () =>
    new ReportExporter(stack, id, { service, exports: [{ name: id.toLowerCase() }], ...stores, ...props });

  it('may use the same stores with different names, prefixes and exports', () => {
    const { stack, stores } = anotherStack();
    create(stack, 'Eu', stores, { name: 'eu', prefix: 'eu/' })();
    create(stack, 'Us', stores, { name: 'us', prefix: 'us/' })();
    // Not a beginning: folders are compared with their slash.
    create(stack, 'Eu2', stores, { name: 'eu-2', prefix: 'eu-2/' })();
    expect(Object.keys(resourcesOf(Template.fromStack(stack), 'AWS::StepFunctions::StateMachine'))).toHaveLength(3);
  });

  it('may share what the first has created', () => {
    const stack = new Stack(anApp(), 'Another');
    const first = new ReportExporter(stack, 'Eu', { service, exports: [{ name: 'eu' }], prefix: 'eu/' });
    const { bucket, table, secret } = first;
    new ReportExporter(stack, 'Us', { service, exports: [{ name: 'us' }], prefix: 'us/', bucket, table, secret });
    const template = Template.fromStack(stack);
    for (const type of ['AWS::S3::Bucket', 'AWS::DynamoDB::Table', 'AWS::SecretsManager::Secret']) {
      template.resourceCountIs(type, 1);
    }
    const alarms = Object.keys(resourcesOf(template, 'AWS::CloudWatch::Alarm'));
    expect(alarms.filter((id) => id.includes('Table'))).toHaveLength(2);
  });

  it('must not have the same name in a stack, because metrics of both would be added up', () => {
    const stack = new Stack(anApp(), 'Another');
    new ReportExporter(stack, 'First', { service, exports: [{ name: 'first' }], name: 'acme' });
    expect(
      problemsOf(() => new ReportExporter(stack, 'Second', { service, exports: [{ name: 'second' }], name: 'acme' })),
    ).toEqual(['Another/Second name: Another/First has the same name and stack; set another name']);
  });

  it('must not have the same name in a table, and none may have a prefix that begins with the other’s', () => {
    const { app, stack, stores } = anotherStack();
    create(stack, 'First', stores, { prefix: 'a/b/' })();
    for (const prefix of ['', 'a/', 'a/b/', 'a/b/c/']) {
      expect(problemsOf(create(stack, `Same${prefix.length}`, stores, { prefix, name: `n${prefix.length}` }))).toEqual([
        expect.stringMatching(
          /^Another\/Same\d prefix: Another\/First has the same bucket and the prefix "a\/b\/"; set prefixes of/,
        ),
      ]);
    }
    // A construct that was rejected does not count.
    expect(problemsOf(create(stack, 'Valid', stores, { prefix: 'x/', name: 'valid' }))).toEqual([]);
    // In another stack as well.
    expect(problemsOf(create(new Stack(app, 'Third'), 'First', stores, { prefix: 'c/' }))).toEqual([
      'Third/First name: Another/First has the same name and table; set another name',
    ]);
  });

  it('must not have exports with similar names in one stack, because operators find an export by its name alone', () => {
    const { app, stack, stores } = anotherStack();
    create(stack, 'First', stores, { name: 'first', prefix: 'first/' })();
    const second = { name: 'second', prefix: 'second/', exports: [{ name: 'ok' }, { name: 'FIRST' }] };
    expect(problemsOf(create(stack, 'Second', stores, second))).toEqual([
      'Another/Second exports: Another/First in the same stack has an export with a similar name, first; use another name',
    ]);
    expect(problemsOf(create(new Stack(app, 'Third'), 'Second', stores, second))).toEqual([]);
  });

  it('may have the same name with tables and buckets of their own', () => {
    const { app, stack, stores } = anotherStack();
    create(stack, 'First', stores, {})();
    const other = anotherStack(app, 'Other');
    expect(problemsOf(create(other.stack, 'Second', other.stores, {}))).toEqual([]);
    // The same table, imported twice.
    const imported = (id: string) => Table.fromTableName(other.stack, id, 'page-log') as Stores['table'];
    const third = { ...other.stores, table: imported('One') };
    create(other.stack, 'Third', third, { name: 'third', prefix: 'third/' });
    const props = (prefix: string) => ({ name: 'imported', prefix });
    const bucket = new Bucket(other.stack, 'Bucket2') as Stores['bucket'];
    create(other.stack, 'Fourth', { ...third, bucket }, props('x/'))();
    expect(problemsOf(create(other.stack, 'Fifth', { ...third, bucket, table: imported('Two') }, props('y/')))).toEqual(
      ['Other/Fifth name: Other/Fourth has the same name and table; set another name'],
    );
  });
});
