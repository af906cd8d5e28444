/** The settings with which a stack fits the rules of an AWS account, in the template. */

import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import * as cdk from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { ReportExporter, type ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { ReportExporterStack, type ReportExporterStackProps } from '../../lib/cdk/stack.ts';
import { runFolder, latestKey } from '../../lib/core/storage/keys.ts';
import { aRun } from '../support/builders.ts';
import {
  anApp,
  deploy,
  deployWith,
  resource,
  resourcesOf,
  type SomeSettings,
  someServices,
  someSettings,
  textOf,
  outputsOf,
} from '../support/aws/cdk-deployment.ts';

const service = { baseUrl: 'https://reports.example.com' };

function aService(props: Partial<ReportExporterProps>) {
  const app = anApp();
  const stack = new Stack(app, 'Another');
  const reports = new ReportExporter(stack, 'Reports', { service, exports: [{ name: 'nightly' }], ...props });
  return { app, stack, reports, template: Template.fromStack(stack) };
}

const exportPageOf = (template: Template) =>
  Object.entries(resourcesOf(template, 'AWS::Lambda::Function')).find(([id]) => id.includes('ExportPage'))?.[1]
    .Properties;

const actionsOf = (template: Template, roleName: string): string[] =>
  Object.entries(resourcesOf(template, 'AWS::IAM::Policy'))
    .filter(([id]) => id.includes(roleName))
    .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement)
    .flatMap(({ Action }: { Action: string | string[] }) => Action);

describe('a stack without these settings', () => {
  it('has the same template as one with their defaults', () => {
    const explicit = deploy({
      tracing: true,
      service: { ...service, vendor: 'ACME', exportPage: { memoryMebibytes: 512 } },
      terminationProtection: false,
      env: {},
      bucket: { objectTags: {} },
    });
    expect(explicit.template.toJSON()).toEqual(deploy().template.toJSON());
  });
});

describe('bucket.lifecycle', () => {
  const lifecycle = {
    expireAfterDays: 365,
    transitions: [
      { storageClass: 'STANDARD_IA', afterDays: 30 },
      { storageClass: 'DEEP_ARCHIVE', afterDays: 90 },
    ],
  };
  const rulesOf = (template: Template) =>
    resource(template, 'AWS::S3::Bucket').Properties.LifecycleConfiguration.Rules as { Prefix?: string }[];
  const { template } = deployWith(someServices({ bucket: { prefix: 'team/', lifecycle } }));

  it('is a rule for the runs of each export, after the one for unfinished uploads', () => {
    expect(rulesOf(template)).toEqual([
      expect.objectContaining({ Id: 'unfinished-uploads' }),
      ...['team/eu/eu-nightly/date=', 'team/us/us-nightly/date='].map((Prefix) => ({
        Prefix,
        Status: 'Enabled',
        Transitions: [
          { StorageClass: 'STANDARD_IA', TransitionInDays: 30 },
          { StorageClass: 'DEEP_ARCHIVE', TransitionInDays: 90 },
        ],
        ExpirationInDays: 365,
        NoncurrentVersionExpiration: { NoncurrentDays: 30 },
      })),
    ]);
  });

  it('applies to pages and manifests, and never to latest.json', () => {
    const [, { Prefix = '' } = {}] = rulesOf(template);
    const run = aRun({ export: 'eu-nightly' });
    expect(`team/eu/${runFolder(run)}/manifest.json`.startsWith(Prefix)).toBe(true);
    expect(`team/eu/${latestKey('eu-nightly')}`.startsWith(Prefix)).toBe(false);
  });

  it('may only move objects, or keep what has expired for another time', () => {
    const moved = deploy({ bucket: { lifecycle: { transitions: [{ storageClass: 'GLACIER_IR', afterDays: 1 }] } } });
    expect(rulesOf(moved.template)[1]).toEqual({
      Prefix: 'acme/nightly/date=',
      Status: 'Enabled',
      Transitions: [{ StorageClass: 'GLACIER_IR', TransitionInDays: 1 }],
    });
    const kept = deploy({ bucket: { lifecycle: { expireAfterDays: 7, deleteNoncurrentAfterDays: 1 } } });
    expect(rulesOf(kept.template)[1]).toMatchObject({ NoncurrentVersionExpiration: { NoncurrentDays: 1 } });
  });

  it('is a prop of the construct, too, which rejects it for a bucket that is given', () => {
    const props = { lifecycle: { expireAfterDays: 7 }, prefix: 'x/' } as const;
    expect(rulesOf(aService(props).template)[1]).toMatchObject({ Prefix: 'x/nightly/date=', ExpirationInDays: 7 });
    const bucket = Bucket.fromBucketName(new Stack(), 'Bucket', 'our-bucket');
    expect(() => aService({ ...props, bucket })).toThrow(
      'Another/Reports lifecycle: must not be set with bucket: add the rules to that bucket (docs/bucket.md, "Age of pages")',
    );
  });
});

