/**
 * Runs that are killed at random moments and restarted as their user would, until one completes. The output is read after each kill
 * and at the end. The moments are the same fractions of an undisturbed run for every contender.
 */

import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createPageDocument } from '../harness/page-document.ts';
import { startPageService } from '../harness/page-service.ts';
import { createTemporaryFolder } from '../harness/temporary-folder.ts';
import type { Peer } from './contenders.ts';
import { startPeer } from './peer-process.ts';
import type { FoundPage } from './stored-pages.ts';

export interface KillPlan {
  readonly runs: number;
  /** The most kills per run: a run that has completed cannot be killed. */
  readonly maxKills: number;
  readonly pages: number;
  readonly pageBytes: number;
  readonly seed: string;
}

/** Totals over all runs of one contender. */
export interface Damage {
  kills: number;
  /** Starts that ended with an error. */
  failedStarts: number;
  /** Requests for a page. */
  requests: number;
  /** At the end, among published pages: missing pages, surplus copies, and torn pages. */
  lost: number;
  duplicated: number;
  torn: number;
  /** Kills after which a listing showed a torn page, or some pages but not all. */
  tornListed: number;
  partialListed: number;
  /** The same among published pages; those of a contender without a mark of completion are the listed ones. */
  tornPublished: number;
  partialPublished: number;
}

/** A page takes about 20 ms, a quarter of it for the body: long enough for kills at every stage. */
const serviceOptions = { latencyMs: 15, bodyMs: 5, numbered: true };

export async function measureDamage(
  peer: Peer,
  plan: KillPlan,
  reportProgress: (line: string) => void,
): Promise<Damage> {
  const damage: Damage = {
    kills: 0,
    failedStarts: 0,
    requests: 0,
    lost: 0,
    duplicated: 0,
    torn: 0,
    tornListed: 0,
    partialListed: 0,
    tornPublished: 0,
    partialPublished: 0,
  };
  const duration = await measureUndisturbedRun(peer, plan);
  for (let run = 1; run <= plan.runs; run += 1) {
    reportProgress(`peers, killed: ${peer.name}, run ${run} of ${plan.runs}`);
    await killRun(peer, plan, run, duration, damage);
  }
  return damage;
}

interface Duration {
  /** From the start to the first request. */
  readonly startMs: number;
  /** From the first request to the end. */
  readonly exportMs: number;
}

async function measureUndisturbedRun(peer: Peer, plan: KillPlan): Promise<Duration> {
  return await inTemporaryFolder(async (out) => {
    let firstRequestAt: number | undefined;
    await using service = await startPageService({ ...serviceOptions, ...plan }, () => {
      firstRequestAt ??= performance.now();
    });
    const startedAt = performance.now();
    const { code, stderr } = await startPeer(peer, service.baseUrl, out).ended;
    const endedAt = performance.now();
    if (code !== 0 || firstRequestAt === undefined) {
      throw new Error(`${peer.name} ended with ${code}: ${stderr.slice(-2_000)}`);
    }
    return { startMs: firstRequestAt - startedAt, exportMs: endedAt - firstRequestAt };
  });
}

async function killRun(peer: Peer, plan: KillPlan, run: number, duration: Duration, damage: Damage): Promise<void> {
  await inTemporaryFolder(async (out) => {
    const document = createPageDocument(plan.pageBytes, true);
    let onFirstRequest = () => {};
    await using service = await startPageService({ ...serviceOptions, ...plan }, () => {
      damage.requests += 1;
      onFirstRequest();
    });
    for (let start = 1, failures = 0; ; start += 1) {
      const peerProcess = startPeer(peer, service.baseUrl, out);
      const { promise: firstRequest, resolve } = Promise.withResolvers<void>();
      onFirstRequest = resolve;
      const ended = new AbortController();
      if (start <= plan.maxKills) {
        const { signal } = ended;
        // A start that only finishes what exists sends no request, and is killed all the same.
        void Promise.race([firstRequest, sleep(2 * duration.startMs, undefined, { signal })])
          .then(() => sleep(fraction(`${plan.seed}/${run}/${start}`) * duration.exportMs, undefined, { signal }))
          .then(peerProcess.kill, () => {});
      }
      const { code, stderr } = await peerProcess.ended;
      ended.abort();
      const { listed, published = listed } = await peer.readOutput(out, document);
      if (code === 0) {
        countDamage(damage, published, plan.pages);
        return;
      }
      if (code === null) {
        damage.kills += 1;
        damage.tornListed += Number(listed.includes('torn'));
        damage.partialListed += Number(isPartial(listed, plan.pages));
        damage.tornPublished += Number(published.includes('torn'));
        damage.partialPublished += Number(isPartial(published, plan.pages));
      } else {
        damage.failedStarts += 1;
        failures += 1;
        if (failures === 3) throw new Error(`${peer.name} does not restart after a kill: ${stderr.slice(-2_000)}`);
      }
    }
  });
}

function countDamage(damage: Damage, found: readonly FoundPage[], pages: number): void {
  const intact = found.filter((page) => page !== 'torn');
  const distinct = new Set(intact).size;
  damage.lost += pages - distinct;
  damage.duplicated += intact.length - distinct;
  damage.torn += found.length - intact.length;
}

function isPartial(found: readonly FoundPage[], pages: number): boolean {
  return found.length > 0 && new Set(found.filter((page) => page !== 'torn')).size < pages;
}

async function inTemporaryFolder<Result>(act: (out: string) => Promise<Result>): Promise<Result> {
  const out = await createTemporaryFolder(join(process.cwd(), '.bench-'));
  try {
    return await act(out);
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

/** From 0 to 1, always the same for the same text. */
function fraction(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE() / 2 ** 32;
}
