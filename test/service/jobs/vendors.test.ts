/** Report jobs of vendors: each description of the docs against a server that behaves as its documentation says. */

import { describe, expect, it } from 'vitest';
import { jobVendors } from '../../support/service/job-vendors.ts';
import { completed, failed, reportIds, startJobs } from '../../support/service/job-bench.ts';

describe.each(jobVendors)('$file', (vendor) => {
  it('exports each report once, from one job, and sends no credentials to other hosts', async () => {
    await using jobs = await startJobs(vendor);
    const end = completed(await jobs.bench.start());
    expect(reportIds(jobs.bench, end.manifest)).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(end.reports).toBe(5);
    expect(jobs.vendor.created()).toBe(vendor.jobs ?? 1);
    const ofFiles = jobs.vendor.received.filter(({ at }) => at === 'files');
    expect(ofFiles.length > 0).toBe(vendor.replyWithFile !== undefined);
    for (const { headers } of ofFiles) expect(JSON.stringify(headers)).not.toContain(jobs.secret);
  });

  it('has no reports in a quiet period', async () => {
    await using jobs = await startJobs(vendor, { rows: [] });
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 0 });
  });

  it('fails with a job, and creates another at the next start', async () => {
    await using jobs = await startJobs(vendor);
    jobs.vendor.world.endOf = () => 'failed';
    expect(failed(await jobs.bench.start())).toMatchObject({ error: 'RequestRejectedError', pages: 0 });
    const before = jobs.vendor.created();
    const { world } = jobs.vendor;
    // Amazon Ads has one report of a request at a time.
    if (vendor.file === 'amazon-ads-report.json') world.jobs.clear();
    world.endOf = (job) => (Number(job.id.split('-')[1]) > before ? 'done' : 'failed');
    expect(completed(await jobs.bench.start())).toMatchObject({ reports: 5 });
    expect(jobs.vendor.created()).toBe(before + (vendor.jobs ?? 1));
  });

  it.skipIf(vendor.unnamed === '')('refuses a status that no condition names', async () => {
    await using jobs = await startJobs(vendor);
    jobs.vendor.world.endOf = () => 'unnamed';
    const { error, message } = failed(await jobs.bench.start());
    expect({ error, message }).toEqual({
      error: 'ConfigurationError',
      message: expect.stringContaining(`says ${vendor.unnamed} for the report job of page 1`),
    });
  });
});
