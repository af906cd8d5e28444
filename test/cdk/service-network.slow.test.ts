/** Proxies, certificates and headers of a service in a deployment: what the functions get, and what they may read. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { describe, expect, it } from 'vitest';
import { ReportExporter } from '../../lib/cdk/report-exporter.ts';
import { functionSettings } from '../../lib/cdk/settings/deployed-export.ts';
import { deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { isExportError } from '../../lib/core/errors.ts';
import { anApp, deployWith, resourcesOf, someSettings, textOf } from '../support/aws/cdk-deployment.ts';
import { aDirectory } from '../support/process/command-line.ts';
import { createAuthority } from '../support/service/certificates.ts';

const authority = createAuthority({ name: 'Example CA' });
const baseUrl = 'https://reports.example.com';
const secretArn = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:reports/proxy-AbCdEf';
const kmsKeyArn = 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555';
const otherKeyArn = 'arn:aws:kms:eu-central-1:123456789012:key/99999999-2222-3333-4444-555555555555';
const everything = {
  baseUrl,
  proxyUrl: 'http://proxy.example:3128',
  proxyCredentialsSecret: secretArn,
  headers: { 'X-Tenant': 'acme' },
  tls: {
    ca: authority.cert,
    clientCertificateSecret: 'reports/client',
    clientCertificate: 'certs/client.pem',
    clientKey: 'certs/client.key',
    clientKeyPassphraseEnv: 'PASSPHRASE',
  },
};

/** The keys that the roles may use through Secrets Manager, sorted. CDK merges equal statements. */
function secretKeys(template: Template): string[] {
  return Object.values(resourcesOf(template, 'AWS::IAM::Policy'))
    .flatMap(({ Properties }) =>
      (Properties.PolicyDocument.Statement as { Resource: unknown; Condition?: unknown }[])
        .filter(({ Condition }) => /"kms:ViaService":.*secretsmanager/.test(JSON.stringify(Condition) ?? ''))
        .flatMap(({ Resource }) => [Resource].flat().map((each) => textOf(each))),
    )
    .sort();
}

/** The secrets that each role may read. */
function readableSecrets(template: Template): Record<string, string[]> {
  const policies = Object.entries(resourcesOf(template, 'AWS::IAM::Policy'));
  return Object.fromEntries(
    policies.flatMap(([id, { Properties }]) => {
      const statements = Properties.PolicyDocument.Statement as { Action: unknown; Resource: unknown }[];
      const resources = statements
        .filter(({ Action }) => [Action].flat().includes('secretsmanager:GetSecretValue'))
        .flatMap(({ Resource }) => [Resource].flat().map((each) => textOf(each)));
      return resources.length === 0 ? [] : [[id.replace(/RoleDefaultPolicy.*/, ''), resources]];
    }),
  );
}

/** The problems without what all begin with. */
function problemsOf(settings: object): string[] {
  try {
    deploymentSettings(settings);
    return [];
  } catch (error) {
    if (!isExportError(error, 'ConfigurationError')) throw error;
    return error.message.split('\n').map((line) => line.replace('settings ', ''));
  }
}

