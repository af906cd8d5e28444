/**
 * A deployment as the CDK app would make it, without bundling the functions: its settings, plausible by default, and the
 * template that comes of them.
 */

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

/** The feature flags are those of cdk.json, so that what is tested is what is deployed. */
const { context } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../cdk.json'), 'utf8'));

export function anApp(): App {
  return new App({ context: { ...context, 'aws:cdk:bundling-stacks': [] }, analyticsReporting: false });
}

export interface Deployment {
  readonly app: App;
  readonly stack: ReportExporterStack;
  readonly template: Template;
}

/** @throws what a person would see, where the settings are wrong. */
export function deploy(overrides: object = {}): Deployment {
  const app = anApp();
  const stack = new ReportExporterStack(app, deploymentSettings(someSettings(overrides)));
  return { app, stack, template: Template.fromStack(stack) };
}

export interface Resource {
  readonly Type: string;
  // biome-ignore lint/suspicious/noExplicitAny: a template is what CloudFormation takes, and a test looks at some of it
  readonly Properties: any;
  readonly DependsOn?: string | readonly string[];
  readonly DeletionPolicy?: string;
}

/** By logical id. */
export function resourcesOf(template: Template, type?: string): Record<string, Resource> {
  const all = (template.toJSON() as { Resources: Record<string, Resource> }).Resources;
  return Object.fromEntries(Object.entries(all).filter(([, { Type }]) => type === undefined || Type === type));
}

/** The one resource of `type` whose logical id begins so. */
export function resource(template: Template, type: string, idBegins = ''): { id: string } & Resource {
  const found = Object.entries(resourcesOf(template, type)).filter(([id]) => id.startsWith(idBegins));
  const [only] = found;
  if (only === undefined || found.length > 1) {
    throw new Error(`${found.length} resources of type ${type} begin with ${JSON.stringify(idBegins)}`);
  }
  return { id: only[0], ...only[1] };
}
