/** The largest deployment must fit the limits of a CloudFormation stack. */

import { expect, it } from 'vitest';
import { aSchedule, deploy } from '../support/aws/cdk-deployment.ts';

it('fits the maximum number of exports, each with a schedule, into one stack', () => {
  const exports = Array.from({ length: 14 }, (_, index) => ({ name: `export-${index}`, schedule: aSchedule() }));
  const resources = deploy({ exports }).template.toJSON().Resources as object;
  expect(Object.keys(resources).length).toBeLessThanOrEqual(500);
});
