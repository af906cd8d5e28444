/** Synthesizes a stack as the CDK app does, without bundling the functions. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { deploymentSettings } from '../../../lib/cdk/settings/deployment-settings.ts';
import { ReportExporterStack } from '../../../lib/cdk/stack.ts';

export const aSchedule = (overrides: object = {}) => ({
  expression: 'cron(0 2 * * ? *)',
  timeZone: 'Europe/Berlin',
  freshness: 'PT26H',
  ...overrides,
});

export const someSettings = (overrides: object = {}) => ({
  service: { baseUrl: 'https://reports.example.com', vendor: 'ACME' },
  exports: [{ name: 'nightly', schedule: aSchedule() }],
  ...overrides,
});

/** The feature flags of cdk.json, which a deployment uses. */
const { context } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../cdk.json'), 'utf8'));

export function anApp(): App {
  return new App({ context: { ...context, 'aws:cdk:bundling-stacks': [] }, analyticsReporting: false });
}

export interface Deployment {
  readonly app: App;
  readonly stack: ReportExporterStack;
  readonly template: Template;
}

/** The stack with the default settings and `overrides`. @throws ConfigurationError if the settings are invalid */
export function deploy(overrides: object = {}): Deployment {
  const app = anApp();
  const stack = new ReportExporterStack(app, deploymentSettings(someSettings(overrides)));
  return { app, stack, template: Template.fromStack(stack) };
}

export interface Resource {
  readonly Type: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- a template has any properties that CloudFormation accepts
  readonly Properties: any;
  readonly DependsOn?: string | readonly string[];
  readonly DeletionPolicy?: string;
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