describe('bucket.storageClass and bucket.objectTags', () => {
  const tagged = deploy({
    bucket: { existing: 'our-bucket', storageClass: 'STANDARD_IA', objectTags: { team: 'a b' } },
  });

  it('need the permission to tag objects, for the two functions that store them', () => {
    for (const step of ['ExportPage', 'FinishRun']) {
      expect(actionsOf(tagged.template, step)).toContain('s3:PutObjectTagging');
    }
    for (const step of ['BeginRun', 'FailRun']) {
      expect(actionsOf(tagged.template, step)).not.toContain('s3:PutObjectTagging');
    }
    const withoutTags = deploy({ bucket: { storageClass: 'STANDARD_IA' } });
    expect(actionsOf(withoutTags.template, 'ExportPage')).not.toContain('s3:PutObjectTagging');
    const { template } = aService({ objectTags: { team: 'a' } });
    expect(actionsOf(template, 'ExportPage')).toContain('s3:PutObjectTagging');
  });
});

describe('bucket.compression', () => {
  it('is in the settings file of the functions, of the stack and of the construct', () => {
    const hashOf = (template: Template) => JSON.stringify(exportPageOf(template).Code);
    expect(hashOf(deploy({ bucket: { compression: 'gzip' } }).template)).not.toBe(hashOf(deploy().template));
    expect(hashOf(aService({ compression: 'gzip' }).template)).not.toBe(hashOf(aService({}).template));
  });
});

describe('the settings of functions', () => {
  it('exportPage sets memory and reserved concurrency of ExportPage alone', () => {
    const exportPage = { memoryMebibytes: 1_024, reservedConcurrency: 5 };
    for (const { template } of [deploy({ service: { ...service, exportPage } }), aService({ exportPage })]) {
      expect(exportPageOf(template)).toMatchObject({ MemorySize: 1_024, ReservedConcurrentExecutions: 5 });
      // The command doctor reads it.
      expect(Object.values(outputsOf(template)).join()).toContain('"reservedConcurrency":5');
      const functions = Object.values(resourcesOf(template, 'AWS::Lambda::Function'));
      const reserved = functions.filter(({ Properties }) => 'ReservedConcurrentExecutions' in Properties);
      expect(reserved).toHaveLength(1);
    }
    expect(exportPageOf(deploy().template)).not.toHaveProperty('ReservedConcurrentExecutions');
  });

  it('tracing switches X-Ray off, with its permissions', () => {
    for (const { app, template } of [deploy({ tracing: false }), aService({ tracing: false })]) {
      for (const { Properties } of Object.values(resourcesOf(template, 'AWS::Lambda::Function'))) {
        expect(Properties).not.toHaveProperty('TracingConfig');
      }
      const { TracingConfiguration } = resource(template, 'AWS::StepFunctions::StateMachine').Properties;
      expect(TracingConfiguration ?? { Enabled: false }).toEqual({ Enabled: false });
      expect(JSON.stringify(template.toJSON())).not.toContain('xray:');
      expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
    }
  });

  it('logLevel leaves out the lines of successful invocations, but no metrics: Lambda filters no application log', () => {
    const configOf = (template: Template) => exportPageOf(template).LoggingConfig;
    expect(configOf(deploy().template)).not.toHaveProperty('SystemLogLevel');
    for (const { template } of [deploy({ logLevel: 'ERROR' }), aService({ logLevel: 'ERROR' })]) {
      expect(configOf(template)).toMatchObject({ LogFormat: 'JSON', SystemLogLevel: 'WARN' });
      expect(configOf(template)).not.toHaveProperty('ApplicationLogLevel');
    }
  });
});

