/**
 * A declarative manifest of Airbyte, read as its interpreter reads it: references are replaced by what they name, and
 * parameters are passed down to the components below. Nothing here knows of our language.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { isPlain, type Plain, textOf } from './templates.ts';

/** A stream with all of its components, and values for the settings that a user of the connector would make. */
export interface ManifestStream {
  readonly connector: string;
  readonly name: string;
  readonly stream: Plain;
  readonly config: Plain;
  /** The settings that are secrets. */
  readonly secrets: ReadonlySet<string>;
}

/** The streams of each `manifest.yaml` in the folders of `folder`. */
export function* readStreams(folder: string): Generator<ManifestStream> {
  for (const connector of readdirSync(folder).toSorted()) {
    yield* streamsOf(connector, readFileSync(join(folder, connector, 'manifest.yaml'), 'utf8'));
  }
}

export function streamsOf(connector: string, text: string): readonly ManifestStream[] {
  const options = { maxAliasCount: -1, merge: true, uniqueKeys: false, logLevel: 'silent', version: '1.1' } as const;
  const manifest = parse(text, options) as Plain;
  const { spec, streams = [], dynamic_streams: dynamic = [] } = manifest;
  const settings = sampleSettings(resolve(spec, manifest), text);
  const all = [...(streams as unknown[]), ...(dynamic as unknown[])];
  return all.flatMap((given) => {
    const resolved = passParameters(resolve(given, manifest) as Plain, {});
    return variantsOf(resolved).map((stream) => ({
      connector,
      name: textOf(stream.name ?? '(unnamed)'),
      stream,
      ...settings,
    }));
  });
}

/** A stream that differs with the state is the one that reads what is new. */
function variantsOf(stream: Plain): readonly Plain[] {
  if (stream.type === 'StateDelegatingStream') return [{ name: stream.name, ...(stream.incremental_stream as Plain) }];
  if (stream.type === 'ConditionalStreams') return stream.streams as readonly Plain[];
  return [stream];
}

/** Fields that describe what is done with records. They may be large, and refer to themselves. */
const ignoredFields = new Set([
  'schema_loader',
  'schema',
  'transformations',
  'schema_normalization',
  'state_migrations',
]);

/** Replaces `{"$ref": "#/…"}` and `"#/…"`. The fields beside `$ref` take precedence. */
function resolve(value: unknown, manifest: Plain, depth = 0): unknown {
  if (depth > 60) throw new Error('The manifest refers to itself');
  const next = (each: unknown) => resolve(each, manifest, depth + 1);
  if (typeof value === 'string') return /^#\/\S+$/.test(value) ? next(findReference(value, manifest)) : value;
  if (value instanceof Date) return value.toISOString().replace('.000Z', 'Z').replace('T00:00:00Z', '');
  if (Array.isArray(value)) return value.map(next);
  if (!isPlain(value)) return value;
  const { $ref, ...own } = value;
  const base = typeof $ref === 'string' ? next(findReference($ref, manifest)) : {};
  const fields = Object.entries(own).map(([name, each]) => [name, ignoredFields.has(name) ? undefined : next(each)]);
  if (!isPlain(base)) return base;
  return { ...base, ...(Object.fromEntries(fields) as Plain) };
}

/** A name in the path may contain slashes. */
function findReference(reference: string, manifest: Plain): unknown {
  let found: unknown = manifest;
  let pending = '';
  for (const part of reference.slice(2).split('/')) {
    const name = pending === '' ? part : `${pending}/${part}`;
    const isThere = isPlain(found) && Object.hasOwn(found, name);
    const isIndex = Array.isArray(found) && /^\d+$/.test(name);
    pending = isThere || isIndex ? '' : name;
    if (isThere) found = (found as Plain)[name];
    else if (isIndex) found = (found as readonly unknown[])[Number(name)];
  }
  if (pending !== '') throw new Error(`Nothing is at ${reference}`);
  return found;
}

/** Fields whose objects are values, not components. */
const plainFields = new Set([
  '$parameters',
  'request_parameters',
  'request_headers',
  'request_body_json',
  'request_body_data',
  'request_body',
  'refresh_request_body',
  'refresh_request_headers',
]);

/** Fields whose components need no type. */
const untypedFields = new Set([
  'stream',
  'retriever',
  'requester',
  'record_selector',
  'paginator',
  'pagination_strategy',
]);

