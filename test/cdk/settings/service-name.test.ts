import { expect, it } from 'vitest';
import { serviceNameFrom } from '../../../lib/cdk/settings/service-name.ts';

it.each([
  ['Reports', 'reports'],
  ['Data/EU_Reports', 'data-eu-reports'],
  ['2026', 'default'],
])('the name of the construct %s is %s', (path, name) => expect(serviceNameFrom(path)).toBe(name));

it('the name of a construct with a long path has 30 characters, and differs from that of any other', () => {
  const names = ['1', '2'].map((end) => serviceNameFrom(`${'a'.repeat(40)}${end}`));
  for (const name of names) expect(name).toMatch(/^a{21}-[0-9a-f]{8}$/);
  expect(names[0]).not.toBe(names[1]);
});
