/** Secrets come from Secrets Manager, environment variables and files: never from settings or arguments. */

import { describe, expect, it } from 'vitest';
import { commands } from '../../bin/commands.ts';
import { settingsJsonSchema } from '../../lib/api/settings-schema.ts';
import { runInProcess } from '../support/process/command-line.ts';

const sensitive = /key|secret|password|passphrase|token|credential|certificate/i;

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

function pathsOf(schemaOfPath: Schema, path = ''): string[] {
  const { properties = {}, items = {}, additionalProperties = {}, anyOf, oneOf } = schemaOfPath;
  const variants = anyOf ?? oneOf;
  if (variants !== undefined) return variants.flatMap((each) => pathsOf(each, path));
  const nested = Object.entries(properties).flatMap(([name, schema]) => [
    `${path}.${name}`,
    ...pathsOf(schema, `${path}.${name}`),
  ]);
  if (path.length > 200 || (Object.keys(items).length === 0 && typeof additionalProperties === 'boolean'))
    return nested;
  const more = [items, additionalProperties].filter((each) => typeof each === 'object' && Object.keys(each).length > 0);
  return [...nested, ...more.flatMap((schema) => pathsOf(schema as Schema, path))];
}

// Each entry names a secret, a field of one, a key, a variable, a file or a KMS key. None is the secret itself.
describe('the settings', () => {
  it('have no place for a secret', () => {
    const names = pathsOf(settingsJsonSchema() as Schema).map((path) => path.split('.').slice(2).join('.'));
    expect([...new Set(names.filter((name) => sensitive.test(name)))].sort()).toMatchInlineSnapshot(`
      [
        "api.auth.keyId",
        "api.auth.token",
        "api.auth.tokenUrl",
        "apiKeyEnv",
        "apiKeySecret",
        "apiKeySecret.existing",
        "kmsKeyArn",
        "proxyCredentialsSecret",
        "tls.clientCertificate",
        "tls.clientCertificateSecret",
        "tls.clientKey",
        "tls.clientKeyPassphraseEnv",
      ]
    `);
  });
});

describe('the commands', () => {
  it('have no option for a secret', async () => {
    const names = Object.keys(commands);
    const helps = await Promise.all(names.map(async (command) => (await runInProcess([command, '--help'])).stdout));
    const options = helps.flatMap((help) => help.match(/--[a-z-]+ <[^>]+>|--[a-z-]+ [A-Z]+|--[a-z-]+/g) ?? []);
    expect([...new Set(options.filter((option) => sensitive.test(option)))].sort()).toEqual([]);
  });
});
