/** Reads the fixtures of released versions. */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import type { StepHandler } from '../../lib/aws/lambda/step-handler.ts';
import type { FunctionSettingsInput } from '../../lib/core/settings/environment.ts';
import type { StepName } from '../../lib/core/state-machine/definition.ts';

type StepEvent = Parameters<StepHandler<unknown>>[0];

/** An invocation of a function. */
export interface Invocation {
  readonly export: string;
  readonly step: StepName;
  readonly event: StepEvent;
  /** Absent: it failed, or its process was killed. */
  readonly result?: unknown;
}

/** What the files in the folder `aws` contain. */
export interface Fixtures {
  /** The items of the table. */
  readonly items: readonly Record<string, AttributeValue>[];
  readonly objects: readonly {
    /** The bucket and the key. */
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  }[];
  /** The slots as they were read from their item. */
  readonly slots: unknown;
  /** The settings beside the functions' code. */
  readonly functions: FunctionSettingsInput;
  /** In the order of time. */
  readonly invocations: readonly Invocation[];
  /** Executions that another one was about to start. */
  readonly continuations: readonly { readonly export: string; readonly name: string; readonly input: unknown }[];
  /** What operators' commands read of a deployed stack. */
  readonly stack: {
    /** By name. */
    readonly outputs: Readonly<Record<string, string>>;
    /** The metadata of the state machines, by logical ID. */
    readonly metadata: Readonly<Record<string, unknown>>;
  };
  readonly events: readonly { readonly export: string; readonly detail: unknown }[];
}

const root = import.meta.dirname;

/** The versions that have fixtures. */
export const versions: readonly string[] = readdirSync(root).filter((name) => /^\d+\.\d+$/.test(name));

/** The path of a fixture. */
export const fixture = (version: string, path: string): string => join(root, version, path);

export const readText = (version: string, path: string): string => readFileSync(fixture(version, path), 'utf8');
export const readJson = (version: string, path: string): unknown => JSON.parse(readText(version, path)) as unknown;

export function readAws<Name extends keyof Fixtures>(version: string, name: Name): Fixtures[Name] {
  return readJson(version, `aws/${name}.json`) as Fixtures[Name];
}

/** The paths of all files, relative to the folder of the version. */
export function filesOf(version: string): string[] {
  const all = readdirSync(join(root, version), { recursive: true, withFileTypes: true });
  const files = all.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return files.map((file) => relative(join(root, version), file).replaceAll('\\', '/')).sort();
}

/** Copies the output directory of the version, because opening it changes its SQLite files. */
export async function copyDirectory(version: string, to: string): Promise<void> {
  await cp(fixture(version, 'directory'), to, { recursive: true });
}

/** The SHA-256 of all fixtures of the version, with their names. */
export function digestOf(version: string): string {
  const hash = createHash('sha256');
  for (const file of filesOf(version)) {
    const content = readFileSync(fixture(version, file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