describe('the network settings of a service', () => {
  it('are deployed without what is for runs on this machine only', () => {
    const [service] = deploymentSettings(someSettings({ service: everything })).services;
    const { tls, ...others } = everything;
    if (service === undefined) throw new Error('no service');
    const deployed = functionSettings(service.service, []).service;
    expect(deployed).toMatchObject(others);
    expect(deployed.tls).toEqual({ ca: tls.ca, clientCertificateSecret: tls.clientCertificateSecret });
  });

  it('let ExportPage alone read the two secrets, with the key that encrypts them', () => {
    const { template } = deployWith(someSettings({ service: everything, kmsKeyArn }));
    const readable = Object.entries(readableSecrets(template));
    expect(readable).toHaveLength(1);
    const [[role, secrets] = ['', []]] = readable;
    expect(role).toMatch(/ExportPage$/);
    expect(secrets).toHaveLength(3);
    expect(secrets).toContainEqual(expect.stringMatching(/:secret:reports\/client-\?\?\?\?\?\?$/));
    expect(secrets).toContain(secretArn);
  });

  it.each([
    ['the common key, also if the API key has another', { kmsKeyArn: otherKeyArn }, [kmsKeyArn, otherKeyArn]],
    ['the common key', {}, [kmsKeyArn]],
  ])('decrypt the two secrets with %s', (_, apiKeySecret, expected) => {
    const inStack = deployWith(someSettings({ service: everything, apiKeySecret, kmsKeyArn })).template;
    expect(secretKeys(inStack)).toEqual(expected);
  });

  it('need no key for the two secrets if only the API key has one', () => {
    const apiKeySecret = { kmsKeyArn: otherKeyArn };
    expect(secretKeys(deployWith(someSettings({ service: everything, apiKeySecret })).template)).toEqual([otherKeyArn]);
  });

  it('appear in the template, except for paths of this machine', () => {
    const { template } = deployWith(someSettings({ service: everything }));
    const text = JSON.stringify(template.toJSON());
    expect(text).toContain('X-Tenant');
    expect(text).not.toMatch(/certs\/client|PASSPHRASE/);
  });

  it('have the content of the file in tls.ca, whose path is relative to the settings file', async () => {
    const directory = await aDirectory();
    mkdirSync(join(directory, 'certs'));
    writeFileSync(join(directory, 'certs/ca.pem'), `# notes\n${authority.cert}`);
    const file = join(directory, 'settings.json');
    writeFileSync(file, JSON.stringify(someSettings({ service: { baseUrl, tls: { ca: 'certs/ca.pem' } } })));
    expect(deploymentSettings(file).services[0]?.service.tls?.ca).toBe(authority.cert);
  });

  it.each([
    [{ tls: { ca: 'nowhere.pem' } }, 'tls.ca: nowhere.pem does not exist'],
    [{ tls: { ca: 'package.json' } }, 'tls.ca: package.json contains no certificate. Store it in PEM form'],
    [
      { tls: { clientCertificate: 'c.pem', clientKey: 'k.pem' } },
      'tls.clientCertificateSecret: is required on AWS with clientCertificate, which is for runs on this machine only',
    ],
    [{ proxyCredentialsSecret: 'reports/proxy' }, 'proxyUrl: is required with proxyCredentialsSecret'],
    [{ proxyUrl: 'http://u:p@proxy.example' }, 'proxyUrl: must not contain a user or password'],
    [{ headers: { 'X-ACME-API-KEY': 'x' } }, 'headers.X-ACME-API-KEY: must not be set'],
  ])('are rejected at synthesis: %j', (settings, problem) => {
    const service = { baseUrl, ...settings };
    expect(() => deploymentSettings(someSettings({ service }))).toThrow(`services.acme.${problem}`);
    const construct = () =>
      new ReportExporter(new Stack(anApp(), 'Own'), 'Reports', { service, exports: [{ name: 'a' }] });
    expect(construct).toThrow(`service.${problem}`);
  });

  it.each(
    Object.entries({
      apiKeySecret: { field: 'key' },
      apiKeyEnv: 'ACME_API_KEY',
      exportPage: { memoryMebibytes: 1_024 },
      readerAccounts: ['210987654321'],
    }).map(([field, value]) => ({ [field]: value })),
  )('are checked together with everything else, whatever else the service has: %j', (deploymentField) => {
    const service = {
      baseUrl,
      ...deploymentField,
      proxyCredentialsSecret: 'reports/proxy',
      tls: { ca: 'nowhere.pem', clientCertificate: 'c.pem', clientKey: 'k.pem' },
      totalTimeout: 'PT20M',
    };
    const settings = someSettings({ service, exports: [{ name: 'a' }, { name: 'a' }] });
    expect(problemsOf(settings)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^services\.acme\.tls\.ca: nowhere\.pem does not exist/),
        expect.stringMatching(/^services\.acme\.tls\.clientCertificateSecret: is required on AWS/),
        'services.acme.proxyUrl: is required with proxyCredentialsSecret',
        expect.stringMatching(/^exports\[0\]: one page may take \d+ s/),
        expect.stringMatching(/^exports\[1\]\.name: is the same/),
      ]),
    );
  });

  it('allow the port of the authorization server, which is reached directly', () => {
    const stack = new Stack(anApp(), 'Own');
    const vpc = new Vpc(stack, 'Vpc', { maxAzs: 1 });
    const api = {
      request: { path: '/logs' },
      auth: { kind: 'oauth2', tokenUrl: 'https://login.example.com:8443/token', clientId: 'exporter' },
      next: { from: 'link' },
      page: { format: 'json', reports: '/data/*' },
    } as const;
    const service = { baseUrl: 'https://reports.example.com', api };
    new ReportExporter(stack, 'Reports', { service, exports: [{ name: 'a' }], vpc });
    const groups = Object.values(resourcesOf(Template.fromStack(stack), 'AWS::EC2::SecurityGroup'));
    expect(groups.map(({ Properties }) => Properties.SecurityGroupEgress)).toMatchObject([
      [{ FromPort: 443 }, { FromPort: 8443 }],
    ]);
  });

  it('work in a construct, whose security group allows the port of the proxy', () => {
    const stack = new Stack(anApp(), 'Own');
    const vpc = new Vpc(stack, 'Vpc', { maxAzs: 1 });
    new ReportExporter(stack, 'Reports', { service: everything, exports: [{ name: 'a' }], vpc });
    const template = Template.fromStack(stack);
    expect(Object.values(readableSecrets(template))).toMatchObject([expect.arrayContaining([secretArn])]);
    const groups = Object.values(resourcesOf(template, 'AWS::EC2::SecurityGroup'));
    expect(groups.map(({ Properties }) => Properties.SecurityGroupEgress)).toMatchObject([
      [{ FromPort: 443 }, { FromPort: 3128 }],
    ]);
  });
});