/** A parameter is a field of each component below that lacks it, and a value in its templates. */
function passParameters(component: Plain, inherited: Plain, field = 'stream'): Plain {
  const parameters = { ...inherited, ...(component.$parameters as Plain | undefined) };
  const own = { ...component };
  if (own.type !== undefined || own.class_name !== undefined || untypedFields.has(field)) {
    for (const [name, value] of Object.entries(parameters)) own[name] ??= value;
  }
  const pass = (name: string, value: unknown): unknown => {
    if (plainFields.has(name) && !(isPlain(value) && 'type' in value && name === 'request_body')) return value;
    if (Array.isArray(value)) return value.map((each) => pass(name, each));
    const { [name]: _own, ...others } = parameters;
    return isPlain(value) ? passParameters(value, others, name) : value;
  };
  const fields = Object.entries(own).map(([name, value]) => [name, pass(name, value)]);
  return { ...(Object.fromEntries(fields) as Plain), $parameters: parameters };
}

// Settings

/** Values as a user could give them: the default, the first allowed one, the first example, or a made-up one. */
function sampleSettings(spec: unknown, text: string): Pick<ManifestStream, 'config' | 'secrets'> {
  const schema = (spec as Plain | undefined)?.connection_specification;
  const secrets = new Set<string>();
  if (isPlain(schema)) return { config: withUrls(sampleOf('', schema, secrets), text) as Plain, secrets };
  // Some connectors have their settings in another file.
  const names = [...text.matchAll(/config(?:\.|\[\\?['"]|\.get\(\\?['"])(\w+)/g)].map(([, name = '']) => name);
  const isSecret = (name: string) => /token|key|secret|password/.test(name);
  for (const name of names.filter(isSecret)) secrets.add(name);
  const config = Object.fromEntries(names.map((name) => [name, sampleText(name, {})]));
  return { config: withUrls(config, text) as Plain, secrets };
}

/** Where a URL begins with a setting, it is one. */
function withUrls(value: unknown, text: string, name = ''): unknown {
  if (isPlain(value))
    return Object.fromEntries(Object.entries(value).map(([each, inner]) => [each, withUrls(inner, text, each)]));
  const start = String.raw`(?:url_base|url|token_refresh_endpoint): *(?:>-\s+)?["']?\{\{ *config[^}]*\b${name}\b`;
  const isUrl = typeof value === 'string' && !value.includes('://') && new RegExp(start).test(text);
  return isUrl ? `https://${value.includes('.') ? value : 'api.vendor.example'}` : value;
}

function sampleOf(name: string, schema: Plain, secrets: Set<string>): unknown {
  if (schema.airbyte_secret === true) secrets.add(name);
  const { const: constant, default: byDefault, enum: allowed, examples, oneOf, properties, type } = schema;
  const isObject = isPlain(properties) || Array.isArray(oneOf);
  if (isObject) {
    // Of several ways to log in, each may be used: what the first has counts where they differ.
    const options = Array.isArray(oneOf) ? (oneOf as readonly Plain[]).toReversed() : [];
    const all = Object.assign({}, ...options.map((each) => each.properties), properties) as Plain;
    return Object.fromEntries(Object.entries(all).map(([key, each]) => [key, sampleOf(key, each as Plain, secrets)]));
  }
  const given = constant ?? byDefault ?? (allowed as unknown[] | undefined)?.[0];
  if (given !== undefined && given !== null && given !== '') return given;
  const types = [type].flat();
  const example = Array.isArray(examples) ? (examples as unknown[])[0] : undefined;
  if (types.includes('array')) {
    if (Array.isArray(example)) return example;
    const { items } = schema;
    return [1, 2].map((index) => `${String(sampleOf(name, isPlain(items) ? items : {}, secrets))}${index}`);
  }
  if (types.includes('integer') || types.includes('number')) return typeof example === 'number' ? example : 7;
  if (types.includes('boolean')) return false;
  const isUsable = typeof example === 'string' && !secrets.has(name) && /^[\w:/.@-]+$/.test(example);
  return isUsable ? example : sampleText(name, schema);
}

function sampleText(name: string, { format, pattern }: Plain): string {
  const shape = textOf(pattern);
  if (format === 'date-time' || shape.includes('T[0-9]{2}')) return '2026-11-01T00:00:00Z';
  if (format === 'date' || (shape.includes('[0-9]{4}-') && !shape.includes('T'))) return '2026-11-01';
  if (/date|start_time|since/.test(name)) return '2026-11-01T00:00:00Z';
  if (/ur[il]|endpoint|host|domain/.test(name) && !/sub/.test(name)) return 'api.vendor.example';
  return `a-${name.replaceAll('_', '-')}`;
}
