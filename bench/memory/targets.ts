/** The ways a page can go, each in a process of its own, and a service of pages of any size. */

import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startScript } from '../../test/support/process/child-script.ts';
import { functionEnvironment, startAws } from '../aws-loop/local-aws.ts';
import { measuredScript, type ProcessFigures } from '../harness/measured-process.ts';
import { type PageServiceOptions, startPageService } from '../harness/page-service.ts';

/** How an export goes: `into` makes one of the pages at `baseUrl`, by a Node with these options. */
export interface Path {
  readonly label: string;
  readonly into: (baseUrl: string, nodeOptions: readonly string[]) => Promise<ProcessFigures>;
}

/** For pages of up to 2 GiB. */
const patientService = { maxPageBytes: 2 ** 31, totalTimeout: 'PT5M' };

export const paths: readonly Path[] = [
  { label: 'directory', into: intoDirectory({}) },
  { label: 'directory, 25 an invocation', into: intoDirectory({ pagesPerInvocation: 25 }) },
  { label: 'S3', into: intoS3({}) },
  { label: 'S3, 25 an invocation', into: intoS3({ pagesPerInvocation: 25 }) },
];

const mostBufferedBytes = 100_000_000;

/** A service of such pages. What does not fit into a buffer is made as it is sent. */
export async function servicePages({
  pageBytes,
  pages,
}: PageServiceOptions): Promise<{ readonly baseUrl: string } & AsyncDisposable> {
  if (pageBytes <= mostBufferedBytes) return await startPageService({ pageBytes, pages });
  const service = startScript(new URL('../../test/large/children/large-page-service.ts', import.meta.url));
  await service.said(/^http/);
  return {
    baseUrl: `${service.lines[0]}/length/${pages - 1}`,
    [Symbol.asyncDispose]: () => service.kill(),
  };
}

function intoDirectory(settings: object): Path['into'] {
  return async (baseUrl, nodeOptions) => {
    const out = await mkdtemp(join(process.cwd(), '.bench-'));
    try {
      const words = [baseUrl, out, JSON.stringify({ ...settings, service: patientService })];
      return await measuredScript(new URL('../floor/local-export.ts', import.meta.url), words, nodeOptions);
    } finally {
      await rm(out, { recursive: true, force: true });
    }
  };
}

function intoS3(settings: Readonly<Record<string, unknown>>): Path['into'] {
  return async (baseUrl, nodeOptions) => {
    await using aws = await startAws();
    await using s3 = startScript(new URL('../../test/large/children/discarding-s3.ts', import.meta.url));
    await s3.said(/^http/);
    const env = {
      ...functionEnvironment(aws, { ...patientService, baseUrl }, settings),
      AWS_ENDPOINT_URL_S3: s3.lines[0] ?? '',
    };
    return await measuredScript(new URL('export-to-s3.ts', import.meta.url), [], nodeOptions, env);
  };
}
