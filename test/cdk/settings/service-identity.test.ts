import { expect, it } from 'vitest';
import {
  findIdentityConflicts,
  type ServiceIdentity,
  serviceNameFrom,
} from '../../../lib/cdk/settings/service-identity.ts';

const stack = {};
const other: ServiceIdentity = {
  path: 'App/First',
  serviceName: 'acme',
  prefix: 'a/b/',
  exportNames: ['first'],
  bucket: 'reports',
  table: 'page-log',
  stack,
};
const separate = { serviceName: 'own', prefix: 'own/', exportNames: ['own'] };
const elsewhere = { bucket: 'other', table: 'other', stack: {} };
const sameBucket =
  'prefix: App/First has the same bucket and the prefix "a/b/"; set prefixes of which none begins with the other';

it.each<[string, Partial<ServiceIdentity>, string[]]>([
  ['with its own name, prefix and exports', {}, []],
  ['with everything in common, elsewhere', { ...other, ...elsewhere }, []],
  [
    // Metrics of both would be added up.
    'with the same name and stack',
    { serviceName: 'acme', table: 'other' },
    ['name: App/First has the same name and stack; set another name'],
  ],
  [
    // Each would overwrite the state of the other.
    'with the same name and table',
    { serviceName: 'acme', stack: {} },
    ['name: App/First has the same name and table; set another name'],
  ],
  ['in the root of the same bucket', { prefix: '' }, [sameBucket]],
  ['in a folder around the other', { prefix: 'a/' }, [sameBucket]],
  ['in the same folder', { prefix: 'a/b/' }, [sameBucket]],
  ['in a folder of the other', { prefix: 'a/b/c/' }, [sameBucket]],
  ['in a folder whose name only begins like the other', { prefix: 'a/b-2/' }, []],
  [
    // Operators find an export by its name alone.
    'with a similar export in the same stack',
    { exportNames: ['ok', 'FIRST'] },
    ['exports: App/First in the same stack has an export with a similar name, first; use another name'],
  ],
  ['with a similar export in another stack', { exportNames: ['FIRST'], stack: {} }, []],
])('a service %s', (_, own, problems) => {
  expect(findIdentityConflicts({ ...other, ...separate, ...own }, other)).toEqual(problems);
});

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