describe('the settings of the stack', () => {
  const stackWith = (settings: SomeSettings, props: Partial<ReportExporterStackProps> = {}) =>
    new ReportExporterStack(anApp(), 'Reports', { settings: someSettings(settings), ...props });
  const env = { account: '123456789012', region: 'eu-central-1' };

  it('are its account, its region and its termination protection', () => {
    const stack = stackWith({ env, terminationProtection: true });
    expect(stack).toMatchObject({ ...env, terminationProtection: true });
    expect(stack.environment).toBe('aws://123456789012/eu-central-1');
    // Without an account, any credentials will do.
    expect(stackWith({ env: { region: 'eu-central-1' } }).environment).toBe('aws://unknown-account/eu-central-1');
  });

  it('give way to the props of the app', () => {
    const settings = { env, terminationProtection: true };
    const props = { env: { region: 'us-east-1' }, terminationProtection: false };
    const stack = stackWith(settings, props);
    expect(stack).toMatchObject({ region: 'us-east-1', terminationProtection: false });
    // A prop that is undefined is not given.
    const absent = { env: undefined, terminationProtection: undefined } as object;
    expect(stackWith(settings, absent)).toMatchObject({ ...env, terminationProtection: true });
  });
});

describe('a permissions boundary', () => {
  const boundariesOf = (template: Template) =>
    Object.values(resourcesOf(template, 'AWS::IAM::Role')).map(({ Properties }) =>
      Properties.PermissionsBoundary === undefined ? undefined : textOf(Properties.PermissionsBoundary),
    );
  const six = (value: string) => Array(6).fill(value);

  it('is a prop of the stack: that of every role', () => {
    const stack = new ReportExporterStack(anApp(), 'Reports', {
      settings: someSettings(),
      permissionsBoundary: cdk.PermissionsBoundary.fromName('Prop'),
    });
    expect(boundariesOf(Template.fromStack(stack))).toEqual(
      six('arn:<AWS::Partition>:iam::<AWS::AccountId>:policy/Prop'),
    );
  });

  it('can be that of one construct, as CDK documents it', () => {
    const stack = new Stack(anApp(), 'Another');
    const schedule = { expression: 'rate(1 day)' };
    const reports = new ReportExporter(stack, 'Reports', { service, exports: [{ name: 'nightly', schedule }] });
    const policy = ManagedPolicy.fromManagedPolicyName(stack, 'Boundary', 'Boundary');
    cdk.aws_iam.PermissionsBoundary.of(reports).apply(policy);
    expect(boundariesOf(Template.fromStack(stack))).toEqual(
      six('arn:<AWS::Partition>:iam::<AWS::AccountId>:policy/Boundary'),
    );
  });
});

it('the settings together have no finding of cdk-nag that is not acknowledged', () => {
  const { app } = deploy({
    bucket: { lifecycle: { expireAfterDays: 30 }, storageClass: 'GLACIER_IR', objectTags: { team: 'a' } },
    service: { ...service, exportPage: { reservedConcurrency: 2 }, readerAccounts: ['210987654321'] },
    tracing: false,
    logLevel: 'ERROR',
    env: { account: '123456789012', region: 'eu-central-1' },
  });
  expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
});
