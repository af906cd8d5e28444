/** Synthesizes a stack as the CDK app does, without bundling the functions. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App, type Environment, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { ReportExporter, type ReportExporterProps } from '../../../lib/cdk/report-exporter.ts';
import { ReportExporterStack } from '../../../lib/cdk/stack.ts';
import { aSchedule, type SomeSettings, someSettings } from '../settings.ts';

/** The feature flags of cdk.json, which a deployment uses. */
const { context } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../cdk.json'), 'utf8'));

/** An app that does not bundle the functions. CDK's validation takes long: `check:templates` runs it. */
export function anApp(moreContext: object = {}, { isValidated = false } = {}): App {
  return new App({
    context: { ...context, 'aws:cdk:bundling-stacks': [], 'aws:cdk:enable-asset-metadata': true, ...moreContext },
    analyticsReporting: false,
    builtinCloudFormationValidation: isValidated,
  });
}

export interface Deployment {
  readonly app: App;
  readonly stack: ReportExporterStack;
  readonly template: Template;
}

/** The stack with the default settings and `overrides`. @throws ConfigurationError if the settings are invalid */
export const deploy = (overrides: SomeSettings = {}): Deployment => deployWith(someSettings(overrides));

const deployments = new Map<string, Deployment>();

/** The stack with these settings, which is synthesized once per file. @throws ConfigurationError if they are invalid */
export function deployWith(settings: object): Deployment {
  const key = JSON.stringify(settings);
  const deployment = deployments.get(key) ?? deployIn(anApp(), settings);
  deployments.set(key, deployment);
  return deployment;
}

export function deployIn(app: App, settings: object): Deployment {
  const stack = new ReportExporterStack(app, 'ReportExporter', { settings });
  return { app, stack, template: Template.fromStack(stack) };
}

interface ConstructDeployment {
  readonly app: App;
  readonly stack: Stack;
  readonly reports: ReportExporter;
  /** Synthesized when it is first read. */
  readonly template: Template;
}

/** A construct `Reports` in a stack `Another`, with one scheduled export. @throws ConfigurationError */
export function deployConstruct(
  propsIn: Partial<ReportExporterProps> | ((stack: Stack) => Partial<ReportExporterProps>) = {},
  env?: Environment,
): ConstructDeployment {
  const app = anApp();
  const stack = new Stack(app, 'Another', { env });
  const reports = new ReportExporter(stack, 'Reports', {
    service: { baseUrl: 'https://reports.example.com' },
    exports: [{ name: 'nightly', schedule: aSchedule() }],
    ...(typeof propsIn === 'function' ? propsIn(stack) : propsIn),
  });
  return {
    app,
    stack,
    reports,
    get template() {
      return Template.fromStack(stack);
    },
  };
}

export interface Resource {
  readonly Type: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- a template has any properties that CloudFormation accepts
  readonly Properties: any;
  readonly DependsOn?: string | readonly string[];
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
  readonly Metadata?: Readonly<Record<string, unknown>>;
}

/** The resources by logical ID, of one type or of all. */
export function resourcesOf(template: Template, type?: string): Record<string, Resource> {
  const all = (template.toJSON() as { Resources: Record<string, Resource> }).Resources;
  return Object.fromEntries(Object.entries(all).filter(([, { Type }]) => type === undefined || Type === type));
}

/** The only resource of `type` whose logical ID begins with `idPrefix`. */
export function resource(template: Template, type: string, idPrefix = ''): { id: string } & Resource {
  const found = Object.entries(resourcesOf(template, type)).filter(([id]) => id.startsWith(idPrefix));
  const [only] = found;
  if (only === undefined || found.length > 1) {
    throw new Error(
      `${found.length} resources of type ${type} have an ID that begins with ${JSON.stringify(idPrefix)}`,
    );
  }
  return { id: only[0], ...only[1] };
}

export interface Statement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
  readonly Principal?: unknown;
  readonly Sid?: string;
}

/** The statements of all policies of the only role whose logical ID begins with `roleIdPrefix`. */
export function statementsOf(template: Template, roleIdPrefix: string): Statement[] {
  const { id } = resource(template, 'AWS::IAM::Role', roleIdPrefix);
  return Object.values(resourcesOf(template, 'AWS::IAM::Policy'))
    .filter(({ Properties }) => Properties.Roles.some((role: { Ref: string }) => role.Ref === id))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
}

/** The values of the outputs, with each reference replaced by the logical ID of the resource. */
export function outputsOf(template: Template): Record<string, string> {
  const outputs = (template.toJSON() as { Outputs: Record<string, { readonly Value: unknown }> }).Outputs;
  return Object.fromEntries(Object.entries(outputs).map(([name, { Value }]) => [name, textOf(Value)]));
}

/** Text in a template, with each reference replaced by the logical ID of the resource: `<Bucket.Arn>/*`. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  const {
    Ref,
    'Fn::GetAtt': attribute,
    'Fn::Join': join,
  } = value as {
    readonly Ref?: string;
    readonly 'Fn::GetAtt'?: readonly [string, string];
    readonly 'Fn::Join'?: readonly [string, readonly unknown[]];
  };
  if (Ref !== undefined) return `<${Ref}>`;
  if (attribute !== undefined) return `<${attribute.join('.')}>`;
  if (join === undefined) throw new Error(`Not a text: ${JSON.stringify(value)}`);
  return join[1].map(textOf).join(join[0]);
}
