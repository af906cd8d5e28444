/** Where an export can go, each run in its own process, and a service with pages of any size. */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startScript } from '../../test/support/process/child-script.ts';
import { functionEnvironment, startLocalAwsProcess } from '../aws-loop/local-aws.ts';
import { measureScript, type ProcessFigures } from '../harness/measured-process.ts';
import { type PageServiceOptions, startPageService } from '../harness/page-service.ts';
import { createTemporaryFolder } from '../harness/temporary-folder.ts';

export interface Target {
  readonly label: string;
  /** Exports the pages at `baseUrl` in a new Node process with these options. */
  readonly export: (baseUrl: string, nodeOptions: readonly string[]) => Promise<ProcessFigures>;
}

export const targets: readonly Target[] = [
  { label: 'directory', export: exportToDirectory({}) },
  { label: 'directory, 25 per invocation', export: exportToDirectory({ pagesPerInvocation: 25 }) },
  { label: 'S3', export: exportToS3({}) },
  { label: 'S3, 25 per invocation', export: exportToS3({ pagesPerInvocation: 25 }) },
];

/** For pages of up to 2 GiB. */
const largePageSettings = { maxPageBytes: 2 ** 31, totalTimeout: 'PT5M' };

function exportToDirectory(settings: object): Target['export'] {
  return async (baseUrl, nodeOptions) => {
    const out = await createTemporaryFolder(join(process.cwd(), '.bench-'));
    try {
      const args = [baseUrl, out, JSON.stringify({ ...settings, service: largePageSettings })];
      return await measureScript(new URL('../floor/local-export.ts', import.meta.url), args, nodeOptions);
    } finally {
      await rm(out, { recursive: true, force: true });
    }
  };
}

function exportToS3(settings: Readonly<Record<string, unknown>>): Target['export'] {
  return async (baseUrl, nodeOptions) => {
    await using aws = await startLocalAwsProcess();
    await using s3 = startScript(new URL('../../test/large/children/discarding-s3.ts', import.meta.url));
    await s3.waitForLine(/^http/);
    const env = {
      ...functionEnvironment(aws, { ...largePageSettings, baseUrl }, settings),
      AWS_ENDPOINT_URL_S3: s3.lines[0] ?? '',
    };
    return await measureScript(new URL('export-to-s3.ts', import.meta.url), [], nodeOptions, env);
  };
}

const maxBufferedPageBytes = 100_000_000;

/** A service with such pages. Pages that do not fit into a buffer are generated as they are sent. */
export async function startServiceForPages({
  pageBytes,
  pages,
}: PageServiceOptions): Promise<{ readonly baseUrl: string } & AsyncDisposable> {
  if (pageBytes <= maxBufferedPageBytes) return await startPageService({ pageBytes, pages });
  const service = startScript(new URL('../../test/large/children/large-page-service.ts', import.meta.url));
  await service.waitForLine(/^http/);
  return {
    baseUrl: `${service.lines[0]}/length/${pages - 1}`,
    [Symbol.asyncDispose]: () => service.kill(),
  };
}
