/** The stack as a CDK app creates it: its props, its name, its settings in either form. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Stage } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { contextKey, deploymentSettings } from '../../lib/cdk/settings/deployment-settings.ts';
import { ReportExporterStack, type ReportExporterStackProps } from '../../lib/cdk/stack.ts';
import { anApp, resourcesOf, someSettings } from '../support/aws/cdk-deployment.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const aStack = (props: Partial<ReportExporterStackProps> = {}, id = 'Reports', app = anApp()) =>
  new ReportExporterStack(app, id, { settings: someSettings(), ...props });

describe('the props of the stack', () => {
  it('are those of every stack', () => {
    const stack = aStack({
      env: { account: '123456789012', region: 'eu-central-1' },
      tags: { team: 'finance' },
      terminationProtection: true,
      description: 'Our reports',
    });
    expect(stack).toMatchObject({ account: '123456789012', region: 'eu-central-1', terminationProtection: true });
    expect(stack.tags.tagValues()).toEqual({ team: 'finance' });
    expect(stack.templateOptions.description).toBe('Our reports');
    expect(aStack().templateOptions.description).toMatch(/^Report Exporter: /);
  });

  it('include settings as they are written or parsed, or the path of their file', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'settings.json');
    await writeFile(file, JSON.stringify(someSettings()));
    const forms = [someSettings(), JSON.stringify(someSettings()), deploymentSettings(someSettings()), file];
    const templates = forms.map((settings) => Template.fromStack(aStack({ settings })).toJSON());
    for (const template of templates.slice(1)) expect(template).toEqual(templates[0]);
  });

  it('are rejected with every problem in the settings', () => {
    const settings = someSettings({ exports: [{ name: 'a b' }, { name: 'c', size: 0 }], unknown: 1 });
    const create = () => aStack({ settings });
    const lines = (place: string) =>
      new RegExp(`^${place}exports\\[0\\]\\.name: .*\n${place}exports\\[1\\]\\.size: .*\n.*unknown`);
    expect(create).toThrow(lines('Reports settings\\.'));
    const app = anApp({ [contextKey]: settings });
    const fromContext = () => aStack({ settings: app.node.tryGetContext(contextKey) }, 'Reports', app);
    expect(fromContext).toThrow(lines('cdk\\.json reportExporter\\.'));
    expect(create).toThrow(expect.objectContaining({ name: 'ConfigurationError' }));
    // Parsed settings that were changed since are settings like any others.
    expect(() => aStack({ settings: { ...deploymentSettings(someSettings()), exports: [] } })).toThrow(
      expect.objectContaining({ name: 'ConfigurationError' }),
    );
  });
});

describe('the name of the stack', () => {
  it.each([
    ['the prop', { stackName: 'prop', settings: someSettings({ stackName: 'setting' }) }, 'prop'],
    ['the setting', { settings: someSettings({ stackName: 'setting' }) }, 'setting'],
    ['the ID', {}, 'Reports'],
  ])('is %s', (_, props, name) => {
    const stack = aStack(props);
    expect(stack.stackName).toBe(name);
    const functions = Object.values(resourcesOf(Template.fromStack(stack), 'AWS::Lambda::Function'));
    expect(functions).toHaveLength(4);
    for (const { Properties } of functions) expect(Properties.Environment.Variables.DEPLOYMENT_NAME).toBe(name);
  });

  it('includes the stage, if it is the ID', () => {
    const stage = new Stage(anApp(), 'Production');
    expect(new ReportExporterStack(stage, 'Reports', { settings: someSettings() }).stackName).toBe(
      'Production-Reports',
    );
  });

  it('is part of every name that must be unique in an account', () => {
    const named = [
      'Name',
      'LogGroupName',
      'RoleName',
      'TableName',
      'BucketName',
      'FunctionName',
      'AlarmName',
      'QueueName',
    ];
    const namesIn = (stackName: string) =>
      Object.values(resourcesOf(Template.fromStack(aStack({ stackName })))).flatMap(({ Type, Properties = {} }) =>
        // Schedules have a group of their own.
        Type === 'AWS::Scheduler::Schedule' ? [] : named.flatMap((key) => Properties[key] ?? []),
      );
    const [one, other] = [namesIn('one'), namesIn('other')];
    expect(one).toHaveLength(2);
    expect(one.filter((name) => other.includes(name))).toEqual([]);
  });
});
