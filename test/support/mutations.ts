/** Arbitrary invalid input: any value, and mutations of a valid one that replace, remove or add values anywhere. */

import { fc } from './property.ts';

/** Parsing creates own properties, such as __proto__, that an object literal cannot have. */
const fromJson = (text: string): unknown => JSON.parse(text);

function nested(depth: number, innermost: unknown = 1): unknown {
  let value = innermost;
  for (let level = 0; level < depth; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

const cyclic: Record<string, unknown> = {};
cyclic.self = cyclic;

const numbers = [0, -0, 1, -1, 1.5, 10, 11, 2_401, 2 ** 31, 2 ** 53, 1e300, Number.NaN, Number.POSITIVE_INFINITY];

const instants = [
  '2026-11-20T02:00:00Z',
  '2026-11-20T02:00Z',
  '2026-11-20T02:00:00.1239999Z',
  `2026-11-20T02:00:00.${'1'.repeat(5_000)}Z`,
  '2026-11-20T02:00:00+01:00',
  '2026-11-20T02:00:00',
  '2026-11-20t02:00:00z',
  ' 2026-11-20T02:00:00Z',
  '2026-11-20T02:00:00Z\n',
  '2026-02-30T00:00:00Z',
  '2025-02-29T00:00:00Z',
  '2026-11-20T24:00:00Z',
  '2026-11-20T23:59:60Z',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999Z',
  '10000-01-01T00:00:00Z',
  '+275760-09-13T00:00:00Z',
  '+275760-09-13T00:00:01Z',
  '-271821-04-20T00:00:00Z',
  '-000001-01-01T00:00:00Z',
  '20261120T020000Z',
  '2026-W47-5T00:00:00Z',
  '1795172563',
  'now',
];

const durations = [
  'PT0S',
  'PT0.0000001S',
  'PT1.001S',
  'PT1.0005S',
  'PT0.5S',
  'PT1S',
  'P1D',
  'P30D',
  'P31D',
  'P3650D',
  'P3651D',
  '-PT1S',
  'P1Y',
  'P',
  `PT${'9'.repeat(400)}S`,
  `P${'1'.repeat(20_000)}`,
  'PT1,5S',
];

const urls = [
  'https://reports.example.com',
  'HTTPS://Reports.Example.com:443/eu//',
  'http://reports.example.com',
  'http://localhost:1',
  'http://127.1/',
  'http://[::1]:0',
  'http://0x7f.1',
  'http://localhost.',
  'http://127.0.0.1.nip.io',
  'https://user:pass@reports.example.com',
  'https://reports.example.com?key=1',
  'https://reports.example.com/?',
  'https://reports.example.com/#',
  'https://reports.example.com/a b\u00e9%zz/\\x',
  'https://rep\norts.example.com',
  `https://${'h'.repeat(3_000)}.example`,
  'https://',
  'https:reports.example.com',
  '//reports.example.com',
  'file:///etc/passwd',
  'javascript:alert(1)',
];

const strings = [
  '',
  ' ',
  'XML',
  '11',
  'true',
  'null',
  'constructor',
  'hasOwnProperty',
  '__proto__',
  'toString',
  'a\r\nX-Other: 1',
  'a\u0000b',
  '\ud800',
  '\u202egpj.exe',
  '\x1b[2J',
  'ß',
  '$(jndi:ldap://x)',
  'a/../../b',
  '-',
  'x'.repeat(41),
  'x'.repeat(100_000),
];

export const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(undefined, null, true, false, {}, [], ...numbers, ...numbers.map(String)),
  fc.constantFrom<unknown>(...instants, ...durations, ...urls, ...strings),
  fc.constantFrom<unknown>(10n, Symbol('s'), () => 1, new Date(0), new Date(Number.NaN), new Map(), /x/, cyclic),
  fc.constantFrom('{"__proto__":{"restart":true}}', '{"__proto__":null}', '[[{"__proto__":1}]]').map(fromJson),
  fc.constantFrom(5, 33, 1_000, 100_000).map((depth) => nested(depth)),
  fc.constantFrom(3, 5_000).map((count) => Array(count).fill(null)),
  fc.constantFrom(3, 5_000).map((count) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]))),
  fc.jsonValue(),
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withSparseArray: true, withNullPrototype: true }),
);

const anyName = fc.oneof(fc.constantFrom(...strings), fc.string());

/** `valid` with up to four changes. */
export function mutationsOf(valid: unknown): fc.Arbitrary<unknown> {
  const change = fc.record({
    /** Selects one of the paths in the value. */
    position: fc.nat(1_000),
    act: fc.constantFrom('replace', 'replace', 'replace', 'remove', 'add'),
    name: anyName,
    value: anyValue,
  });
  return fc.array(change, { maxLength: 4 }).map((changes) =>
    changes.reduce<unknown>((value, { position, act, name, value: other }) => {
      const paths = pathsIn(value);
      const path = paths[position % paths.length] ?? [];
      if (act === 'replace') return withValue(value, path, () => other);
      if (act === 'remove') return withValue(value, path, undefined);
      return withValue(value, path, (old) =>
        typeof old === 'object' && old !== null && !Array.isArray(old)
          ? withOwnProperty({ ...old }, name, other)
          : other,
      );
    }, structuredClone(valid)),
  );
}

type Path = readonly string[];

/** The paths of the values in plain objects and arrays, the root first; limited in depth and number. */
function pathsIn(value: unknown, path: Path = []): Path[] {
  if (path.length > 6 || typeof value !== 'object' || value === null) return [path];
  return [
    path,
    ...Object.keys(value)
      .slice(0, 40)
      .flatMap((key) => pathsIn(Reflect.get(value, key), [...path, key])),
  ];
}

/** A copy with the value at `path` changed, or removed if there is no `change`. */
function withValue(value: unknown, path: Path, change: ((old: unknown) => unknown) | undefined): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return change?.(value);
  const copy: unknown = Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) };
  if (rest.length === 0 && change === undefined) {
    Reflect.deleteProperty(copy as object, key);
    return copy;
  }
  return withOwnProperty(copy as object, key, withValue(Reflect.get(copy as object, key), rest, change));
}

/** Defines an own property, even if its name is __proto__. */
function withOwnProperty(object: object, name: string, value: unknown): object {
  return Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

/** The value as JSON; empty if JSON cannot express it. */
export function jsonText(value: unknown, indentation = 0): string {
  try {
    return JSON.stringify(value, null, indentation) ?? '';
  } catch {
    return '';
  }
}
