/**
 * Reads what an export publishes, for the functions in this folder: its events, run.json and manifests. An unknown
 * format is an error. Needs the packages report-exporter, ajv and @aws-sdk/client-s3.
 */

import type { Readable } from 'node:stream';
import { GetObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { CompletedEventDetail, ManifestHeader, ManifestPage, RunSummary } from 'report-exporter';

// An import of JSON has another form in ES modules than in CommonJS. esbuild bundles this one in both.
export const checkEvent = checkOf<CompletedEventDetail>(
  'event',
  require('report-exporter/schemas/completed.v1.schema.json'),
);
export const checkRun = checkOf<RunSummary>('run.json', require('report-exporter/schemas/run.v1.schema.json'));

/** A function that returns its argument, or throws if that does not match the schema. */
function checkOf<Value>(name: string, schema: object): (value: unknown) => Value {
  const ajv = new Ajv2020();
  const isValid = ajv.compile<Value>(schema);
  return (value) => {
    if (isValid(value)) return value;
    throw new Error(`Unknown format: ${ajv.errorsText(isValid.errors, { dataVar: name })}`);
  };
}

/** The pages that a manifest names, in order. They are read one at a time: a manifest may have a million of them. */
export async function* pagesOf(s3: S3Client, Bucket: string, Key: string): AsyncGenerator<ManifestPage> {
  for await (const line of linesOf(s3, Bucket, Key)) {
    const [, version] = /^ {2}"manifestVersion": (\d+)/.exec(line) ?? [];
    if (version !== undefined && version !== '1') throw new Error(`Unknown manifestVersion ${version}`);
    if (line.startsWith('    {"page":')) yield JSON.parse(line.replace(/,$/, ''));
  }
}

/** The list of parents without pages, if the manifest names one before its pages. */
export async function missingParentsOf(s3: S3Client, Bucket: string, Key: string) {
  let header = '';
  for await (const line of linesOf(s3, Bucket, Key)) {
    if (/^ {2}"(reportsAt|pages)":/.test(line)) break;
    header += line;
  }
  const { parents }: Partial<ManifestHeader> = JSON.parse(header.replace(/,$/, '}'));
  return parents?.missing;
}

async function* linesOf(s3: S3Client, Bucket: string, Key: string): AsyncGenerator<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  let rest = '';
  for await (const text of (Body as Readable).setEncoding('utf8')) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
